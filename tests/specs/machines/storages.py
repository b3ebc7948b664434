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
    """A directory of JSONL files; what of each was synced, and which names the directory had when it was, is noted.

    What was not synced when a sync failed is lost at a power cut, whatever is synced later: the system thinks it is on disk.
    """

    def __init__(self, source: FileStorage | None = None, *, power: bool = False) -> None:
        self.mood: Mood = "well"
        self.directory = Path(tempfile.mkdtemp(prefix="treadle-machine-"))
        self.synced: dict[str, int] = {}
        self.listed: set[str] = set()
        self.doomed: dict[str, int] = {}
        if source is not None:
            for path in source.directory.glob("*.jsonl"):
                if not power or path.name in source.listed:
                    self._take(path, source.synced.get(path.name), power=power)
        _OPEN.append(self)
        setattr(files, "sync_data", _noted)  # noqa: B010  # what is synced is known nowhere else
        setattr(files, "sync_directory", _listed)  # noqa: B010

    def _take(self, path: Path, synced: int | None, *, power: bool) -> None:
        """What is left of a file that was written: of a killed process all, and the beginning of one more record."""
        mine = self.directory / path.name
        shutil.copy(path, mine)
        self.listed.add(path.name)
        if synced is not None and power:
            os.truncate(mine, synced)
        elif synced is not None:
            require(mine.read_bytes().endswith(b"\n"), "P1", "{} ends inside a record, and nobody writes", path.name)
            with mine.open("ab") as file:
                file.write(b'{"type":"turn/sta')

    def store(self) -> SessionStore:
        """See ``Storage``."""
        return JsonlStore(self.directory, write=self._write)

    def _write(self, descriptor: int, data: memoryview) -> int:
        name, status = _path(descriptor).name, os.fstat(descriptor)
        self.synced.setdefault(name, status.st_size)
        if status.st_size <= self.doomed.get(name, -1):
            del self.doomed[name]
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

    def hold_durable(self, session_id: str, seq: int) -> None:
        """See ``Storage``; a file that was not written since it was opened is what its opening left."""
        path = self.directory / f"{session_id}.jsonl"
        if self.mood == "well" and path.name in self.synced:
            lines = path.read_bytes()[: self.synced[path.name]].count(b"\n") - 1
            require(lines > seq, "P8", "event {} of {} is not on disk", seq, session_id)

    def end(self) -> None:
        """Take the directory away."""
        _OPEN.remove(self)
        if not _OPEN:
            setattr(files, "sync_data", _SYNC)  # noqa: B010
            setattr(files, "sync_directory", _SYNC_DIRECTORY)  # noqa: B010
        shutil.rmtree(self.directory, ignore_errors=True)


_OPEN: list[FileStorage] = []
_SYNC, _SYNC_DIRECTORY = files.sync_data, files.sync_directory


def _noted(descriptor: int) -> None:
    path, size = _path(descriptor), os.fstat(descriptor).st_size
    for one in _OPEN:
        if path.parent == one.directory:
            if one.mood == "unsure":
                one.doomed.setdefault(path.name, one.synced.get(path.name, size))
                raise OSError(5, "input/output error")
            if path.name not in one.doomed:
                one.synced[path.name] = size
    _SYNC(descriptor)


def _listed(path: Path) -> None:
    _SYNC_DIRECTORY(path)
    for one in _OPEN:
        if path == one.directory:
            one.listed = {entry.name for entry in path.glob("*.jsonl")}


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

    def hold_durable(self, session_id: str, seq: int) -> None:
        """As little as what is written."""

    def end(self) -> None:
        """Take the directory away."""
        shutil.rmtree(self.directory, ignore_errors=True)


KINDS: dict[str, Any] = {"memory": MemoryStorage, "jsonl": FileStorage, "sqlite": RowStorage}
