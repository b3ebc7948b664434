"""What is done to one session, or asked about all, in one transaction each. Runs in worker threads (§13).

What changes something may be called again after its answer was lost, and comes to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, LiteralString

from attrs import frozen
from psycopg.adapt import Loader
from psycopg.pq import Format

from treadle import DuplicateSession, Event, SessionCorrupt, SessionHeader, SessionLocked, SessionNotFound, TreadleError
from treadle.errors import LeaseLost
from treadle.session import (
    Listed,
    Listing,
    Reader,
    StoredSession,
    Unreadable,
    encode_event,
    encode_header,
    title_of,
)

from ..rows import events_of, reader_of
from .link import Connection, Row

TITLE_EVENTS = 50
"""How many events, from the first on, a listing looks at for a title (P6)."""
TITLE_BYTES = 32_768
"""How long a record a listing reads for a title may be (P6)."""
AT_ONCE = 5_000
"""Records that a follower is given together at most."""


@frozen
class Writing:
    """Who writes: a store, as other processes see it.

    Attributes:
        owner: its id, process and machine; unique.
        has: whether it has a session open itself.
        leased: whether it is a replica: its beats show that it lives, and not a lock.
    """

    owner: str
    has: Callable[[str], bool]
    leased: bool = False


# --- creating, taking, letting go -------------------------------------------------------------------------------------


def alive(conn: Connection, owner: str) -> None:
    """Hold what shows others that this owner lives: it ends with the connection."""
    conn.execute("select pg_advisory_lock(hashtextextended(%s, 0))", (owner,))


def insert(conn: Connection, header: SessionHeader, records: Sequence[str], made: str, me: Writing) -> int:
    """Store a new session; returns its epoch.

    Raises:
        DuplicateSession: the id is there.
    """
    record = encode_header(header).decode()
    size = len(record.encode()) + sum([len(each.encode()) for each in records])
    with conn.transaction():
        _living(conn, me)
        row = conn.execute(
            "insert into sessions (id, header, made, owner, epoch, next_seq, size, modified) "
            "values (%s, %s, %s, %s, nextval('epochs'), %s, %s, (extract(epoch from clock_timestamp()) * 1000)::int8) "
            "on conflict (id) do nothing returning epoch",
            (header.id, record, made, me.owner, len(records), size),
        ).fetchone()
        if row is None:
            there = conn.execute("select epoch from sessions where id = %s and made = %s", (header.id, made)).fetchone()
            if there is None:
                raise DuplicateSession(
                    f"a session {header.id!r} is stored already; resume it, or choose another id (O2)"
                )
            return int(there[0])
        _put(conn, header.id, row[0], records)
        return int(row[0])


def _put(conn: Connection, session_id: str, epoch: int, records: Sequence[str]) -> None:
    conn.execute(
        "insert into events (session, seq, epoch, record) "
        "select %s, r.seq - 1, %s, r.record from unnest(%b::text[]) with ordinality as r (record, seq)",
        (session_id, epoch, list(records)),
    )


def take(conn: Connection, session_id: str, me: Writing) -> int:
    """Become the writer, and fence every earlier one off; returns the epoch (P2).

    Raises:
        SessionLocked: it has a writer that lives.
    """
    with conn.transaction():
        _living(conn, me)
        _free(conn, session_id, me)
        row = conn.execute(
            "update sessions set owner = %s, epoch = nextval('epochs') where id = %s returning epoch",
            (me.owner, session_id),
        ).fetchone()
    assert row is not None
    return int(row[0])


def _free(conn: Connection, session_id: str, me: Writing) -> None:
    """Hold the row of a session that nobody writes, until the transaction's end.

    Raises:
        SessionLocked: somebody does.
        SessionNotFound: there is none.
    """
    row = conn.execute(
        "select s.owner, r.dead from sessions s left join replicas r on r.id = s.owner where s.id = %s "
        "for no key update of s",
        (session_id,),
    ).fetchone()
    if row is None:
        raise _missing(conn, session_id)
    owner, dead = row
    if owner is None or dead or (owner == me.owner and not me.has(session_id)):
        return
    if owner != me.owner and dead is None:
        gone = conn.execute("select pg_try_advisory_xact_lock_shared(hashtextextended(%s, 0))", (owner,)).fetchone()
        if gone is not None and gone[0]:
            return
    _, process, machine = (*owner.split(" ", 2), "?", "?")[:3]
    raise SessionLocked(
        f"session {session_id!r} is being written by process {process} on {machine[:200]!r} (P2); close it there first"
    )


def _living(conn: Connection, me: Writing) -> None:
    """See that a replica is not buried yet: what it owned then could have no owner that lives.

    Raises:
        LeaseLost: it is.
    """
    if me.leased and not conn.execute("select 1 from replicas where id = %s and not dead", (me.owner,)).fetchone():
        raise LeaseLost("this replica was taken for dead by others; its sessions are theirs (P2)")


def release(conn: Connection, session_id: str, epoch: int) -> None:
    """Let the next writer in, if the session still is ours."""
    conn.execute("update sessions set owner = null where id = %s and epoch = %s", (session_id, epoch))


def rewrite(conn: Connection, session_id: str, epoch: int, header: SessionHeader, events: Sequence[Event]) -> None:
    """Replace a session of an older format by the same one in the current format (P5)."""
    record, records = encode_header(header).decode(), encoded(events)
    size = len(record.encode()) + sum([len(each.encode()) for each in records])
    with conn.transaction():
        held = conn.execute(
            "update sessions set header = %s, next_seq = %s, size = %s where id = %s and epoch = %s returning 1",
            (record, len(records), size, session_id, epoch),
        ).fetchone()
        if held is None:
            raise SessionLocked(f"the lock of session {session_id!r} was lost; nothing was written (P2)")
        conn.execute("delete from events where session = %s", (session_id,))
        _put(conn, session_id, epoch, records)


def delete(conn: Connection, session_id: str, me: Writing) -> None:
    """Remove a session."""
    with conn.transaction():
        _free(conn, session_id, me)
        conn.execute("delete from events where session = %s", (session_id,))
        conn.execute("delete from sessions where id = %s", (session_id,))


EXPIRE = """
delete from sessions where id in (
    select s.id from sessions s left join replicas r on r.id = s.owner
    where s.modified < %s and (
        s.owner is null or r.dead
        or (s.owner <> %s and r.id is null and pg_try_advisory_xact_lock_shared(hashtextextended(s.owner, 0)))
    )
    order by s.modified limit %s for update of s skip locked
) returning id
"""


def expire(conn: Connection, before: int, limit: int, me: Writing) -> list[str]:
    """Remove sessions without a writer that lives, last written before a moment, the oldest first; returns their ids."""
    with conn.transaction():
        gone = [row[0] for row in conn.execute(EXPIRE, (before, me.owner, limit)).fetchall()]
        conn.execute("delete from events where session = any(%s)", (gone,))
    return gone


def encoded(events: Sequence[Event]) -> list[str]:
    """Events as the database keeps them."""
    return [encode_event(entry).decode() for entry in events]


# --- reading ----------------------------------------------------------------------------------------------------------


class Raw(Loader):
    """Text as the bytes it came in: what decodes JSON wants these."""

    format = Format.BINARY

    def load(self, data: Any) -> bytes:
        """The bytes."""
        return bytes(data)


def _raw(conn: Connection, statement: LiteralString, values: Sequence[Any]) -> list[Row]:
    cursor = conn.cursor(binary=True)
    cursor.adapters.register_loader("text", Raw)
    return cursor.execute(statement, values).fetchall()


def load(conn: Connection, session_id: str, place: str) -> tuple[StoredSession, Reader]:
    """Read a session as of one moment."""
    with conn.transaction():
        conn.execute("set transaction isolation level repeatable read, read only")
        found = _raw(conn, "select header, made, next_seq from sessions where id = %s", (session_id,))
        if not found:
            raise _missing(conn, session_id)
        rows = _raw(conn, "select seq, record from events where session = %s order by seq", (session_id,))
    header, made, count = found[0]
    reader = reader_of(session_id, header, f"{place}#{session_id}")
    where = f"{place}#{session_id}"
    events, damage = events_of(reader, rows, where)
    if damage is None and len(events) != count:
        damage = SessionCorrupt(
            f"{len(events)} events where {count} were written", len(events), path=where, line=len(events) + 2
        )
    return StoredSession(reader.header, events, f"{made.decode()}.{count}", damage=damage), reader


def news(conn: Connection, session_id: str, first: int, place: str) -> list[Event]:
    """Events from seq ``first`` on, as many as are given together.

    Raises:
        SessionNotFound: the session is not there.
        SessionCorrupt: one of them cannot be read, or does not follow.
    """
    found = _raw(conn, "select header from sessions where id = %s", (session_id,))
    if not found:
        raise _missing(conn, session_id)
    where = f"{place}#{session_id}"
    reader = reader_of(session_id, found[0][0], where)
    rows = _raw(
        conn,
        "select seq, record from events where session = %s and seq >= %s order by seq limit %s",
        (session_id, first, AT_ONCE),
    )
    events, damage = events_of(reader, rows, where, first)
    if damage is not None:
        raise damage
    return events


def revision(conn: Connection, session_id: str) -> str:
    """The present revision."""
    row = conn.execute("select made, next_seq from sessions where id = %s", (session_id,)).fetchone()
    if row is None:
        raise _missing(conn, session_id)
    return f"{row[0]}.{row[1]}"


LISTING = """
select s.id, s.header, s.size, s.modified, s.next_seq, coalesce(t.record, '')
from sessions s left join lateral (
    select e.record from events e
    where e.session = s.id and e.seq < %s and octet_length(e.record) < %s and e.record like '%%"user/message"%%'
    order by e.seq limit 1
) t on true
{where} order by s.modified desc, s.id {limit}
"""
ALL = LISTING.format(where="", limit="")
HOLDING = LISTING.format(
    where="""where exists (select from events e where e.session = s.id
        and (e.record like '{"type":"user/message"%%' or e.record like '{"type":"assistant/message"%%')
        and position(lower(%s) in lower(e.record)) > 0)""",
    limit="limit %s",
)


def listing(conn: Connection, place: str) -> Listing:
    """All sessions, newest first; those whose header cannot be read beside them (P6)."""
    return _listed(_raw(conn, ALL, (TITLE_EVENTS, TITLE_BYTES)), place)


def search(conn: Connection, text: str, limit: int, place: str) -> Listing:
    """Sessions in whose messages a text stands, as JSON has it, newest first."""
    return _listed(_raw(conn, HOLDING, (TITLE_EVENTS, TITLE_BYTES, text, limit)), place)


def _listed(rows: Sequence[Row], place: str) -> Listing:
    good: list[Listed] = []
    bad: list[Unreadable] = []
    for raw, header, size, modified, count, first in rows:
        name = raw.decode()
        try:
            reader = reader_of(name, header, f"{place}#{name}")
            good.append(Listed(reader.header, size, modified, count, _title(reader, first)))
        except TreadleError as error:
            bad.append(Unreadable(name, error))
    return Listing(tuple(good), tuple(bad))


def _title(reader: Reader, record: bytes) -> str:
    try:
        return title_of(reader.event(record)) if record else ""
    except TreadleError:
        return ""


def _missing(conn: Connection, session_id: str) -> SessionNotFound:
    return SessionNotFound(f"no session {session_id!r} in database {conn.info.dbname}; list() tells which there are")
