"""Taking a stored log in, event by event: session, end and verdict, without the log itself in memory (P3, P4, S11)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from ..errors import SessionCorrupt
from ..session.log import Session, SessionHeader
from ..session.repair import EndOfLog, LogEnd
from ..words.events import Event
from . import checkpoint
from .monitor import LogMonitor

HELD = 2_000
"""How many of the newest events a session holds, where the others can be read back."""


@frozen
class Resumed:
    """What an agent goes on with.

    Attributes:
        session: with what closes the turn that a crash left open; that is not stored yet.
        end: where its log ended.
        monitor: what checked it, up to its end.
    """

    session: Session
    end: LogEnd
    monitor: LogMonitor


class LogIntake:
    """Implements ``Intake``: builds the session of a stored log and checks it, each event once.

    Args:
        hold_all: whether the session is to hold all events: of a store that cannot read back.
    """

    __slots__ = ("_broken", "_end", "_hold_all", "_monitor", "_session", "_types")

    def __init__(self, *, hold_all: bool = False) -> None:
        self._hold_all = hold_all

    @property
    def count(self) -> int:
        """See ``Intake``."""
        return len(self._session)

    @property
    def sound(self) -> bool:
        """See ``Intake``."""
        return self._broken is None and not self._monitor.breaches

    @property
    def session(self) -> Session:
        """The session so far."""
        return self._session

    def begin(self, header: SessionHeader) -> None:
        """See ``Intake``."""
        self._session, self._end, self._monitor = Session(header), EndOfLog(), LogMonitor()
        self._types: set[str] = set()
        self._broken: SessionCorrupt | None = None

    def restore(self, header: SessionHeader, state: Sequence[bytes]) -> bool:
        """See ``Intake``."""
        self.begin(header)
        types = checkpoint.restore(state, self._session, self._end, self._monitor)
        if types is None:
            return False
        self._types = set(types)
        return True

    def take(self, events: Sequence[Event]) -> None:
        """See ``Intake``."""
        session, check = self._session, self._monitor.take
        self._types.update([entry.type for entry in events])
        if self._broken is None:
            try:
                session.load(events)
                self._end.take_all(events)
            except SessionCorrupt as error:
                self._broken = error
        for entry in events:
            check(entry)
        if not self._hold_all:
            session.forget(len(session) - HELD)

    def state(self) -> list[bytes] | None:
        """See ``Intake``."""
        if not self.sound or self._monitor.unfinished is not None:
            return None
        return checkpoint.state_of(self._session, self._end, self._monitor, sorted(self._types))

    def finish(self) -> Resumed:
        """What the log gives, closed.

        Raises:
            SessionCorrupt: the log breaks a rule; its event is named, and where a fork could begin before it (P3).
        """
        session, monitor = self._session, self._monitor
        stored = len(session)
        if self._broken is not None:
            raise self._broken
        end = self._end.end()
        for data in end.closing:
            monitor.take(session.commit(data))
        for breach in monitor.breaches:
            raise self._corrupt(f"event {breach.seq} breaks a rule: [{breach.rule}] {breach.message}", breach.seq)
        misfit = monitor.misfit(session.header)
        if misfit is not None:
            raise self._corrupt(f"{misfit} (S5)", stored)
        return Resumed(session, end, monitor)

    def _corrupt(self, what: str, seq: int) -> SessionCorrupt:
        return SessionCorrupt(
            f"session {self._session.id!r}: {what}; nothing is rewritten, `treadle check` tells all, and a fork after "
            f"{self._end.rest_before(seq)} events holds what lies before",
            seq,
        )
