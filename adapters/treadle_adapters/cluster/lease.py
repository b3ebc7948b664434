"""How long a replica may act for its sessions, by a clock that goes on while the machine sleeps (P2)."""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import define, field

from treadle.errors import LeaseLost

MARGIN = 0.2
"""The part of a lease at its end in which its owner acts no more, and nobody else yet: for clocks that differ in pace."""
_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


def now() -> float:
    """Seconds on a clock that nobody sets, and that counts the time in which the machine slept, where there is one."""
    return time.clock_gettime(_BOOT) if _BOOT is not None else time.monotonic()


@define(eq=False)
class RunningLease:
    """The lease of one replica: what it has seen of its own beats.

    Attributes:
        owner: the replica's id.
        seconds: after which without a beat others bury it.
        clock: what time it is, for all that the lease is about.
        deadline: until when it may act, on that clock.
        lost: why it may act no more, once that is so.
    """

    owner: str
    seconds: float
    clock: Callable[[], float] = now
    deadline: float = 0.0
    lost: str | None = None
    _fenced: set[str] = field(factory=set[str])

    def renew(self, asked: float) -> None:
        """A beat that was asked for at that moment is on record: nobody buries the replica within a lease of it."""
        self.deadline = max(self.deadline, asked + self.seconds * (1 - MARGIN))

    def end(self, why: str) -> None:
        """It may act no more, for good: a lease that was lost is never taken up again."""
        self.lost = self.lost or why

    def check(self, session_id: str | None = None) -> None:
        """See that the replica may act: for a session, where one is named.

        Raises:
            LeaseLost: its deadline has passed, it was buried, or the session was taken over.
        """
        late = self.clock() - self.deadline
        if late >= 0:
            self.end(f"no beat was on record for longer than the lease allows ({late:.1f} s)")
        if self.lost is not None:
            raise LeaseLost(
                f"the lease of this replica was lost: {self.lost}; nothing is done or written any more (P2)"
            )
        if session_id is not None and session_id in self._fenced:
            raise LeaseLost(
                f"session {session_id!r} was taken over by another replica; nothing is done for it here (P2)"
            )

    def fenced(self, session_id: str) -> None:
        """Note that a session was found to be another's."""
        self._fenced.add(session_id)

    def owned(self, session_id: str) -> None:
        """Note that a session is this replica's again: it was claimed anew."""
        self._fenced.discard(session_id)
