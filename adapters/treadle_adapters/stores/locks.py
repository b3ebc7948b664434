"""A lock between processes that dies with its owner and tells who that is (P2).

It is an advisory ``flock`` on a small file: the kernel drops it when the owner ends, however it ends. The file names
the owner. It is taken away on release, so whoever got a lock checks that the path still leads to the file it locked.
Between machines it is as good as the file system's own ``flock``.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path

from treadle import SessionLocked, StoreFailure

TRIES = 100
"""Attempts to lock a file that others keep taking away; each failure means that somebody else was faster."""


class FileLock:
    """An exclusive lock that is held from ``acquire`` to ``release``."""

    __slots__ = ("_descriptor", "_identity", "path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._identity = _identity(os.fstat(descriptor))

    @classmethod
    def acquire(cls, path: Path, what: str) -> FileLock:
        """Take the lock, or raise at once.

        Raises:
            SessionLocked: somebody has it; the text names who.
            OSError: the file cannot be made.
        """
        try:
            import fcntl
        except ImportError as error:
            raise StoreFailure(
                "this store needs the file locks of a POSIX system; use the memory store here"
            ) from error
        for _ in range(TRIES):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(descriptor, 4096, 0)
                os.close(descriptor)
                raise SessionLocked(
                    f"{what} is being written by {_describe(owner)} (P2); close it there first"
                ) from None
            except BaseException:
                os.close(descriptor)
                raise
            if _leads_to(path, descriptor):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, _self(), 0)
                return cls(path, descriptor)
            os.close(descriptor)
        raise SessionLocked(f"{what}: the lock {path} is taken and released all the time; try again (P2)")

    def check(self) -> None:
        """Raise unless the lock is still ours.

        Raises:
            SessionLocked: somebody took the file away; the text says so.
        """
        try:
            if _identity(self.path.stat()) == self._identity:
                return
            with contextlib.suppress(OSError):
                owner = _describe(self.path.read_bytes()[:4096])
                raise SessionLocked(f"the lock {self.path} was lost: {owner} has it now (P2); nothing was written")
        except FileNotFoundError:
            pass
        raise SessionLocked(f"the lock {self.path} was lost: somebody removed it (P2); nothing was written")

    def release(self) -> None:
        """Let go. Idempotent."""
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            if _identity(self.path.stat()) == self._identity:
                self.path.unlink()
        os.close(self._descriptor)
        self._descriptor = -1


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _leads_to(path: Path, descriptor: int) -> bool:
    try:
        return _identity(path.stat()) == _identity(os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _self() -> bytes:
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode() + b"\n"


def _describe(owner: bytes) -> str:
    try:
        known = json.loads(owner)
        return f"process {int(known['pid'])} on {str(known['host'])[:200]!r}"
    except (ValueError, TypeError, KeyError):
        return "a process that has not said who it is"
