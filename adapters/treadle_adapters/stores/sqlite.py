"""The SQLite store: many sessions in one file, through ``apsw`` (§13).

One connection writes, one reads, each in worker threads, so waiting for another process's transaction blocks no loop; a
third reads single events back (S11).
A session's lock is a file beside the database, which dies with its owner. Each write checks the session's fence in its
transaction: which creation of it this is, and an epoch that grows with every opening (P2).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import apsw
import trio
from attrs import frozen

from treadle import DuplicateSession, Event, MisuseError, SessionCorrupt, SessionHeader, SessionLocked, StoreFailure
from treadle.session import (
    WINDOW,
    BatchWriter,
    Intake,
    Listing,
    OpenSession,
    StoredSession,
    Taken,
    fork_stored,
    readable,
)
from treadle.session import session_id as checked_id

from . import sqlite_tables as tables
from .checkpoints import SUFFIX, remove_checkpoint
from .files import in_thread, make_directory, to_end
from .locks import FileLock, Identity
from .sqlite_archive import SqliteArchive, read_in
from .sqlite_link import Link

T = TypeVar("T")
BUSY = 5.0
"""Seconds that a write waits for another process's transaction."""


@frozen
class _Sink:
    """Appends batches to one session's rows. Every commit is on disk, as far as the policy goes."""

    store: SqliteStore
    session_id: str
    fence: tables.Fence
    lock: FileLock
    database: Identity | None
    archive: SqliteArchive

    async def write(self, first: int, records: Sequence[bytes], durable: bool) -> bool:
        del durable  # a commit always is
        if records:
            self.lock.check()
            await self.store.writing(tables.append, self.session_id, self.fence, first, records, on=self.database)
            self.archive.stored(first, records)
        return True

    async def release(self) -> None:
        await in_thread(self.lock.release)


class SqliteStore:
    """Keeps sessions in one database. See ``SessionStore`` for what its methods promise. Close it when it is done with.

    Args:
        path: the database file; made at first use, for its owner only (X1).
        fsync: ``never`` leaves it to the operating system when commits reach the disk (P7).
        busy: seconds that a write waits for another process's transaction before it fails.
        window: seconds that live events wait for company (P1).
    """

    def __init__(
        self,
        path: str | Path,
        *,
        fsync: Literal["always", "flush", "never"] = "flush",
        busy: float = BUSY,
        window: float = WINDOW,
    ) -> None:
        self.path = Path(path)
        self._window = window
        self._closed = False
        durable = fsync != "never"
        self._writer_link = Link(self.path, busy, durable)
        self._reader_link = Link(self.path, busy, durable)
        self._past_link = Link(self.path, busy, durable)

    # --- running on the connections -----------------------------------------------------------------------------------

    async def writing(self, function: Callable[..., T], *args: Any, on: Identity | None = None) -> T:
        """Run a transaction on the writing connection, to its end; ``on`` the database it is meant for, if that is open."""

        async def write() -> T:
            return await self._run(partial(self._writer_link.run, function, *args, writes=True, on=on))

        return await to_end(write)

    async def _reading(self, function: Callable[..., T], *args: Any) -> T:
        return await self._run(partial(self._reader_link.run, function, *args, writes=False))

    def _read_back(self, function: Callable[[tables.Connection], T]) -> T:
        """Read in the thread that asks, on a connection that no long reading occupies."""
        if self._closed:
            raise StoreFailure(f"the store {self.path} is closed: older events cannot be read back")
        return self._past_link.call(function)

    async def _run(self, run: Callable[[], Awaitable[T]]) -> T:
        if self._closed:
            raise MisuseError("the store is closed; open another")
        try:
            return await run()
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise SessionCorrupt(f"{self.path}: {error}") from error
        except (apsw.Error, OSError) as error:
            raise StoreFailure(f"{self.path}: {type(error).__name__}: {error}") from error

    async def _lock(self, session_id: str) -> FileLock:
        path = self.path.with_name(f"{self.path.name}-locks") / f"{session_id}.lock"

        def acquire() -> FileLock:
            make_directory(path.parent)
            return FileLock.acquire(path, f"session {session_id!r}")

        try:
            return await to_end(trio.to_thread.run_sync, acquire)
        except OSError as error:
            raise StoreFailure(f"{path}: {error}; the store needs a directory that may be written") from error

    # --- the store ----------------------------------------------------------------------------------------------------

    async def create(self, header: SessionHeader, events: Sequence[Event] = ()) -> BatchWriter:
        """See ``SessionStore``."""
        name = checked_id(header.id)
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            lock = await self._lock(name)
        except SessionLocked as error:
            raise DuplicateSession(f"a session {name!r} is stored already: {error}") from error
        try:
            fence = await self.writing(tables.insert, header, list(events))
        except BaseException:
            lock.release()
            raise
        return self._writer(name, fence, lock, len(events))

    def _writer(
        self, session_id: str, fence: tables.Fence, lock: FileLock, archive: SqliteArchive | int
    ) -> BatchWriter:
        if isinstance(archive, int):
            archive = SqliteArchive(session_id, self._beside(session_id), self._read_back, archive)
        sink = _Sink(self, session_id, fence, lock, self._writer_link.database, archive)
        return BatchWriter(session_id, sink, archive.count, window=self._window, archive=archive)

    def _beside(self, session_id: str) -> Path:
        return self.path.with_name(f"{self.path.name}-checkpoints") / (session_id + SUFFIX)

    async def open_write(self, session_id: str) -> OpenSession:
        """See ``SessionStore``."""
        name = checked_id(session_id)
        await trio.lowlevel.checkpoint_if_cancelled()
        lock = await self._lock(name)
        try:
            fence = await self.writing(tables.take, name)
            stored, reader = await self._reading(tables.load, name)
            readable(stored)
            if reader.upgrades:
                await self.writing(tables.rewrite, name, fence, stored.header, stored.events)
        except BaseException:
            lock.release()
            raise
        return OpenSession(stored, self._writer(name, fence, lock, len(stored.events)))

    async def open_intake(self, session_id: str, intake: Intake) -> Taken:
        """See ``ArchivingStore``."""
        name = checked_id(session_id)
        await trio.lowlevel.checkpoint_if_cancelled()
        lock = await self._lock(name)
        try:
            fence = await self.writing(tables.take, name)
            read = await to_end(self._reading, read_in, name, self._beside(name), intake)
            if read.damage is not None:
                raise read.damage
            archive = SqliteArchive.of(read, name, self._beside(name), self._read_back)
            if read.reader.upgrades:
                stored, _ = await self._reading(tables.load, name)
                await self.writing(tables.rewrite, name, fence, stored.header, stored.events)
                archive.chain = None
        except BaseException:
            lock.release()
            raise
        return Taken(archive.count, None, self._writer(name, fence, lock, archive), archive)

    async def open_read(self, session_id: str) -> StoredSession:
        """See ``SessionStore``."""
        return readable(await self.inspect(session_id))

    async def inspect(self, session_id: str) -> StoredSession:
        """See ``SessionStore``."""
        stored, _ = await self._reading(tables.load, checked_id(session_id))
        return stored

    async def revision(self, session_id: str) -> str:
        """See ``SessionStore``."""
        return await self._reading(tables.revision, checked_id(session_id))

    async def list(self) -> Listing:
        """See ``SessionStore``."""
        return await self._reading(tables.listing)

    async def fork(self, session_id: str, new_id: str, upto: int | None = None) -> SessionHeader:
        """See ``SessionStore``."""
        return await fork_stored(self, session_id, new_id, upto)

    async def delete(self, session_id: str) -> None:
        """See ``SessionStore``."""
        name = checked_id(session_id)
        lock = await self._lock(name)
        try:
            await self.writing(tables.delete, name)
            await in_thread(partial(remove_checkpoint, self._beside(name)))
        finally:
            lock.release()

    async def close(self) -> None:
        """See ``SessionStore``."""
        self._closed = True
        with trio.CancelScope(shield=True):
            await self._writer_link.close()
            await self._reader_link.close()
            await self._past_link.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<SqliteStore {self.path}>"
