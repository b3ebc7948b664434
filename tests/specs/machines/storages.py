"""Storages of the host machine on disk: JSONL files of which it is known what was synced, and SQLite."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from treadle.session import SessionStore
from treadle_adapters.stores import files
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_adapters.stores.sqlite import SqliteStore
from treadle_specs.exploration.violation import require
from treadle_specs.machines.host.storage import MemoryStorage, Mood, Storage


class FileStorage:
    """A directory of JSONL files; what of each was synced is noted."""

    def __init__(self, source: FileStorage | None = None, *, power: bool = False) -> None:
        self.mood: Mood = "well"
        self.directory = Path(tempfile.mkdtemp(prefix="treadle-machine-"))
        self.synced: dict[str, int] = {}
        if source is not None:
            for path in source.directory.glob("*.jsonl"):
                shutil.copy(path, self.directory / path.name)
                if power and path.name in source.synced:
                    os.truncate(self.directory / path.name, source.synced[path.name])
        _OPEN.append(self)
        setattr(files, "sync_data", _noted)  # noqa: B010  # what is synced is known nowhere else

    def store(self) -> SessionStore:
        """See ``Storage``."""
        return JsonlStore(self.directory, write=self._write)

    def _write(self, descriptor: int, data: memoryview) -> int:
        name, status = _path(descriptor).name, os.fstat(descriptor)
        self.synced.setdefault(name, status.st_size)
        if self.mood == "full":
            os.write(descriptor, data[: len(data) // 2])
            raise OSError(28, "no room")
        return os.write(descriptor, data)

    def copy(self, *, power: bool) -> Storage:
        """See ``Storage``."""
        return FileStorage(self, power=power)

    def hold_written(self, session_id: str, seq: int) -> None:
        """See ``Storage``."""
        path = self.directory / f"{session_id}.jsonl"
        if self.mood == "well" and path.exists():
            lines = path.read_bytes().count(b"\n") - 1
            require(lines > seq, "P4", "event {} of {} is not written, and its call runs", seq, session_id)

    def end(self) -> None:
        """Take the directory away."""
        _OPEN.remove(self)
        if not _OPEN:
            setattr(files, "sync_data", _SYNC)  # noqa: B010
        shutil.rmtree(self.directory, ignore_errors=True)


_OPEN: list[FileStorage] = []
_SYNC = files.sync_data


def _noted(descriptor: int) -> None:
    _SYNC(descriptor)
    path = _path(descriptor)
    for one in _OPEN:
        if path.parent == one.directory:
            one.synced[path.name] = os.fstat(descriptor).st_size


def _path(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()


class RowStorage:
    """A database; each of its commits is on disk."""

    mood: Mood = "well"

    def __init__(self, source: RowStorage | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="treadle-machine-"))
        if source is not None:
            for end in ("", "-wal"):
                path = source.directory / f"sessions.sqlite{end}"
                with contextlib.suppress(FileNotFoundError):
                    shutil.copy(path, self.directory / path.name)

    def store(self) -> SessionStore:
        """See ``Storage``."""
        return SqliteStore(self.directory / "sessions.sqlite", busy=10)

    def copy(self, *, power: bool) -> Storage:
        """See ``Storage``."""
        del power  # a commit is as safe as it gets
        return RowStorage(self)

    def hold_written(self, session_id: str, seq: int) -> None:
        """What others have committed is not looked at here."""

    def end(self) -> None:
        """Take the directory away."""
        shutil.rmtree(self.directory, ignore_errors=True)


KINDS: dict[str, Any] = {"memory": MemoryStorage, "jsonl": FileStorage, "sqlite": RowStorage}
