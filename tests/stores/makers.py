"""The stores that the kit is run on, and how each is harmed."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
from attrs import frozen

from treadle import MemoryStore
from treadle.session import SessionStore
from treadle.session.memory import Kept
from treadle_adapters.stores.frames import pack, unpack
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_adapters.stores.sqlite import SqliteStore
from treadle_specs.kits import Faults


@frozen
class Kind:
    """A kind of store: how one is made on a directory, and the means to harm it."""

    name: str
    make: Callable[[Path], SessionStore]
    faults: Faults

    def __str__(self) -> str:
        return self.name


# --- memory -----------------------------------------------------------------------------------------------------------

SHELVES: dict[Path, dict[str, Kept]] = {}


def memory(directory: Path) -> MemoryStore:
    return MemoryStore(SHELVES.setdefault(directory, {}))


class Jammed(list[bytes]):
    def extend(self, records: object) -> None:
        raise OSError(errno.ENOSPC, "no room")


@contextlib.contextmanager
def jam_memory(directory: Path, session_id: str) -> Iterator[None]:
    kept = SHELVES[directory][session_id]
    kept.records = Jammed(kept.records)
    try:
        yield
    finally:
        kept.records = list(kept.records)


def spoil_memory(directory: Path, session_id: str) -> None:
    SHELVES[directory][session_id].records[3] = b'{"type":'


def steal_memory(directory: Path, session_id: str) -> None:
    SHELVES[directory][session_id].owner = None


# --- jsonl ------------------------------------------------------------------------------------------------------------

JAMMED: set[Path] = set()


def valve(descriptor: int, data: memoryview) -> int:
    """Writes half of what it is given to a jammed file, then finds the disk full."""
    if Path(f"/proc/self/fd/{descriptor}").readlink() in JAMMED:
        os.write(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "no room")
    return os.write(descriptor, data)


def jsonl(directory: Path) -> JsonlStore:
    return JsonlStore(directory, write=valve)


def compressed(directory: Path) -> JsonlStore:
    return JsonlStore(directory, compress=True, write=valve)


def file_of(directory: Path, session_id: str) -> Path:
    return next(path for path in directory.iterdir() if path.name.startswith(f"{session_id}.jsonl"))


def tear_file(directory: Path, session_id: str) -> None:
    path = file_of(directory, session_id)
    whole = b'{"type":"turn/start","seq":12,"ti'
    with path.open("ab") as file:
        file.write(pack(whole)[:20] if path.suffix == ".zst" else whole)


def spoil_file(directory: Path, session_id: str) -> None:
    path = file_of(directory, session_id)
    data = path.read_bytes()
    text = unpack(data).text if path.suffix == ".zst" else data
    lines = text.split(b"\n")
    lines[4] = lines[4][:20]
    damaged = b"\n".join(lines)
    path.write_bytes(pack(damaged) if path.suffix == ".zst" else damaged)


def steal_file(directory: Path, session_id: str) -> None:
    (directory / f"{session_id}.lock").unlink()


@contextlib.contextmanager
def jam_file(directory: Path, session_id: str) -> Iterator[None]:
    path = file_of(directory, session_id)
    JAMMED.add(path)
    try:
        yield
    finally:
        JAMMED.discard(path)


# --- sqlite -----------------------------------------------------------------------------------------------------------


def sqlite(directory: Path) -> SqliteStore:
    return SqliteStore(directory / "sessions.sqlite", busy=10)


@contextlib.contextmanager
def database(directory: Path) -> Iterator[apsw.Connection]:
    db = apsw.Connection(str(directory / "sessions.sqlite"))
    db.set_busy_timeout(10_000)
    try:
        yield db
    finally:
        db.close()


def spoil_rows(directory: Path, session_id: str) -> None:
    with database(directory) as db:
        db.execute("UPDATE events SET record = '{\"type\":' WHERE session = ? AND seq = 3", (session_id,))


def steal_row(directory: Path, session_id: str) -> None:
    (directory / "sessions.sqlite-locks" / f"{session_id}.lock").unlink()


@contextlib.contextmanager
def jam_rows(directory: Path, session_id: str) -> Iterator[None]:
    with database(directory) as db:
        db.execute(
            f"CREATE TRIGGER jam BEFORE INSERT ON events WHEN new.session = '{session_id}' "
            "BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
        try:
            yield
        finally:
            db.execute("DROP TRIGGER jam")


FILE_FAULTS = Faults(tear_file, spoil_file, steal_file, jam_file)
MEMORY = Kind("memory", memory, Faults(None, spoil_memory, steal_memory, jam_memory))
JSONL = Kind("jsonl", jsonl, FILE_FAULTS)
COMPRESSED = Kind("jsonl.zst", compressed, FILE_FAULTS)
SQLITE = Kind("sqlite", sqlite, Faults(None, spoil_rows, steal_row, jam_rows))
KINDS = (MEMORY, JSONL, COMPRESSED, SQLITE)
