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


Undo = Callable[[], None]

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


def delete_memory(directory: Path, session_id: str) -> None:
    del SHELVES[directory][session_id]


def rename_memory(directory: Path, session_id: str) -> Undo:
    shelf = SHELVES[directory]
    kept = shelf.pop(session_id)

    def undo() -> None:
        kept.owner = None
        shelf[session_id] = kept

    return undo


def copy_memory(directory: Path, session_id: str) -> Undo:
    kept = SHELVES[directory][session_id]
    copy = Kept(kept.header, list(kept.records))
    return lambda: SHELVES[directory].update({session_id: copy})


def cut_memory(directory: Path, session_id: str) -> None:
    records = SHELVES[directory][session_id].records
    del records[len(records) // 2 :]


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


def files_of(directory: Path, session_id: str) -> list[Path]:
    return [file_of(directory, session_id)]


def databases(directory: Path, _: str) -> list[Path]:
    return sorted(directory.glob("sessions.sqlite*"))


def deletes(files: Callable[[Path, str], list[Path]]) -> Callable[[Path, str], None]:
    def delete(directory: Path, session_id: str) -> None:
        for path in files(directory, session_id):
            if path.is_file():
                path.unlink()

    return delete


def renames(files: Callable[[Path, str], list[Path]]) -> Callable[[Path, str], Undo]:
    def rename(directory: Path, session_id: str) -> Undo:
        paths = [path for path in files(directory, session_id) if path.is_file()]
        moved = [path.rename(directory.parent / f"moved-{path.name}") for path in paths]

        def undo() -> None:
            for old, new in zip(paths, moved, strict=True):
                new.rename(old)

        return undo

    return rename


def copies(files: Callable[[Path, str], list[Path]]) -> Callable[[Path, str], Undo]:
    def copy(directory: Path, session_id: str) -> Undo:
        held = {path: path.read_bytes() for path in files(directory, session_id) if path.is_file()}

        def replace() -> None:
            for path, data in held.items():
                beside = directory.parent / "copy"
                beside.write_bytes(data)
                beside.replace(path)

        return replace

    return copy


def cuts(files: Callable[[Path, str], list[Path]]) -> Callable[[Path, str], None]:
    def cut(directory: Path, session_id: str) -> None:
        path = files(directory, session_id)[-1]
        os.truncate(path, path.stat().st_size // 2)

    return cut


@contextlib.contextmanager
def revoke(directory: Path, _: str) -> Iterator[None]:
    """Nothing may be written, also not by root, who is somebody else for a while."""
    above = {path: path.stat() for path in directory.parents if path.stat().st_uid == os.geteuid()}
    below = {path: path.stat() for path in (directory, *directory.rglob("*"))}
    for path, status in above.items():
        path.chmod(status.st_mode | 0o055)
    for path, status in below.items():
        path.chmod(status.st_mode & 0o555 | (0o055 if path.is_dir() else 0o044))
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for path, status in {**above, **below}.items():
            path.chmod(status.st_mode)


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


def cut_database(directory: Path, _: str) -> None:
    """Cut the database after everything was put into it: its log beside it holds some pages only."""
    os.truncate(directory / "sessions.sqlite-wal", 3_000)


FILE_FAULTS = Faults(
    tear_file,
    spoil_file,
    steal_file,
    jam_file,
    deletes(files_of),
    renames(files_of),
    copies(files_of),
    cuts(files_of),
    revoke,
)
MEMORY_FAULTS = Faults(
    None, spoil_memory, steal_memory, jam_memory, delete_memory, rename_memory, copy_memory, cut_memory
)
ROW_FAULTS = Faults(
    None,
    spoil_rows,
    steal_row,
    jam_rows,
    deletes(databases),
    renames(databases),
    copies(databases),
    cut_database,
    revoke,
)
MEMORY = Kind("memory", memory, MEMORY_FAULTS)
JSONL = Kind("jsonl", jsonl, FILE_FAULTS)
COMPRESSED = Kind("jsonl.zst", compressed, FILE_FAULTS)
SQLITE = Kind("sqlite", sqlite, ROW_FAULTS)
KINDS = (MEMORY, JSONL, COMPRESSED, SQLITE)
