"""A connection to a database, used by one thread at a time, and the files that it has open (P2)."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import apsw
import trio
from attrs import define, field

from treadle.errors import MisuseError, SessionCorrupt, SessionLocked, StoreFailure

from . import sqlite_tables as tables
from .files import in_thread, make_directory
from .locks import PRIVATE_FILE, Identity, identity_of

T = TypeVar("T")
WRITE_LOCK = 120
"""The byte of the file ``-shm`` that a writer locks, as SQLite's documentation of that file says."""
_MAKING = threading.Lock()


@define(eq=False)
class Link:
    """A connection that is opened at first use, and again when its path leads to another database by then.

    It belongs to no trio run: a store that was not closed works in the next one, and keeps no process from its end.

    Attributes:
        path: the database file.
        busy: seconds that a call waits for another process's transaction, counted from when it was made.
        durable: whether each commit is to be on disk.
    """

    path: Path
    busy: float
    durable: bool
    _db: Any = None
    _files: dict[Path, Identity] = field(factory=dict[Path, Identity])
    _sizes: dict[Path, int] = field(factory=dict[Path, int])
    _process: int = 0
    _using: threading.Lock = field(factory=threading.Lock)
    _turn: trio.lowlevel.RunVar[trio.Lock] = field(factory=lambda: trio.lowlevel.RunVar("turn"))

    async def run(self, function: Callable[..., T], *args: Any, writes: bool, on: Identity | None = None) -> T:
        """Call a function with the connection in a worker thread, to its end once it began.

        Args:
            function: takes the connection first.
            args: what it takes besides.
            writes: whether the database must still be in place when it has been called.
            on: the database that it is meant for; none other is opened then.

        Raises:
            MisuseError: the connection is another process's: this one is its forked child.
            SessionLocked: the database was removed or replaced; nothing was written that is there (P2).
            SessionCorrupt: it was cut short.
            StoreFailure: another process does not end its transaction, and is named where that can be known.
        """
        if self._process not in (0, os.getpid()):
            raise MisuseError(
                f"{self.path} was opened by process {self._process}, of which this one was forked: "
                "a connection cannot be shared; make another store here"
            )
        self._process = os.getpid()
        deadline = time.monotonic() + self.busy
        async with self._turn_of_run():
            return await in_thread(lambda: self._call(deadline, writes, on, lambda db: function(db, *args)))

    def call(self, function: Callable[[tables.Connection], T]) -> T:
        """Call a function that reads with the connection in the present thread. Raises as ``run`` does."""
        if self._process not in (0, os.getpid()):
            raise MisuseError(f"{self.path} was opened by process {self._process}, of which this one was forked")
        return self._call(time.monotonic() + self.busy, False, None, function)

    def _turn_of_run(self) -> trio.Lock:
        try:
            return self._turn.get()
        except LookupError:
            lock = trio.Lock()
            self._turn.set(lock)
            return lock

    @property
    def database(self) -> Identity | None:
        """The database that is open."""
        return self._files.get(self.path)

    # --- in a worker thread -------------------------------------------------------------------------------------------

    def _call(self, deadline: float, writes: bool, on: Identity | None, function: Callable[[Any], T]) -> T:
        with self._using:
            if self._db is not None and not self._in_place():
                self._let_go()
            if on is not None and on != self.database:
                raise self._gone()
            db = self._db if self._db is not None else self._open()
            db.set_busy_timeout(max(1, int((deadline - time.monotonic()) * 1000)))
            try:
                result = function(db)
            except apsw.BusyError as error:
                raise self._blocked(error) from error
            if writes and not self._in_place():
                raise self._gone()
            return result

    def _open(self) -> tables.Connection:
        make_directory(self.path.parent)
        _make_file(self.path)
        before = identity_of(self.path)
        db = apsw.Connection(str(self.path))
        try:
            try:
                tables.prepare(db, int(self.busy * 1000), durable=self.durable)
            except apsw.BusyError as error:
                raise self._blocked(error) from error
            shared = Path(f"{db.filename}-shm")
            files = {path: found for path in (Path(db.filename_wal), shared) if (found := identity_of(path))}
            if before is None or identity_of(self.path) != before:
                raise self._gone()
        except BaseException:
            db.close()
            raise
        self._db, self._files = db, {self.path: before, **files}
        self._sizes = {}
        return db

    def _in_place(self) -> bool:
        """Whether the paths lead to the files that the connection has open; what became shorter is examined."""
        shorter = False
        for path, identity in self._files.items():
            try:
                status = path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return False
            if (status.st_dev, status.st_ino) != identity:
                return False
            shorter = shorter or status.st_size < self._sizes.get(path, 0)
            if not shorter:
                self._sizes[path] = status.st_size
        if shorter:
            self._examine()
        return True

    def _examine(self) -> None:
        """A compaction makes a database shorter, and so does what cuts it off."""
        db: tables.Connection = apsw.Connection(str(self.path))
        try:
            found = db.pragma("quick_check")
        finally:
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            db.close()
        if found != "ok":
            raise SessionCorrupt(f"{self.path} was cut short, and is damaged: {found}")
        self._sizes.clear()

    def _gone(self) -> SessionLocked:
        return SessionLocked(
            f"the database {self.path} was replaced or removed by somebody else; nothing is written to it (P2): "
            "open the session again"
        )

    def _blocked(self, error: apsw.BusyError) -> StoreFailure:
        holder = _writing(Path(f"{self.path.resolve()}-shm"))
        who = f"process {holder}" if holder is not None else "another process"
        return StoreFailure(
            f"{self.path}: {error}: {who} did not end its transaction within {self.busy:g} s; reading goes on. "
            "If it was stopped, let it go on or end it"
        )

    def _let_go(self) -> None:
        """Close the connection. SQLite takes files away by their names: not those of a database put in its place."""
        db, self._db = self._db, None
        if db is not None:
            if any(identity_of(path) != identity for path, identity in self._files.items()):
                db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            db.close()
        self._files = {}

    async def close(self) -> None:
        """Close the connection, in the process that opened it. Idempotent."""
        if self._process == os.getpid():
            await in_thread(self._close)

    def _close(self) -> None:
        with self._using:
            self._let_go()


def _make_file(path: Path) -> None:
    """Make the file for its owner only (X1).

    One that is there is left alone: closing any descriptor of a database lets go of every lock this process has on it.
    """
    with _MAKING, contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))


def _writing(shared: Path) -> int | None:
    """The process that is inside a writing transaction, where the system tells (Linux)."""
    try:
        inode = shared.stat().st_ino
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    for line in lines:
        match line.split():
            case [_, "POSIX", _, "WRITE", process, place, first, last, *_]:
                if place.rpartition(":")[2] == str(inode) and int(first) <= WRITE_LOCK <= int(
                    last.replace("EOF", "-1")
                ):
                    return int(process)
            case _:
                continue
    return None
