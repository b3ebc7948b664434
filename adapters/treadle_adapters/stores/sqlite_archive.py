"""What the SQLite store offers of long sessions: reading piece by piece, reading back, and checkpoints (S11).

A session's records are digested as the lines that they would be in a file. A checkpoint is a file beside the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw
import trio
from attrs import define, field

from treadle import Event, SessionCorrupt, SessionNotFound, StoreFailure, TreadleError
from treadle.errors import InvalidData
from treadle.session import Intake, Reader, decode_event, misplaced

from . import sqlite_tables as tables
from .checkpoints import Chain, Checkpoint, agrees, read_checkpoint, write_checkpoint
from .files import to_end

T = TypeVar("T")
Calls = Callable[[Callable[[tables.Connection], T]], T]
"""Calls a function with a connection, in the thread that asks."""
PIECE = 500
"""Records that are read at a time."""


@define
class Read:
    """What the rows of a session held, up to ``count``; the rest as that of a file."""

    reader: Reader
    count: int
    chain: Chain
    used: Checkpoint | None = None
    damage: TreadleError | None = None


def read_in(db: tables.Connection, session_id: str, beside: Path, intake: Intake) -> Read:
    """Read a session into an intake, as of one moment: from its checkpoint on where that holds.

    Raises:
        SessionNotFound: it is not there.
        SessionCorrupt: the header cannot be read.
        SessionFormatUnsupported: another format, or an event type that is unknown here (P5, S2).
    """
    db.execute("BEGIN")
    try:
        head = tables.head(db, session_id)
        checkpoint = read_checkpoint(beside, session_id)
        if checkpoint is not None and agrees(checkpoint, lambda start, end: _text(db, session_id, head, start, end)):
            reader = tables.reader_of(db, session_id, head)
            if not reader.upgrades and intake.restore(reader.header, checkpoint.state):
                read = Read(reader, checkpoint.count, Chain.behind(checkpoint), checkpoint)
                if intake.count == checkpoint.count:
                    take_rows(db, session_id, read, intake)
                    if read.damage is None and intake.sound:
                        return read
        return from_the_beginning(db, session_id, head, intake)
    finally:
        db.execute("COMMIT")


def from_the_beginning(
    db: tables.Connection, session_id: str, head: bytes, intake: Intake, upto: int | None = None
) -> Read:
    """Read a session into an intake, whatever checkpoint there is. Raises as ``read_in`` does."""
    reader = tables.reader_of(db, session_id, head)
    intake.begin(reader.header)
    read = Read(reader, 0, Chain())
    read.chain.take(head + b"\n", 0)
    take_rows(db, session_id, read, intake, upto)
    return read


def take_rows(
    db: tables.Connection,
    session_id: str,
    read: Read,
    intake: Intake,
    upto: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Read rows from where ``read`` ends: to the last one, or up to an event."""
    end = 1 << 62 if upto is None else upto
    rows = db.execute(
        "SELECT seq, CAST(record AS BLOB) FROM events WHERE session = ? AND seq >= ? AND seq < ? ORDER BY seq",
        (session_id, read.count, end),
    )
    place = f"{db.filename}#{session_id}"
    while (piece := _some(rows)) and read.damage is None and not stopped():
        events: list[Event] = []
        for seq, record in piece:
            due = read.count + len(events)
            try:
                entry = read.reader.event(record)
            except InvalidData as error:
                read.damage = SessionCorrupt(str(error), due, path=place, line=due + 2)
                break
            if seq != due or entry.seq != due:
                read.damage = misplaced(entry.seq if entry.seq != due else seq, due, place, due + 2)
                break
            events.append(entry)
        intake.take(events)
        read.count += len(events)
        read.chain.take(b"".join([record + b"\n" for _, record in piece[: len(events)]]), read.count)


def _some(rows: Iterator[Any]) -> list[tuple[int, bytes]]:
    piece: list[tuple[int, bytes]] = []
    for row in rows:
        piece.append(row)
        if len(piece) == PIECE:
            break
    return piece


def _text(db: tables.Connection, session_id: str, head: bytes, start: int, end: int) -> Iterator[bytes]:
    """The records from one number to another as lines, behind the header where they begin with the first."""
    if not start:
        yield head + b"\n"
    for first in range(start, end, PIECE):
        stop = min(first + PIECE, end)
        row = db.execute(
            "SELECT count(*), CAST(group_concat(record, char(10)) AS BLOB) FROM "
            "(SELECT record FROM events WHERE session = ? AND seq >= ? AND seq < ? ORDER BY seq)",
            (session_id, first, stop),
        ).fetchone()
        yield row[1] + b"\n" if row[0] == stop - first else b""


@define(eq=False)
class SqliteArchive:
    """Implements ``Archive`` for one session that is open for writing.

    Attributes:
        session_id: the session.
        beside: where its checkpoint is.
        calls: calls with the reading connection, in the thread that asks.
        count: how many events are stored.
        chain: digests of them, up to where they were read.
        size: bytes that were stored since the session was opened.
        covered: how many events the last checkpoint stands for.
        weight: how many bytes it has.
    """

    session_id: str
    beside: Path
    calls: Calls[Any]
    count: int = 0
    chain: Chain | None = None
    size: int = 0
    covered: int = 0
    weight: int = 0
    _stopped: bool = field(default=False)

    @classmethod
    def of(cls, read: Read, session_id: str, beside: Path, calls: Calls[Any]) -> SqliteArchive:
        """That of a session that was read."""
        archive = cls(session_id, beside, calls, read.count, read.chain)
        if read.used is not None:
            archive.covered, archive.weight = read.used.count, read.used.weight
        return archive

    def stored(self, first: int, records: Sequence[bytes]) -> None:
        """Records were appended from ``first`` on."""
        if records:
            self.count = first + len(records)
        self.size += sum(map(len, records))

    def read(self, first: int, stop: int) -> Sequence[Event]:
        """See ``Past``."""
        rows: list[tuple[int, bytes]] = self._called(lambda db: _rows(db, self.session_id, first, stop))
        if [seq for seq, _ in rows] != list(range(first, stop)):
            raise SessionNotFound(f"events {first} to {stop - 1} of session {self.session_id!r} are there no more")
        try:
            return [decode_event(record) for _, record in rows]
        except InvalidData as error:
            raise SessionCorrupt(
                f"session {self.session_id!r}: events {first} to {stop - 1}: {error}", first
            ) from error

    def _called(self, function: Callable[[tables.Connection], T]) -> T:
        try:
            return self.calls(function)
        except (apsw.Error, OSError) as error:
            raise StoreFailure(f"session {self.session_id!r}: {type(error).__name__}: {error}") from error

    async def keep(self, intake: Intake) -> bool:
        """See ``Archive``."""
        return await to_end(trio.to_thread.run_sync, self._keep, intake)

    def _keep(self, intake: Intake) -> bool:
        chain = self.chain
        if chain is None or intake.count != self.count:
            return False
        for _, record in self._called(lambda db: _rows(db, self.session_id, chain.end, self.count)):
            chain.take(record + b"\n", chain.end + 1)
        return self._write(intake, chain)

    async def advance(self, intake: Intake, upto: int) -> bool:
        """See ``Archive``."""
        return await to_end(trio.to_thread.run_sync, self._advance, intake, upto)

    def _advance(self, intake: Intake, upto: int) -> bool:
        """Each piece is a call of its own, so that others get at the connection in between."""
        head: bytes = self._called(lambda db: tables.head(db, self.session_id))
        reader = self._called(lambda db: tables.reader_of(db, self.session_id, head))
        last = read_checkpoint(self.beside, self.session_id)
        if last is not None and intake.restore(reader.header, last.state) and intake.count == last.count:
            read = Read(reader, last.count, Chain.behind(last), last)
        else:
            intake.begin(reader.header)
            read = Read(reader, 0, Chain())
            read.chain.take(head + b"\n", 0)
        while read.count < upto and read.damage is None and not self._stopped:
            before, stop = read.count, min(read.count + PIECE, upto)
            self._called(lambda db, stop=stop: take_rows(db, self.session_id, read, intake, stop))
            if read.count == before:
                return False
        return read.count == upto and read.damage is None and intake.count == upto and self._write(intake, read.chain)

    def _write(self, intake: Intake, chain: Chain) -> bool:
        state = intake.state()
        if state is None or chain.end != intake.count:
            return False
        checkpoint = Checkpoint(intake.count, chain.end, 0, chain.closed(), (), state)
        try:
            self.beside.parent.mkdir(mode=0o700, exist_ok=True)
            self.weight = write_checkpoint(self.beside, self.session_id, checkpoint)
        except OSError as error:
            raise StoreFailure(f"{error}: no checkpoint of session {self.session_id!r}") from error
        self.covered = intake.count
        return True

    def stop(self) -> None:
        """See ``Archive``."""
        self._stopped = True


def _rows(db: tables.Connection, session_id: str, first: int, stop: int) -> list[tuple[int, bytes]]:
    return db.execute(
        "SELECT seq, CAST(record AS BLOB) FROM events WHERE session = ? AND seq >= ? AND seq < ? ORDER BY seq",
        (session_id, first, stop),
    ).fetchall()
