"""Events of many sessions in one commit, each behind its own fence (P1, P2, N6).

One statement counts the events into the rows of the sessions, which locks these and looks at their fences as of then, and
adds events to those only. So one that was taken over holds up no other; nor does one whose row somebody holds, or whose
record the server refuses: a batch that fails is halved until it is found. Letters of the mailbox are taken by the same
statement, of those sessions only: so a letter is in a log, or waits, and never both or neither.

The answer of a commit may be lost. The batch is then sent again, and refused where it was committed: as only its owner
writes under an epoch, a session of that epoch which holds more than was due before holds what was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from attrs import define, field, frozen

from treadle import SessionLocked, StoreFailure

from .link import Connection

ONE = """
with counted as (
    update sessions s
    set next_seq = s.next_seq + %(count)b::int8, size = s.size + %(bytes)b::int8,
        modified = (extract(epoch from clock_timestamp()) * 1000)::int8
    where s.id = %(id)b and s.epoch = %(epoch)b::int8 and s.next_seq = %(first)b::int8 and (%(first)b::int8 = 0
        or exists (select from events e where e.session = %(id)b and e.seq = %(first)b::int8 - 1))
    returning s.id, s.epoch
), written as (
    insert into events (session, seq, epoch, record)
    select counted.id, %(first)b::int8 + r.number - 1, counted.epoch, r.record
    from counted, unnest(%(records)b::text[]) with ordinality as r (record, number)
)
select id from counted
"""
_BATCH = """
with counted as (
    update sessions s
    set next_seq = s.next_seq + b.count, size = s.size + b.bytes,
        modified = (extract(epoch from clock_timestamp()) * 1000)::int8
    from unnest(%(ids)b::text[], %(epochs)b::int8[], %(firsts)b::int8[], %(counts)b::int8[], %(sizes)b::int8[])
        as b (id, epoch, first, count, bytes)
    where s.id = b.id and s.id = any(%(ids)b::text[]) and s.epoch = b.epoch and s.next_seq = b.first
        and (b.first = 0 or exists (select from events e where e.session = b.id and e.seq = b.first - 1))
    returning s.id, s.epoch
), written as (
    insert into events (session, seq, epoch, record)
    select r.session, r.seq, counted.epoch, r.record
    from unnest(%(sessions)b::text[], %(seqs)b::int8[], %(records)b::text[]) as r (session, seq, record)
    join counted on counted.id = r.session
)
{taken}select id from counted
"""
TAKEN = """, taken as (
    update mailbox m set letter = null, seq = t.seq, answer = t.answer
    from unnest(%(owners)b::text[], %(letters)b::text[], %(places)b::int8[], %(answers)b::text[])
        as t (session, id, seq, answer) join counted on counted.id = t.session
    where m.session = t.session and m.id = t.id and m.session = any(%(owners)b::text[]) and m.id = any(%(letters)b::text[])
        and m.letter is not null
)
"""
MANY, TAKING = _BATCH.format(taken=""), _BATCH.format(taken=TAKEN)
PLANNED = (
    "set lock_timeout = 100; set plan_cache_mode = force_generic_plan; set jit = off; set enable_seqscan = off; "
    "set enable_nestloop = off; set enable_mergejoin = off"
)
"""A batch waits 100 ms for whoever holds a session's row. What makes one plan for these statements, for tables of any size: rows found by their keys, batches joined by hash."""
LOOK = """
select s.id, s.epoch, s.next_seq, b.first = 0 or exists (
    select from events e where e.session = b.id and e.seq = b.first - 1
)
from unnest(%b::text[], %b::int8[]) as b (id, first) join sessions s on s.id = b.id
where s.id = any(%b::text[])
"""


@frozen
class Letter:
    """A letter of the mailbox that is taken by the commit which writes an event (P2).

    Attributes:
        id: the letter's.
        seq: the event that records it.
        answer: what it came to.
        taken: called once that is committed.
    """

    id: str
    seq: int
    answer: str
    taken: Callable[[], None]


@define(eq=False)
class Due:
    """What one session has to write, and what came of it.

    Attributes:
        session: its id.
        epoch: the fence.
        first: the seq of the first record.
        records: encoded events, in order.
        letters: those that are taken with them.
        sent: whether a commit of them may have happened whose answer was lost.
        done: whether it is settled. Where it is not, somebody holds the session's row: to be tried again.
        error: why nothing was written, ``None`` if all was.
    """

    session: str
    epoch: int
    first: int
    records: list[str]
    size: int
    letters: list[Letter] = field(factory=list[Letter])
    sent: bool = False
    done: bool = False
    error: Exception | None = None

    def settle(self, error: Exception | None = None) -> None:
        """Note what came of it."""
        self.done, self.error = True, error


def planned(conn: Connection) -> None:
    """Set a connection up for ``append``."""
    conn.execute(PLANNED)


def append(conn: Connection, batch: Sequence[Due]) -> None:
    """Write what is due, each session wholly or not at all, and settle each whose row nobody holds.

    To be called again if the connection is lost.
    """
    waiting = [due for due in batch if not due.done]
    while waiting:
        try:
            written = _send(conn, waiting)
        except psycopg.Error as error:
            if conn.closed or conn.broken:
                raise
            for due in waiting:
                due.sent = False
            if len(waiting) == 1:
                if not isinstance(error, psycopg.errors.LockNotAvailable):
                    waiting[0].settle(_refused(waiting[0], error))
                return
            middle = len(waiting) // 2
            append(conn, waiting[:middle])
            append(conn, waiting[middle:])
            return
        left: list[Due] = []
        for due in waiting:
            if due.session in written:
                due.settle()
            else:
                left.append(due)
        waiting = _look(conn, left) if left else []


def _send(conn: Connection, batch: Sequence[Due]) -> set[str]:
    for due in batch:
        due.sent = True
    letters = [(due.session, letter) for due in batch for letter in due.letters]
    if len(batch) == 1 and not letters:
        [due] = batch
        values: dict[str, Any] = {
            "id": due.session,
            "epoch": due.epoch,
            "first": due.first,
            "count": len(due.records),
            "bytes": due.size,
            "records": due.records,
        }
        return {row[0] for row in conn.execute(ONE, values, prepare=True).fetchall()}
    sessions: list[str] = []
    seqs: list[int] = []
    records: list[str] = []
    for due in batch:
        count = len(due.records)
        sessions += [due.session] * count
        seqs += range(due.first, due.first + count)
        records += due.records
    values = {
        "ids": [due.session for due in batch],
        "epochs": [due.epoch for due in batch],
        "firsts": [due.first for due in batch],
        "counts": [len(due.records) for due in batch],
        "sizes": [due.size for due in batch],
        "sessions": sessions,
        "seqs": seqs,
        "records": records,
    }
    if letters:
        values |= {
            "owners": [session for session, _ in letters],
            "letters": [letter.id for _, letter in letters],
            "places": [letter.seq for _, letter in letters],
            "answers": [letter.answer for _, letter in letters],
        }
    statement = TAKING if letters else MANY
    return {row[0] for row in conn.execute(statement, values, prepare=True).fetchall()}


def _look(conn: Connection, batch: Sequence[Due]) -> list[Due]:
    """Say what keeps sessions from being written; returns those of which a part was written when an answer was lost."""
    names = [due.session for due in batch]
    values = (names, [due.first for due in batch], names)
    standing = {row[0]: row[1:] for row in conn.execute(LOOK, values).fetchall()}
    again: list[Due] = []
    for due in batch:
        found = standing.get(due.session)
        if found is None or found[0] != due.epoch:
            due.settle(
                SessionLocked(
                    f"the lock of session {due.session!r} was lost: another writer has opened it since, or it was deleted; "
                    "nothing was written (P2)"
                )
            )
            continue
        _, there, whole = found
        if due.sent and due.first < there <= due.first + len(due.records):
            _take_off(due, there - due.first)
            if not due.done:
                again.append(due)
        elif there != due.first or not whole:
            due.settle(
                SessionLocked(
                    f"session {due.session!r} does not hold the {due.first} events it held: somebody else changed it; "
                    "nothing was written (P2): open the session again"
                )
            )
        else:
            due.sent = False
    return again


def _take_off(due: Due, written: int) -> None:
    """So many records were committed when the answer was lost."""
    due.size -= sum([len(record.encode()) for record in due.records[:written]])
    due.first, due.records, due.sent = due.first + written, due.records[written:], False
    due.letters = [letter for letter in due.letters if letter.seq >= due.first]
    if not due.records:
        due.settle()


def _refused(due: Due, error: psycopg.Error) -> Exception:
    said = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if isinstance(error, psycopg.errors.UniqueViolation):
        return SessionLocked(
            f"session {due.session!r} holds events where {due.first} is due: somebody else changed it; nothing was written "
            f"(P2): {said}"
        )
    return StoreFailure(f"the database refuses events {due.first} and on: {said}")
