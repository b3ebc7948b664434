"""The PostgreSQL store: ``SessionStore`` over a database that any number of machines share (§13)."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeVar

import trio
from attrs import define, evolve, field

from treadle import Event, MisuseError, SessionHeader, SessionLocked, StoreFailure
from treadle.errors import LeaseLost
from treadle.session import WINDOW, BatchWriter, Listing, OpenSession, StoredSession, fork_stored, new_id, readable
from treadle.session import session_id as checked_id

from ..files import to_end
from . import rows
from .append import Due, Letter, planned
from .flusher import Flusher
from .follow import followed, listen
from .link import Connection, Link, Reach
from .notices import Notices
from .place import SCHEMA, Place
from .tables import prepare

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds that an answer of the database is waited for, and that a lost connection is made again."""
COMMITS = 2
"""Commits that are under way at once."""


def owner_here() -> str:
    """A name for an owner of sessions in this process that nobody else has, ever."""
    return f"{new_id()} {os.getpid()} {socket.gethostname()}"


@define(eq=False)
class _Sink:
    """Appends batches to one session, together with those of other sessions."""

    store: PostgresStore
    session_id: str
    epoch: int
    lease: Lease | None
    sent: bool = False
    stays: bool = False
    letters: list[Letter] = field(factory=list[Letter])

    async def write(self, first: int, records: Sequence[bytes], durable: bool) -> bool:
        del durable  # a commit always is
        if self.lease is not None:
            self.lease.check(self.session_id)
        if records:
            texts = [record.decode() for record in records]
            taken = [letter for letter in self.letters if letter.seq < first + len(records)]
            due = Due(self.session_id, self.epoch, first, texts, sum(map(len, records)), taken, self.sent)
            self.sent = True
            try:
                await self.store.flusher.write(due)
                self.sent = False
                if taken:
                    self.letters = [letter for letter in self.letters if letter.seq >= first + len(records)]
                    for letter in taken:
                        letter.taken()
            except SessionLocked as error:
                if self.lease is None:
                    raise
                self.lease.fenced(self.session_id)
                raise LeaseLost(str(error)) from error
            except StoreFailure:
                self.sent = due.sent or due.first != first
                raise
        return True

    async def release(self) -> None:
        self.store.closed(self.session_id)
        if not (self.stays or self._lost()):
            await self.store.let_go(self.session_id, self.epoch)

    def _lost(self) -> bool:
        """Whether the session is to be claimed by another replica, and gone on with, as one of a dead one."""
        try:
            if self.lease is not None:
                self.lease.check(self.session_id)
        except LeaseLost:
            return True
        return False


class Lease(Protocol):
    """Whose sessions a store's are, when its owner is known by a lease and not by a connection."""

    @property
    def owner(self) -> str:
        """The owner's id, process and machine, with blanks between; used by no other, ever."""
        ...

    def check(self, session_id: str | None = None) -> None:
        """See that the lease runs, and that this session was not taken over.

        Raises:
            LeaseLost: it does not, or it was.
        """
        ...

    def fenced(self, session_id: str) -> None:
        """Note that a session was found to be another's."""
        ...


class PostgresStore:
    """Keeps sessions in a schema of a database. See ``SessionStore`` for what its methods promise. Close it when done.

    Who writes a session is shown by a lock of the database that ends with the store's connection: a killed process
    holds nobody up. After a restart of the server, a writer that has not spoken since can be taken over; it is fenced
    off, as every former writer is (P2). The URL leads to the server itself, or to a pool that keeps sessions of the
    database: locks and notices belong to a connection.

    Args:
        url: the database, as in ``postgres://user@host/database``; may hold a password, and is never shown (X1).
        schema: the schema that holds the tables; they are made and migrated at first use.
        fsync: ``never`` leaves it to the server when commits reach the disk (P7).
        patience: seconds that an answer is waited for, and that a lost connection is made again.
        window: seconds that live events wait for company (P1).
        lease: whose sessions these are, instead of this store's own.

    Attributes:
        listener: told the ids of sessions whose events were committed.

    Raises:
        MisuseError: the URL is none.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = SCHEMA,
        fsync: Literal["always", "flush", "never"] = "flush",
        patience: float = PATIENCE,
        window: float = WINDOW,
        lease: Lease | None = None,
    ) -> None:
        self.place = Place.of(url, schema)
        self._reach = Reach(self.place, patience, fsync != "never")
        self._window = window
        self._closed = False
        self._open: dict[str, tuple[_Sink, BatchWriter]] = {}
        self._opening: set[str] = set()
        self._lease = lease
        owner = lease.owner if lease is not None else owner_here()
        self._me = rows.Writing(owner, self._open.__contains__, lease is not None)
        self._control = self.link(lambda conn: rows.alive(conn, owner) if lease is None else None)
        self._commits = [self.link(planned) for _ in range(COMMITS)]
        self._notices = Notices(self._control)
        self.flusher = Flusher(self._commits, patience, self._was_written)
        self.listener: Callable[[list[str]], None] | None = None

    def link(self, then: Callable[[Connection], None] = lambda _: None, *, patience: float | None = None) -> Link:
        """Another connection to the database, with its tables there; ``then`` is called with each new one. Close it.

        With a patience of its own it does not share with the others whether the server is there.
        """

        def ready(conn: Connection) -> None:
            prepare(conn, self.place.schema)
            then(conn)

        reach = self._reach if patience is None else evolve(self._reach, patience=patience, met=False)
        return Link(reach, ready)

    def _was_written(self, sessions: list[str]) -> None:
        self._notices.tell(sessions)
        if self.listener is not None:
            self.listener(sessions)

    @property
    def open_sessions(self) -> frozenset[str]:
        """The sessions that this store has open for writing."""
        return frozenset(self._open)

    async def _ask(self, function: Callable[..., T], *args: Any) -> T:
        """Ask the database something, to its end; again if the connection was lost."""
        if self._closed:
            raise MisuseError("the store is closed; open another")
        return await to_end(self._control.run, function, *args)

    # --- the store ----------------------------------------------------------------------------------------------------

    async def create(self, header: SessionHeader, events: Sequence[Event] = ()) -> BatchWriter:
        """See ``SessionStore``."""
        name = checked_id(header.id)
        await trio.lowlevel.checkpoint_if_cancelled()
        epoch = await self._ask(rows.insert, header, rows.encoded(events), new_id(), self._me)
        return self._writer(name, epoch, len(events))

    def _writer(self, session_id: str, epoch: int, count: int) -> BatchWriter:
        sink = _Sink(self, session_id, epoch, self._lease)
        writer = BatchWriter(session_id, sink, count, window=self._window)
        self._open[session_id] = sink, writer
        return writer

    async def open_write(self, session_id: str) -> OpenSession:
        """See ``SessionStore``."""
        name = checked_id(session_id)
        await trio.lowlevel.checkpoint_if_cancelled()
        with self._only_one(name):
            epoch = await self._ask(rows.take, name, self._me)
            return await self._opened(name, epoch)

    @contextmanager
    def _only_one(self, session_id: str) -> Generator[None]:
        """One task of this store opens or deletes a session at a time: what it owns and has not open is free to it."""
        if session_id in self._opening:
            raise SessionLocked(f"session {session_id!r} is just being opened by this process {os.getpid()} (P2)")
        self._opening.add(session_id)
        try:
            yield
        finally:
            self._opening.discard(session_id)

    async def _opened(self, name: str, epoch: int) -> OpenSession:
        try:
            stored, reader = await self._ask(rows.load, name, self.place.shown)
            readable(stored)
            if reader.upgrades:
                await self._ask(rows.rewrite, name, epoch, stored.header, stored.events)
        except BaseException:
            await self.let_go(name, epoch)
            raise
        return OpenSession(stored, self._writer(name, epoch, len(stored.events)))

    def closed(self, session_id: str) -> None:
        """A session is not open here any more."""
        self._open.pop(session_id, None)

    async def let_go(self, session_id: str, epoch: int) -> None:
        """Let the next writer in. If that cannot be said now, this store's next opening of the session may take it."""
        try:
            await to_end(self._control.run, rows.release, session_id, epoch)
        except StoreFailure:
            return

    async def open_read(self, session_id: str) -> StoredSession:
        """See ``SessionStore``."""
        return readable(await self.inspect(session_id))

    async def inspect(self, session_id: str) -> StoredSession:
        """See ``SessionStore``."""
        stored, _ = await self._ask(rows.load, checked_id(session_id), self.place.shown)
        return stored

    async def revision(self, session_id: str) -> str:
        """See ``SessionStore``."""
        return await self._ask(rows.revision, checked_id(session_id))

    async def list(self) -> Listing:
        """See ``SessionStore``."""
        return await self._ask(rows.listing, self.place.shown)

    async def fork(self, session_id: str, new_id: str, upto: int | None = None) -> SessionHeader:
        """See ``SessionStore``."""
        return await fork_stored(self, session_id, new_id, upto)

    async def delete(self, session_id: str) -> None:
        """See ``SessionStore``."""
        name = checked_id(session_id)
        with self._only_one(name):
            await self._ask(rows.delete, name, self._me)

    # --- letters of the mailbox ---------------------------------------------------------------------------------------

    def epoch(self, session_id: str) -> int | None:
        """The epoch under which this store has a session open for writing; ``None`` where it has not."""
        held = self._open.get(session_id)
        return held[0].epoch if held is not None else None

    def take_letter(self, session_id: str, letter: Letter) -> None:
        """Have a letter taken by the very commit that writes the event which records it.

        To be called in the step that recorded it, before anything else is awaited.

        Raises:
            MisuseError: the session is not open here.
        """
        held = self._open.get(session_id)
        if held is None:
            raise MisuseError(f"session {session_id!r} is not open here; its letters are its owner's to take (P2)")
        held[0].letters.append(letter)

    def leave_owned(self, session_id: str) -> None:
        """Have a session stay this owner's when it is closed: others claim it once the owner has left."""
        held = self._open.get(session_id)
        if held is not None:
            held[0].stays = True

    async def written(self, session_id: str) -> None:
        """Write now what an open session has recorded; nothing if it is not open here.

        Raises:
            SessionLocked: it is another writer's by now.
            StoreFailure: it could not be written; it is kept, and the next barrier tries again.
        """
        held = self._open.get(session_id)
        if held is not None:
            await held[1].written()

    # --- what only a database does ------------------------------------------------------------------------------------

    async def search(self, text: str, limit: int = 50) -> Listing:
        """The newest sessions in whose messages of people and models a text stands, in any case; the database looks.

        Args:
            text: what to look for, as it stands in JSON: without its quotes and line breaks.
            limit: how many sessions at most.

        Raises:
            StoreFailure: the database cannot be reached, or took too long.
        """
        return await self._ask(rows.search, text, limit, self.place.shown)

    async def expire(self, before: int, limit: int = 1_000) -> Sequence[str]:
        """Delete sessions that nobody writes and that were last written before a moment, the oldest first.

        Args:
            before: milliseconds since the epoch.
            limit: how many at most, in one transaction.

        Returns:
            Their ids; as many as the limit where there may be more.

        Raises:
            StoreFailure: the database cannot be reached; asking again goes on.
        """
        return await self._ask(rows.expire, before, limit, self._me)

    @asynccontextmanager
    async def follow(self, session_id: str, first: int = 0) -> AsyncGenerator[AsyncGenerator[Sequence[Event]]]:
        """Follow a session that any process writes: a context that gives its events, in batches, as they are committed.

        A connection of its own is told of what is written, and looks by itself each second.

        Args:
            session_id: the session.
            first: the seq of the first event that is wanted.

        Raises:
            SessionNotFound: the session is not there, or not any more.
            SessionCorrupt: an event cannot be read; those before it were given.
            StoreFailure: the database cannot be reached for longer than the store's patience.
        """
        name = checked_id(session_id)
        link = self.link(listen)
        coming = followed(link, name, first)
        try:
            yield coming
        finally:
            with trio.CancelScope(shield=True):
                await coming.aclose()
                await link.close()

    async def close(self) -> None:
        """See ``SessionStore``."""
        self._closed = True
        with trio.CancelScope(shield=True):
            for link in (*self._commits, self._control):
                await link.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<PostgresStore {self.place.shown} {self.place.schema}>"
