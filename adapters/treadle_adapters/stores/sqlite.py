"""The SQLite store: many sessions in one file, through ``apsw`` (§13).

One connection writes, one reads; each works in a thread of its own, so waiting for another process's transaction
blocks no loop. A session's lock is a file beside the database, which dies with its owner; an epoch that grows with
every opening fences off a writer that lost its lock without noticing (P2).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import apsw
import apsw.aio
import trio
from attrs import define, frozen

from treadle import DuplicateSession, Event, MisuseError, SessionCorrupt, SessionHeader, SessionLocked, StoreFailure
from treadle.session import WINDOW, BatchWriter, Listing, OpenSession, StoredSession, fork_stored, readable
from treadle.session import session_id as checked_id

from . import sqlite_tables as tables
from .files import PRIVATE_FILE, in_thread, make_directory, to_end
from .locks import FileLock

T = TypeVar("T")
_CONTROLLER: Any = apsw.async_controller
BUSY = 5.0
"""Seconds that a write waits for another process's transaction."""


@frozen
class _Sink:
    """Appends batches to one session's rows. Every commit is on disk, as far as the policy goes."""

    store: SqliteStore
    session_id: str
    epoch: int
    lock: FileLock

    async def write(self, first: int, records: Sequence[bytes], durable: bool) -> bool:
        del durable  # a commit always is
        if records:
            self.lock.check()
            await self.store.writing(tables.append, self.session_id, self.epoch, first, records)
        return True

    async def release(self) -> None:
        await in_thread(self.lock.release)


@define(eq=False)
class _Link:
    """A connection that is opened at first use, once."""

    path: Path
    busy_ms: int
    durable: bool
    _db: Any = None
    _opening: trio.Lock | None = None
    _thread: threading.Thread | None = None

    async def get(self) -> Any:
        if self._opening is None:
            self._opening = trio.Lock()
        async with self._opening:
            if self._db is None:
                await trio.to_thread.run_sync(self._make_file)
                token = _CONTROLLER.set(apsw.aio.Trio)
                try:
                    db: Any = await apsw.Connection.as_async(str(self.path))
                finally:
                    _CONTROLLER.reset(token)
                try:
                    self._thread = await db.async_run(threading.current_thread)
                    await db.async_run(lambda: tables.prepare(db, self.busy_ms, durable=self.durable))
                except BaseException:
                    await db.aclose()
                    raise
                self._db = db
        return self._db

    def _make_file(self) -> None:
        make_directory(self.path.parent)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE))

    async def close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            await db.aclose()
        if self._thread is not None:
            await in_thread(self._thread.join)


class SqliteStore:
    """Keeps sessions in one database. See ``SessionStore`` for what its methods promise. Close it: it owns threads.

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
        self._writer_link = _Link(self.path, int(busy * 1000), durable)
        self._reader_link = _Link(self.path, int(busy * 1000), durable)

    # --- running in the connections' threads --------------------------------------------------------------------------

    async def writing(self, function: Callable[..., T], *args: Any) -> T:
        """Run a transaction on the writing connection, to its end."""
        return await to_end(self._run, self._writer_link, function, *args)

    async def _reading(self, function: Callable[..., T], *args: Any) -> T:
        return await self._run(self._reader_link, function, *args)

    async def _run(self, link: _Link, function: Callable[..., T], *args: Any) -> T:
        if self._closed:
            raise MisuseError("the store is closed; open another")
        try:
            db = await link.get()
            return await db.async_run(function, db, *args)
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
            epoch = await self.writing(tables.insert, header, list(events))
        except BaseException:
            lock.release()
            raise
        return BatchWriter(name, _Sink(self, name, epoch, lock), len(events), window=self._window)

    async def open_write(self, session_id: str) -> OpenSession:
        """See ``SessionStore``."""
        name = checked_id(session_id)
        await trio.lowlevel.checkpoint_if_cancelled()
        lock = await self._lock(name)
        try:
            epoch = await self.writing(tables.take, name)
            stored, reader = await self._reading(tables.load, name)
            readable(stored)
            if reader.upgrades:
                await self.writing(tables.rewrite, name, epoch, stored.header, stored.events)
        except BaseException:
            lock.release()
            raise
        sink = _Sink(self, name, epoch, lock)
        return OpenSession(stored, BatchWriter(name, sink, len(stored.events), window=self._window))

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
        finally:
            lock.release()

    async def close(self) -> None:
        """See ``SessionStore``."""
        self._closed = True
        with trio.CancelScope(shield=True):
            await self._writer_link.close()
            await self._reader_link.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<SqliteStore {self.path}>"
