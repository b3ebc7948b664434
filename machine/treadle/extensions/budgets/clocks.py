"""Real time: how long turns take, and what of it was before this process."""

from __future__ import annotations

import trio
from attrs import define

from ...session import Session
from ..usage import USAGE


@define(eq=False)
class Clock:
    """How long the turns of one session have taken.

    Attributes:
        before: seconds of the turns that had ended when the session was first seen, by its log.
        ended: seconds of those that ended since.
        began: when the open turn began, ``None`` while none is open.
    """

    before: float
    ended: float = 0.0
    began: float | None = None

    @classmethod
    def of(cls, session: Session, opened: float | None = None) -> Clock:
        """The clock of a session that is seen for the first time.

        Args:
            session: the session.
            opened: when its open turn began, by trio's clock; just now where nobody saw it.
        """
        ledger = USAGE.of(session)
        began = (trio.current_time() if opened is None else opened) if ledger.turn_open else None
        return cls(ledger.seconds, 0.0, began)

    def turn_began(self) -> None:
        """A turn begins."""
        self.began = trio.current_time()

    def turn_ended(self) -> None:
        """The open turn ended."""
        self.ended += self.turn
        self.began = None

    @property
    def turn(self) -> float:
        """Seconds since the open turn began; 0 while none is open."""
        return 0.0 if self.began is None else trio.current_time() - self.began

    @property
    def session(self) -> float:
        """Seconds of all turns."""
        return self.before + self.ended + self.turn
