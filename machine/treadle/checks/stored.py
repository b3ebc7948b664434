"""What a stored log must hold before it is driven on: every rule that the checker of logs knows (P3)."""

from __future__ import annotations

from ..errors import SessionCorrupt
from ..session.fork import fork_points
from ..session.log import Session
from ..session.repair import LogEnd, end_of_log
from ..session.store import StoredSession
from .monitor import LogMonitor


def closed_session(stored: StoredSession) -> tuple[Session, LogEnd]:
    """The session that a stored log gives, with what closes the turn that a crash left open (P4).

    Returns:
        The session, and where its log ended; what closes that is in the session, and not stored yet.

    Raises:
        SessionCorrupt: the log breaks a rule; its event is named, and where a fork could begin before it.
    """
    session = Session(stored.header, stored.events)
    end = end_of_log(stored.events)
    for data in end.closing:
        session.commit(data)
    monitor = LogMonitor()
    for entry in session.events:
        monitor.take(entry)
    for breach in monitor.breaches:
        raise _corrupt(stored, f"event {breach.seq} breaks a rule: [{breach.rule}] {breach.message}", breach.seq)
    misfit = monitor.misfit(stored.header)
    if misfit is not None:
        raise _corrupt(stored, f"{misfit} (S5)", len(stored.events))
    return session, end


def _corrupt(stored: StoredSession, what: str, seq: int) -> SessionCorrupt:
    before = fork_points(stored.events[:seq])[-1]
    return SessionCorrupt(
        f"session {stored.header.id!r}: {what}; nothing is rewritten, `treadle check` tells all, and a fork after "
        f"{before} events holds what lies before",
        seq,
    )
