"""Files that survive: private modes, atomic rewrites, an append that is all or nothing (P1, P3, X1)."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import trio
from outcome import Outcome

from treadle import SessionLocked, StoreFailure
from treadle.session import new_id

from .locks import PRIVATE_FILE, FileLock, Held

T = TypeVar("T")
Write = Callable[[int, memoryview], int]
Pack = Callable[[bytes], bytes]

PRIVATE_DIRECTORY = 0o700
AT_ONCE = 8
"""Short writes in threads of their own; more wait for trio's limiter."""
PIECE = 1 << 17
"""Bytes that are read at a time of what is not read whole."""
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)


@trio.lowlevel.enable_ki_protection
async def to_end(run: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Await something to its end, cancelled or not: what it holds is handed over or let go, never lost."""
    result: list[T] = []
    with trio.CancelScope(shield=True):
        result.append(await run(*args))
    return result[0]


_WORKING: set[object] = set()
"""What ``in_thread`` runs now."""


@trio.lowlevel.enable_ki_protection
async def in_thread(function: Callable[[], T]) -> T:
    """Run a short blocking function in a worker thread, to its end, cancelled or not.

    As ``trio.to_thread.run_sync``, but without what that does for functions which call back, which costs as much as a
    write. Beyond a few at once it is that: its limiter bounds the number of threads.
    """
    if len(_WORKING) >= AT_ONCE:
        return await to_end(trio.to_thread.run_sync, function)
    token, task = trio.lowlevel.current_trio_token(), trio.lowlevel.current_task()

    def deliver(result: Outcome[T]) -> None:
        token.run_sync_soon(trio.lowlevel.reschedule, task, result)

    _WORKING.add(task)
    try:
        trio.lowlevel.start_thread_soon(function, deliver)
        return cast("T", await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED))
    finally:
        _WORKING.discard(task)


def sync_data(descriptor: int) -> None:
    """Have a file's bytes on disk, its times not necessarily."""
    getattr(os, "fdatasync", os.fsync)(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory and what is missing above it, for their owner only (X1)."""
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):
            each.mkdir(mode=PRIVATE_DIRECTORY)


def sync_directory(path: Path) -> None:
    """Have a directory's entries on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_regular(path: Path) -> int:
    """Open a file for reading; never waits for a pipe.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | _NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no regular file")
    return descriptor


def read_range(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """The bytes of a file from one position to another, or to its end, in pieces."""
    while start < end and (piece := os.pread(descriptor, min(PIECE, end - start), start)):
        yield piece
        start += len(piece)


def read_all(path: Path) -> tuple[bytes, os.stat_result]:
    """A file's bytes, and its status at that time."""
    with os.fdopen(open_regular(path), "rb") as file:
        status = os.fstat(file.fileno())
        return file.read(), status


def write_whole(path: Path, data: bytes | Iterable[bytes], *, durable: bool) -> None:
    """Put a file in place, whole or not at all: a unique temporary beside it, then a rename."""
    temporary = path.parent / f".{path.name[:100]}.{new_id()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync_directory(path.parent)


class AppendFile:
    """A locked file that only grows, by whole payloads.

    The lock beside it names the writer and keeps others out. Should somebody take that lock away and open the file, he
    finds it held, and goes on in a copy under its name: then it is no longer what the path leads to, and nothing that is
    written here counts any more. So the file itself decides, and is looked at before and after each write (P2).

    Args:
        path: the file; it must exist.
        lock: held for as long as the file is open; released with it.
        write: takes a descriptor and bytes, returns how many it took; ``os.write`` but for tests.
        pack: applied to each payload, for compressed files.

    Attributes:
        end: how many of its bytes count; what lies beyond is cut off. All unless set before the first write.
    """

    def __init__(self, path: Path, lock: FileLock, *, write: Write = os.write, pack: Pack | None = None) -> None:
        self.path = path
        self._lock = lock
        self._write = write
        self._pack = pack
        self._file = _fenced(path)
        self._end = self._file.status.st_size
        self._dirty = self._unsynced = False
        self._broken: OSError | None = None

    def begin(self, end: int) -> None:
        """Say how many of the bytes count, before the first write; what lies beyond them is cut off then."""
        self._end = end
        self._dirty = self._unsynced = self.status.st_size > end

    def rewrite(self, data: bytes, *, durable: bool) -> None:
        """Put other bytes in the file's place, whole or not at all, and go on behind them.

        Raises:
            SessionLocked: see ``append``.
            OSError: the disk refused; nothing is changed.
        """
        self._lock.check()
        self._check()
        write_whole(self.path, data, durable=durable)
        self._file.close()
        self._file = _fenced(self.path)
        self.begin(len(data))

    def append(self, payload: bytes, *, sync: bool) -> None:
        """Add a payload, all or nothing; with ``sync`` everything is on disk afterwards.

        Raises:
            SessionLocked: the lock is lost, or somebody else changed the file; nothing was written that counts (P2).
            OSError: the disk refused; nothing of the payload stays.
        """
        self._lock.check()
        self._check()
        if self._dirty:
            os.ftruncate(self._file.descriptor, self._end)
            self._dirty = False
        if payload:
            packed = self._pack(payload) if self._pack is not None else payload
            try:
                self._put(packed)
                if sync:
                    self._sync()
            except BaseException:
                self._dirty = True
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file.descriptor, self._end)
                    self._dirty = False
                raise
            self._end += len(packed)
            self._unsynced = not sync
            self._check()
        elif sync and self._unsynced:
            self._sync()
            self._unsynced = False
            self._check()

    def _put(self, payload: bytes) -> None:
        view = memoryview(payload)
        while view:
            view = view[self._write(self._file.descriptor, view) :]

    def _sync(self) -> None:
        """After a failed sync nobody knows what of the earlier bytes is on disk: no later success may hide that."""
        if self._broken is not None:
            raise StoreFailure(
                f"{self.path}: an earlier sync failed ({self._broken}); close the session and open it again to see "
                "what is on disk"
            )
        try:
            sync_data(self._file.descriptor)
        except OSError as error:
            if self._unsynced:
                self._broken = error
            raise

    def _check(self) -> None:
        """Raise unless the path leads to this file, and it ends where we ended it."""
        if not self._file.in_place:
            what = "was replaced or removed"
        elif self._file.status.st_size != self._end and not self._dirty:
            what = "was changed"
        else:
            return
        raise SessionLocked(
            f"{self.path} {what} by somebody else; nothing is written to it (P2): open the session again"
        )

    @property
    def end(self) -> int:
        """How many of its bytes count."""
        return self._end

    @property
    def status(self) -> os.stat_result:
        """The file's status now."""
        return self._file.status

    def close(self) -> None:
        """Close the file and let go of the lock. Idempotent."""
        self._file.close()
        self._lock.release()


def _fenced(path: Path) -> Held:
    """The file, locked. A writer whose lock was taken away may still have it: then a copy takes its place.

    Whatever that writer was told is stored lay in the old file before the copy took the path: it looks whether the
    path still leads to its file after each write. So what is copied is looked at once more afterwards.
    """
    old = Held(path, os.O_RDWR | os.O_APPEND)
    try:
        while not old.lock():
            data = b""
            while (grown := _content(old)) != data:
                data = grown
                write_whole(path, data, durable=True)
            old.close()
            old = Held(path, os.O_RDWR | os.O_APPEND)
    except BaseException:
        old.close()
        raise
    return old


def _content(file: Held) -> bytes:
    with os.fdopen(os.dup(file.descriptor), "rb") as reader:
        reader.seek(0)
        return reader.read()
