"""Who may write: files that are held, and are the files that their paths lead to (P2).

A ``Held`` file is locked with an advisory ``flock``, which the kernel drops when the owner ends, however it ends. A
forked child does not share it: what is held is closed there at once. A ``FileLock`` is a held file that names its
owner; it is taken away on release, so whoever got one checks that the path still leads to the file it locked. Between
machines all this is as good as the file system's own ``flock``.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import threading
from pathlib import Path
from typing import Self
from weakref import WeakSet

from treadle import SessionLocked, StoreFailure

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]  # there is none on systems that are not POSIX

TRIES = 100
"""Attempts to lock a file that others keep taking away; each failure means that somebody else was faster."""
PRIVATE_FILE = 0o600
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)

Identity = tuple[int, int]
"""Device and inode: two paths lead to one file exactly if these are the same."""


def identity_of(path: Path) -> Identity | None:
    """What a path leads to now, ``None`` when there is nothing."""
    try:
        return _identity(path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return None


class Held:
    """An open file of this process that no forked child keeps.

    Args:
        path: the file. A symbolic link is refused, so that no other file is touched (P2).
        flags: how to open it; ``os.O_CREAT`` makes it for its owner only (X1).

    Raises:
        StoreFailure: the path leads to something else than a file of its own.
        OSError: it cannot be opened.
    """

    __slots__ = ("__weakref__", "descriptor", "identity", "path")

    def __init__(self, path: Path, flags: int) -> None:
        with _OPENING:
            try:
                descriptor = os.open(path, flags | os.O_CLOEXEC | _NOFOLLOW | _NONBLOCK, PRIVATE_FILE)
            except OSError:
                if path.is_symlink():
                    raise _no_file(path) from None
                raise
            self.path = path
            self.descriptor = descriptor
            status = os.fstat(descriptor)
            self.identity = _identity(status)
            _HELD.add(self)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise _no_file(path)

    def lock(self) -> bool:
        """Lock it for this process, or return ``False`` at once when somebody else has."""
        if fcntl is None:
            raise StoreFailure("this store needs the file locks of a POSIX system; use the memory store here")
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @property
    def in_place(self) -> bool:
        """Whether its path still leads to it: it was neither removed nor replaced."""
        return identity_of(self.path) == self.identity

    @property
    def status(self) -> os.stat_result:
        """Its status now."""
        return os.fstat(self.descriptor)

    def close(self) -> None:
        """Close it; its lock goes with it. Idempotent."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class FileLock:
    """An exclusive lock that is held from ``acquire`` to ``release``."""

    __slots__ = ("_file", "path")

    def __init__(self, file: Held) -> None:
        self.path = file.path
        self._file = file

    @classmethod
    def acquire(cls, path: Path, what: str) -> Self:
        """Take the lock, or raise at once.

        Raises:
            SessionLocked: somebody has it; the text names who.
            StoreFailure: the path is a link or no regular file; what it leads to is not touched.
            OSError: the file cannot be made.
        """
        for _ in range(TRIES):
            file = Held(path, os.O_RDWR | os.O_CREAT)
            try:
                if file.status.st_nlink > 1:
                    raise _no_file(path)
                if not file.lock():
                    owner = describe(os.pread(file.descriptor, 4096, 0))
                    raise SessionLocked(f"{what} is being written by {owner} (P2); close it there first")
                if file.in_place:
                    os.ftruncate(file.descriptor, 0)
                    os.pwrite(file.descriptor, _self(), 0)
                    return cls(file)
            except BaseException:
                file.close()
                raise
            file.close()
        raise SessionLocked(f"{what}: the lock {path} is taken and released all the time; try again (P2)")

    def check(self) -> None:
        """Raise unless the lock is still ours.

        Raises:
            SessionLocked: somebody took the file away; the text says so.
        """
        if self._file.in_place:
            return
        with contextlib.suppress(OSError):
            owner = describe(self.path.read_bytes()[:4096])
            raise SessionLocked(f"the lock {self.path} was lost: {owner} has it now (P2); nothing was written")
        raise SessionLocked(f"the lock {self.path} was lost: somebody removed it (P2); nothing was written")

    def release(self) -> None:
        """Let go. Idempotent; in a forked child it was let go of when the child began."""
        if self._file.descriptor < 0:
            return
        with contextlib.suppress(OSError):
            if self._file.in_place:
                self.path.unlink()
        self._file.close()


# --- forks ------------------------------------------------------------------------------------------------------------

_HELD: WeakSet[Held] = WeakSet()
_OPENING = threading.Lock()
"""Held while a file is opened and noted, and over a fork: no child inherits one that is not noted."""


def _begin_as_child() -> None:
    """Close what the parent holds: a lock belongs to all who share the open file, and it would outlive the parent."""
    for file in list(_HELD):
        file.close()
    _HELD.clear()
    _OPENING.release()


os.register_at_fork(before=_OPENING.acquire, after_in_parent=_OPENING.release, after_in_child=_begin_as_child)


# --- words ------------------------------------------------------------------------------------------------------------


def describe(owner: bytes) -> str:
    """Who a lock file says has it."""
    try:
        known = json.loads(owner)
        return f"process {int(known['pid'])} on {str(known['host'])[:200]!r}"
    except (ValueError, TypeError, KeyError):
        return "a process that has not said who it is"


def _self() -> bytes:
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode() + b"\n"


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _no_file(path: Path) -> StoreFailure:
    return StoreFailure(
        f"{path} is a link, or no regular file; nothing behind it was touched: move it away and try again (P2)"
    )
