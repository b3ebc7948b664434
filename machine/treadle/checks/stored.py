"""What a log must hold before it is driven on: every rule that the checker of logs knows (P3, O13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ..errors import InvalidData, MisuseError, SessionCorrupt, SessionFormatUnsupported
from ..lossless import MAX_EVENT_BYTES, check_bytes, check_json
from ..session.fork import fork_points
from ..session.log import Session, SessionHeader
from ..session.repair import LogEnd
from ..session.store import StoredSession
from ..sums import to_builtins
from ..words.events import EndSeed, Event, decode_event, encode_event
from .intake import LogIntake
from .monitor import LogMonitor


def closed_session(stored: StoredSession) -> tuple[Session, LogEnd]:
    """The session that a stored log gives, with what closes the turn that a crash left open (P4).

    Returns:
        The session, and where its log ended; what closes that is in the session, and not stored yet.

    Raises:
        SessionCorrupt: the log breaks a rule; its event is named, and where a fork could begin before it.
    """
    intake = LogIntake(hold_all=True)
    intake.begin(stored.header)
    intake.take(stored.events)
    resumed = intake.finish()
    return resumed.session, resumed.end


def seeded_session(header: SessionHeader, seed: Sequence[Event]) -> Session:
    """The session that begins with copies of a seed, marked where all of it is inherited; resuming would take it (O13, S5).

    Raises:
        MisuseError: it holds what is no event or cannot be recorded, breaks a rule, ends inside a turn, or holds another
            number of inherited events than the header; the event is named, and how much of it could be taken.
    """
    what = f"the seed of session {header.id!r}"
    events = [_copied(entry, f"{what}: event {number}") for number, entry in enumerate(cast("Sequence[object]", seed))]
    if header.inherited > len(events):
        raise MisuseError(f"{header.inherited} events cannot be inherited of a seed of {len(events)} (O13)")
    try:
        session = Session(header, events)
    except SessionCorrupt as error:
        raise MisuseError(f"{what}: {error}; events are numbered from 0, as a session has them (O13)") from error
    monitor, broken = _read(session)
    if broken is not None:
        told, seq = broken
        raise MisuseError(f"{what}: {told}; its first {fork_points(events[:seq])[-1]} events can be taken (O13)")
    if monitor.unfinished is not None:
        fits = fork_points(events)[-1]
        raise MisuseError(f"{what} ends inside {monitor.unfinished}; its first {fits} events can be taken (S5, O13)")
    if header.inherited and header.inherited == len(events):
        session.commit(EndSeed(len(events), header.parent_session))
        return session
    misfit = monitor.misfit(header)
    if misfit is not None:
        raise MisuseError(
            f"{what}: {misfit} (S5); give that number as inherited_event_count, or {len(events)} to inherit all of it"
        )
    return session


def _copied(entry: object, what: str) -> Event:
    if not isinstance(entry, Event):
        raise MisuseError(f"{what} must be a treadle.Event, not {type(entry).__name__} (O13)")
    try:
        check_json(to_builtins(entry))
        line = encode_event(entry)
        check_bytes(len(line), "it", MAX_EVENT_BYTES)
        return decode_event(line)
    except (InvalidData, SessionFormatUnsupported, TypeError, ValueError, RecursionError) as error:
        raise MisuseError(f"{what} cannot be recorded: {error} (O13, S1)") from error


def _read(session: Session) -> tuple[LogMonitor, tuple[str, int] | None]:
    """What the checker found in a log, and the first rule that it breaks."""
    monitor = LogMonitor()
    for entry in session.events:
        monitor.take(entry)
    for breach in monitor.breaches:
        return monitor, (f"event {breach.seq} breaks a rule: [{breach.rule}] {breach.message}", breach.seq)
    return monitor, None
