"""The tables of the SQLite store, and what is done to them in one transaction each. Runs in worker threads (§13)."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from treadle import DuplicateSession, Event, SessionHeader, SessionLocked, SessionNotFound, TreadleError
from treadle.errors import SessionFormatUnsupported
from treadle.session import (
    Listed,
    Listing,
    Reader,
    StoredSession,
    Unreadable,
    encode_event,
    encode_header,
    new_id,
    title_of,
    wall_clock,
)

from . import rows

SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY,          -- the session
    header TEXT NOT NULL,         -- the header record
    epoch INTEGER NOT NULL,       -- grows with every opening for writing: the fencing token (P2)
    incarnation TEXT NOT NULL,    -- tells a session from one of the same id that was deleted
    size INTEGER NOT NULL,        -- bytes of all records
    modified INTEGER NOT NULL     -- milliseconds since the epoch
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    record TEXT NOT NULL,         -- the event, as a line of a log
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
"""
TITLE_EVENTS = 50
"""How many events, from the first on, a listing looks at for a title (P6)."""
TITLE_BYTES = 32_768
"""How long a record a listing reads for a title may be (P6)."""

Connection = Any
"""An ``apsw`` connection."""
Fence = tuple[str, int]
"""Which creation of a session a writer opened, and with which epoch: a write checks both in its transaction (P2)."""


def prepare(db: Connection, busy_ms: int, *, durable: bool) -> None:
    """Set a connection up, and the tables if they are not there. Races of many openers are waited out."""
    db.set_busy_timeout(busy_ms)
    deadline = time.monotonic() + busy_ms / 1000
    while True:
        try:
            db.pragma("journal_mode", "wal")
            break
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    db.pragma("synchronous", "FULL" if durable else "OFF")
    if db.pragma("user_version") == SCHEMA_VERSION:
        return
    with immediate(db):
        version = db.pragma("user_version")
        if version > SCHEMA_VERSION:
            raise SessionFormatUnsupported(
                f"{db.filename} has tables of version {version}, this treadle knows {SCHEMA_VERSION} (P5): use a newer one"
            )
        for statement in SCHEMA.split(";\n"):
            db.execute(statement)
        db.pragma("user_version", SCHEMA_VERSION)


@contextmanager
def immediate(db: Connection) -> Generator[None]:
    """One writing transaction: all or nothing; waits for other writers first."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def insert(db: Connection, header: SessionHeader, events: Sequence[Event]) -> Fence:
    """Store a new session; returns its fence.

    Raises:
        DuplicateSession: the id is there.
    """
    record, incarnation = encode_header(header), new_id()
    with immediate(db):
        if _one(db, "SELECT 1 FROM sessions WHERE id = ?", header.id) is not None:
            raise DuplicateSession(f"a session {header.id!r} is stored already; resume it, or choose another id (O2)")
        row = (header.id, record.decode(), 1, incarnation, len(record), wall_clock())
        db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", row)
        _put(db, header.id, 0, [encode_event(entry) for entry in events])
    return incarnation, 1


def take(db: Connection, session_id: str) -> Fence:
    """Fence every earlier writer off; returns the new fence (P2)."""
    with immediate(db):
        row = _one(db, "UPDATE sessions SET epoch = epoch + 1 WHERE id = ? RETURNING incarnation, epoch", session_id)
        if row is None:
            raise _missing(db, session_id)
    return row


def append(db: Connection, session_id: str, fence: Fence, first: int, records: Sequence[bytes]) -> None:
    """Add records from seq ``first`` on, if the fence still is ours.

    Raises:
        SessionLocked: it is not, or somebody else added events; nothing was written (P2).
    """
    with immediate(db):
        row = _one(db, "SELECT incarnation, epoch FROM sessions WHERE id = ?", session_id)
        if row != fence:
            raise SessionLocked(
                f"the lock of session {session_id!r} was lost: another writer has opened it since, or it was deleted; "
                "nothing was written (P2)"
            )
        if (there := _count(db, session_id)) != first:
            raise SessionLocked(
                f"session {session_id!r} holds {there} events where {first} are due: somebody else changed it; "
                "nothing was written (P2): open the session again"
            )
        _put(db, session_id, first, records)


def _put(db: Connection, session_id: str, first: int, records: Sequence[bytes]) -> None:
    rows = [(session_id, first + index, record.decode()) for index, record in enumerate(records)]
    db.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
    size = sum(map(len, records))
    db.execute("UPDATE sessions SET size = size + ?, modified = ? WHERE id = ?", (size, wall_clock(), session_id))


def rewrite(db: Connection, session_id: str, fence: Fence, header: SessionHeader, events: Iterable[Event]) -> None:
    """Replace a session of an older format by the same one in the current format (P5)."""
    with immediate(db):
        record = encode_header(header)
        db.execute(
            "UPDATE sessions SET header = ?, size = ? WHERE id = ? AND incarnation = ? AND epoch = ?",
            (record.decode(), len(record), session_id, *fence),
        )
        db.execute("DELETE FROM events WHERE session = ?", (session_id,))
        _put(db, session_id, 0, [encode_event(entry) for entry in events])


def delete(db: Connection, session_id: str) -> None:
    """Remove a session."""
    with immediate(db):
        db.execute("DELETE FROM events WHERE session = ?", (session_id,))
        db.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
        if not db.changes():
            raise _missing(db, session_id)


def load(db: Connection, session_id: str) -> tuple[StoredSession, Reader]:
    """Read a session as of one moment."""
    db.execute("BEGIN")
    try:
        row = _one(db, "SELECT CAST(header AS BLOB), incarnation FROM sessions WHERE id = ?", session_id)
        if row is None:
            raise _missing(db, session_id)
        found = db.execute(
            "SELECT seq, CAST(record AS BLOB) FROM events WHERE session = ? ORDER BY seq", (session_id,)
        ).fetchall()
        count = _count(db, session_id)
    finally:
        db.execute("COMMIT")
    reader = reader_of(db, session_id, row[0])
    place = f"{db.filename}#{session_id}"
    events, damage = rows.events_of(reader, found, place)
    return StoredSession(reader.header, events, f"{row[1]}.{count}", damage=damage), reader


def head(db: Connection, session_id: str) -> bytes:
    """The header record of a session.

    Raises:
        SessionNotFound: it is not there.
    """
    row = _one(db, "SELECT CAST(header AS BLOB) FROM sessions WHERE id = ?", session_id)
    if row is None:
        raise _missing(db, session_id)
    return row[0]


def revision(db: Connection, session_id: str) -> str:
    """The present revision."""
    row = _one(db, "SELECT incarnation FROM sessions WHERE id = ?", session_id)
    if row is None:
        raise _missing(db, session_id)
    return f"{row[0]}.{_count(db, session_id)}"


def listing(db: Connection) -> Listing:
    """All sessions, newest first; those whose header cannot be read beside them (P6)."""
    good: list[Listed] = []
    bad: list[Unreadable] = []
    rows = db.execute(
        "SELECT id, CAST(header AS BLOB), size, modified FROM sessions ORDER BY modified DESC, id"
    ).fetchall()
    for name, record, size, modified in rows:
        try:
            reader = reader_of(db, name, record)
            good.append(Listed(reader.header, size, modified, _count(db, name), _title(db, name, reader)))
        except TreadleError as error:
            bad.append(Unreadable(str(name), error))
    return Listing(tuple(good), tuple(bad))


def _title(db: Connection, session_id: str, reader: Reader) -> str:
    rows = db.execute(
        "SELECT CAST(record AS BLOB) FROM events WHERE session = ? AND seq < ? AND octet_length(record) < ? "
        "AND record LIKE '%\"user/message\"%' ORDER BY seq",
        (session_id, TITLE_EVENTS, TITLE_BYTES),
    )
    for (record,) in rows:
        try:
            if title := title_of(reader.event(record)):
                return title
        except TreadleError:
            return ""
    return ""


def _count(db: Connection, session_id: str) -> int:
    row = _one(db, "SELECT max(seq) + 1 FROM events WHERE session = ?", session_id)
    return int(row[0] or 0) if row is not None else 0


def _one(db: Connection, sql: str, *values: Any) -> Any:
    return db.execute(sql, values).fetchone()


def _missing(db: Connection, session_id: str) -> SessionNotFound:
    return SessionNotFound(f"no session {session_id!r} in {db.filename}; list() tells which there are")


def reader_of(db: Connection, session_id: str, record: bytes) -> Reader:
    """What reads the events that stand with a header record; raises as ``rows.reader_of`` does."""
    return rows.reader_of(session_id, record, f"{db.filename}#{session_id}")
