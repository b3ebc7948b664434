"""Calls that somebody must approve: which wait, and who answers them, once (K2)."""

from __future__ import annotations

from collections.abc import Callable
from time import time

import msgspec
import trio
from attrs import define, field

from treadle.hooks import ToolProposal
from treadle.session import new_id


class Approval(msgspec.Struct, frozen=True, rename="camel"):
    """A call that waits for approval.

    Attributes:
        id: what it is answered by.
        session: whose call it is.
        call_id: the call's.
        tool: the tool's name.
        arguments: the call's arguments as the model wrote them.
        question: what the hook asks.
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
    """Answers hooks that ask, by whoever answers what is pending: an approver of a host (K2).

    A question waits until it is answered or its turn ends; it is not kept over the end of its process.

    Args:
        changed: told the session whose questions have changed.
    """

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._open: dict[str, _Question] = {}

    async def __call__(self, proposal: ToolProposal, question: str) -> bool:
        """Ask, and wait for the answer."""
        call, session = proposal.call, proposal.agent.id
        approval = Approval(new_id(), session, call.call_id, call.name, call.arguments, question, int(time() * 1000))
        asked = self._open[approval.id] = _Question(approval)
        self._changed(session)
        try:
            await asked.answered.wait()
        finally:
            del self._open[approval.id]
            self._changed(session)
        return asked.approved

    def pending(self, session: str) -> tuple[Approval, ...]:
        """What waits in one session, oldest first; to be called from anywhere."""
        if not self._open:
            return ()
        asked = list(self._open.values())
        return tuple([one.approval for one in asked if one.approval.session == session and not one.answered.is_set()])

    def answer(self, session: str, id: str, approved: bool) -> Approval | None:
        """Answer a question of one session; the first answer stands. Returns what was answered, if it waited."""
        asked = self._open.get(id)
        if asked is None or asked.approval.session != session or asked.answered.is_set():
            return None
        asked.approved = approved
        asked.answered.set()
        self._changed(session)
        return asked.approval

    def is_answered(self, id: str) -> bool:
        """Whether a question was answered whose call has not gone on yet."""
        asked = self._open.get(id)
        return asked is not None and asked.answered.is_set()
