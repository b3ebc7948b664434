"""Rows of a database, read as the events of a session: each in its place, up to the first that is damaged (N6, P3)."""

from __future__ import annotations

from collections.abc import Iterable

from treadle import Event, SessionCorrupt
from treadle.errors import InvalidData
from treadle.session import Reader, misplaced, read_header


def reader_of(session_id: str, record: bytes, where: str) -> Reader:
    """What reads the events that stand with a header record.

    Args:
        session_id: whose header it has to be.
        record: the header record.
        where: names the place in messages.

    Raises:
        SessionCorrupt: it is no header, or another session's.
        SessionFormatUnsupported: it is in another format (P5).
    """
    try:
        reader = read_header(record)
    except InvalidData as error:
        raise SessionCorrupt(str(error), path=where, line=1) from error
    if reader.header.id != session_id:
        raise SessionCorrupt(f"the header names session {reader.header.id!r}", path=where, line=1)
    return reader


def events_of(
    reader: Reader, rows: Iterable[tuple[int, bytes]], where: str, first: int = 0
) -> tuple[list[Event], SessionCorrupt | None]:
    """The events of rows of number and record, and what is wrong with the row at which they end before the last.

    Args:
        reader: reads them.
        rows: in the order of their numbers.
        where: names the place in messages.
        first: the number that is due first.
    """
    events: list[Event] = []
    for seq, record in rows:
        due = first + len(events)
        try:
            entry = reader.event(record)
        except InvalidData as error:
            damage = SessionCorrupt(str(error), due, path=where, line=due + 2)
            damage.__cause__ = error
            return events, damage
        if seq != due or entry.seq != due:
            return events, misplaced(entry.seq if entry.seq != due else seq, due, where, due + 2)
        events.append(entry)
    return events, None
