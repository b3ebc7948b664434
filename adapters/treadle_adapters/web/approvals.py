"""Calls that somebody must approve: which wait, and who answers them, once."""

from __future__ import annotations

from collections.abc import Callable
from time import time

import msgspec
import trio
from attrs import define, field

from treadle.hooks import ToolProposal
from treadle.session import new_id

from .problems import Refused

REMEMBERED = 1_000
"""How many answers are remembered, so that a second one is told that it comes too late."""


class Approval(msgspec.Struct, frozen=True, rename="camel"):
    """A call that waits for somebody's approval.

    Attributes:
        arguments: the call's arguments as the model wrote them.
        asked_at: milliseconds since the epoch.
    """

    id: str
    session: str
    call_id: str
    tool: str
    arguments: str
    question: str
    asked_at: int


@define(eq=False)
class _Question:
    approval: Approval
    answered: trio.Event = field(factory=trio.Event)
    approved: bool = False


class Approvals:
    """Answers hooks that ask, through whoever watches the session; ``Host(approver=…)`` of the web (K2).

    A question waits until it is answered or its turn is cancelled; a restart ends it with its turn.

    Args:
        ring: told the session whose questions have changed.
    """

    def __init__(self, ring: Callable[[str], None]) -> None:
        self._ring = ring
        self._open: dict[str, _Question] = {}
        self._answered: dict[str, None] = {}

    async def __call__(self, proposal: ToolProposal, question: str) -> bool:
        """Ask, and wait for the answer."""
        call, session = proposal.call, proposal.agent.id
        approval = Approval(new_id(), session, call.call_id, call.name, call.arguments, question, int(time() * 1000))
        asked = self._open[approval.id] = _Question(approval)
        self._ring(session)
        try:
            await asked.answered.wait()
        finally:
            del self._open[approval.id]
            self._ring(session)
        return asked.approved

    def pending(self, session: str) -> tuple[Approval, ...]:
        """What waits in one session, oldest first; to be called from anywhere."""
        if not self._open:
            return ()
        asked = list(self._open.values())
        return tuple([one.approval for one in asked if one.approval.session == session and not one.answered.is_set()])

    def answer(self, session: str, id: str, approved: bool) -> Approval:
        """Answer a question of one session; the first answer stands.

        Raises:
            Refused: it was answered before (``ANSWERED``), or nothing waits under that id (``NOT_PENDING``).
        """
        asked = self._open.get(id)
        if id in self._answered or (asked is not None and asked.answered.is_set()):
            raise Refused(409, "ANSWERED", "this approval was answered before; the first answer stands")
        if asked is None or asked.approval.session != session:
            raise Refused(404, "NOT_PENDING", "nothing waits for approval under this id: its turn may have ended")
        self._answered[id] = None
        if len(self._answered) > REMEMBERED:
            del self._answered[next(iter(self._answered))]
        asked.approved = approved
        asked.answered.set()
        self._ring(session)
        return asked.approval
