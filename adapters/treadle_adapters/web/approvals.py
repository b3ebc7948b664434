"""Approvals over HTTP: an answer that comes too late is told so."""

from __future__ import annotations

from collections.abc import Callable

from ..approvals import Approval
from ..approvals import Approvals as Asked
from .problems import Refused

REMEMBERED = 1_000
"""How many answers are remembered, so that a second one is told that it comes too late."""


class Approvals(Asked):
    """Answers hooks that ask, through whoever watches the session; ``Host(approver=…)`` of the web (K2).

    Args:
        ring: told the session whose questions have changed.
    """

    def __init__(self, ring: Callable[[str], None]) -> None:
        super().__init__(ring)
        self._answered: dict[str, None] = {}

    def answer(self, session: str, id: str, approved: bool) -> Approval:
        """Answer a question of one session; the first answer stands.

        Raises:
            Refused: it was answered before (``ANSWERED``), or nothing waits under that id (``NOT_PENDING``).
        """
        if id in self._answered or self.is_answered(id):
            raise Refused(409, "ANSWERED", "this approval was answered before; the first answer stands")
        answered = super().answer(session, id, approved)
        if answered is None:
            raise Refused(404, "NOT_PENDING", "nothing waits for approval under this id: its turn may have ended")
        self._answered[id] = None
        if len(self._answered) > REMEMBERED:
            del self._answered[next(iter(self._answered))]
        return answered
