"""The JSONL store: one directory per project, one file per session, one record per line (§13).

``<id>.jsonl`` holds the header line and then event 0, 1, 2, …; ``<id>.jsonl.zst`` the same, compressed. While a
session is written, ``<id>.lock`` beside it names the writer. Everything that blocks runs in worker threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import trio
from attrs import frozen

from treadle import DuplicateSession, Event, SessionCorrupt, SessionHeader, SessionLocked, SessionNotFound, StoreFailure
from treadle.session import (
    WINDOW,
    BatchWriter,
    Intake,
    Listing,
    OpenSession,
    StoredSession,
    Taken,
    TornTail,
    encode_event,
    encode_header,
    fork_stored,
    readable,
)
from treadle.session import session_id as checked_id

from .checkpoints import SUFFIX, remove_checkpoint
from .files import AppendFile, Write, in_thread, make_directory, read_all, sync_directory, to_end, write_whole
from .frames import pack, unpack
from .jsonl_archive import JsonlArchive
from .jsonl_intake import PACKED, PLAIN, read_in
from .jsonl_listing import list_directory
from .jsonl_records import Parsed, parse
from .locks import FileLock

T = TypeVar("T")
Fsync = Literal["always", "flush", "never"]
LOCK = ".lock"


@frozen
class _Sink:
    """Appends batches to a session's file."""

    file: AppendFile
    fsync: Fsync
    archive: JsonlArchive

    async def write(self, first: int, records: Sequence[bytes], durable: bool) -> bool:
        sync = self.fsync == "always" or (durable and self.fsync == "flush")
        payload = b"\n".join(records) + b"\n" if records else b""
        start = self.file.end
        await in_thread(lambda: self.file.append(payload, sync=sync))
        self.archive.stored(first, len(records), start, self.file.end)
        return durable or sync

    async def release(self) -> None:
        await in_thread(self.file.close)


class JsonlStore:
    """Keeps sessions as files in a directory. See ``SessionStore`` for what its methods promise.

    Args:
        directory: holds the files; made when the first session is stored, for its owner only (X1).
        fsync: ``flush`` puts records on disk at each barrier, ``always`` with every batch, ``never`` leaves it to the
            operating system: a killed process loses nothing acknowledged then, a machine without power may (P7).
        compress: new sessions are compressed; existing ones stay as they are.
        window: seconds that live events wait for company (P1).
        write: takes a descriptor and bytes, returns how many it took; for tests.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        fsync: Fsync = "flush",
        compress: bool = False,
        window: float = WINDOW,
        write: Write = os.write,
    ) -> None:
        self.directory = Path(directory)
        self.fsync: Fsync = fsync
        self.compress = compress
        self._window = window
        self._write = write

    # --- places -------------------------------------------------------------------------------------------------------

    def path_of(self, session_id: str) -> Path:
        """The file of a session, there or not.

        Raises:
            MisuseError: the id could leave the directory (X2).
        """
        name = checked_id(session_id)
        plain, packed = self.directory / (name + PLAIN), self.directory / (name + PACKED)
        if packed.exists() or (self.compress and not plain.exists()):
            return packed
        return plain

    def _stored_at(self, session_id: str) -> Path:
        path = self.path_of(session_id)
        if not path.exists():
            raise SessionNotFound(f"no session {session_id!r} in {self.directory}; list() tells which there are")
        return path

    def _lock(self, session_id: str) -> FileLock:
        return FileLock.acquire(self.directory / (checked_id(session_id) + LOCK), f"session {session_id!r}")

    # --- writing ------------------------------------------------------------------------------------------------------

    async def create(self, header: SessionHeader, events: Sequence[Event] = ()) -> BatchWriter:
        """See ``SessionStore``."""
        records = [encode_header(header), *[encode_event(entry) for entry in events]]
        file = await _in_thread(self._create, header.id, b"\n".join(records) + b"\n")
        return self._writer(header.id, file, len(events))

    def _create(self, session_id: str, payload: bytes) -> AppendFile:
        path = self.path_of(session_id)
        make_directory(self.directory)
        taken = f"a session {session_id!r} is stored in {self.directory} already; resume it, or choose another id (O2)"
        try:
            lock = self._lock(session_id)
        except SessionLocked as error:
            raise DuplicateSession(f"{taken}: {error}") from error
        try:
            if path.exists():
                raise DuplicateSession(taken)
            packed = pack(payload) if path.name.endswith(PACKED) else payload
            write_whole(path, packed, durable=self.fsync != "never")
            return self._append_file(path, lock)
        except BaseException:
            lock.release()
            raise

    def _append_file(self, path: Path, lock: FileLock) -> AppendFile:
        packs = pack if path.name.endswith(PACKED) else None
        return AppendFile(path, lock, write=self._write, pack=packs)

    def _writer(
        self, session_id: str, file: AppendFile, count: int, archive: JsonlArchive | None = None
    ) -> BatchWriter:
        if archive is None:
            archive = JsonlArchive(file.path, self._beside(session_id), file.end, count, count + 1)
        sink = _Sink(file, self.fsync, archive)
        return BatchWriter(session_id, sink, count, window=self._window, archive=archive)

    def _beside(self, session_id: str) -> Path:
        return self.directory / (session_id + SUFFIX)

    async def open_write(self, session_id: str) -> OpenSession:
        """See ``SessionStore``."""
        stored, file = await _in_thread(self._open_write, session_id)
        return OpenSession(stored, self._writer(session_id, file, len(stored.events)))

    async def open_intake(self, session_id: str, intake: Intake) -> Taken:
        """See ``ArchivingStore``."""
        archive, torn, file = await _in_thread(self._open_intake, session_id, intake)
        writer = self._writer(session_id, file, archive.count, archive)
        return Taken(archive.count, torn, writer, archive)

    def _open_write(self, session_id: str) -> tuple[StoredSession, AppendFile]:
        with self._opened(session_id) as file:
            parsed, _ = self._parse(file.path)
            if parsed.damage is not None:
                raise parsed.damage
            if parsed.reader.upgrades:
                return _stored(parsed, self._upgrade(file.path, parsed, file)), file
            self._begin(file, parsed.end, unended=parsed.unended)
            return _stored(parsed, file.status), file

    def _open_intake(self, session_id: str, intake: Intake) -> tuple[JsonlArchive, TornTail | None, AppendFile]:
        beside = self._beside(session_id)
        with self._opened(session_id) as file:
            read = read_in(file.path, beside, intake)
            if read.damage is not None:
                raise read.damage
            if not read.parser.reader.upgrades:
                self._begin(file, read.end, unended=read.parser.unended)
                archive = JsonlArchive.of(read, beside)
            else:
                parsed, _ = self._parse(file.path)
                self._upgrade(file.path, parsed, file)
                archive = JsonlArchive(file.path, beside, 0, read.parser.count, read.parser.count + 1)
            archive.end = file.end
            return archive, read.torn, file

    @contextmanager
    def _opened(self, session_id: str) -> Generator[AppendFile]:
        """A session's file, locked; let go of where what is done with it fails."""
        path = self._stored_at(session_id)
        lock = self._lock(session_id)
        try:
            file = self._append_file(path, lock)
        except BaseException:
            lock.release()
            raise
        try:
            yield file
        except BaseException:
            file.close()
            raise

    def _begin(self, file: AppendFile, end: int, *, unended: bool) -> None:
        """Go on behind what counts; a last record without its newline gets it."""
        file.begin(end)
        file.append(b"\n" if unended else b"", sync=self.fsync != "never")

    def _upgrade(self, path: Path, parsed: Parsed, file: AppendFile) -> os.stat_result:
        """Rewrite a log of an older format in the current one (P5)."""
        records = [encode_header(parsed.reader.header), *[encode_event(entry) for entry in parsed.events]]
        payload = b"\n".join(records) + b"\n"
        file.rewrite(pack(payload) if path.name.endswith(PACKED) else payload, durable=self.fsync != "never")
        return file.status

    # --- reading ------------------------------------------------------------------------------------------------------

    def _parse(self, path: Path) -> tuple[Parsed, os.stat_result]:
        data, status = read_all(path)
        parsed = self._parse_packed(data, path) if path.name.endswith(PACKED) else parse(data, path)
        if path.name.removesuffix(".zst").removesuffix(PLAIN) != parsed.reader.header.id:
            raise SessionCorrupt(f"the header names session {parsed.reader.header.id!r}", path=str(path), line=1)
        return parsed, status

    def _parse_packed(self, data: bytes, path: Path) -> Parsed:
        unpacked = unpack(data)
        parsed = parse(unpacked.text, path)
        line = len(parsed.events) + 2
        if unpacked.damage is not None or parsed.torn is not None:
            said = unpacked.damage or str(parsed.torn)
            parsed.damage = parsed.damage or SessionCorrupt(
                f"damaged frame: {said}", line - 2, path=str(path), line=line
            )
            parsed.torn = None
        elif unpacked.torn is not None:
            parsed.torn = TornTail(str(path), line, len(data) - unpacked.end, unpacked.torn)
        parsed.end = unpacked.end
        return parsed

    async def open_read(self, session_id: str) -> StoredSession:
        """See ``SessionStore``."""
        return readable(await self.inspect(session_id))

    async def inspect(self, session_id: str) -> StoredSession:
        """See ``SessionStore``."""
        return await _in_thread(lambda: _stored(*self._parse(self._stored_at(session_id))))

    async def revision(self, session_id: str) -> str:
        """See ``SessionStore``."""
        return await _in_thread(lambda: _revision(self._stored_at(session_id).stat()))

    async def list(self) -> Listing:
        """See ``SessionStore``."""
        return await _in_thread(list_directory, self.directory)

    async def fork(self, session_id: str, new_id: str, upto: int | None = None) -> SessionHeader:
        """See ``SessionStore``."""
        return await fork_stored(self, session_id, new_id, upto)

    async def delete(self, session_id: str) -> None:
        """See ``SessionStore``."""
        await _in_thread(self._delete, session_id)

    def _delete(self, session_id: str) -> None:
        path = self._stored_at(session_id)
        lock = self._lock(session_id)
        try:
            path.unlink()
            remove_checkpoint(self._beside(session_id))
            sync_directory(self.directory)
        finally:
            lock.release()

    async def close(self) -> None:
        """See ``SessionStore``."""
        await trio.lowlevel.checkpoint()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<JsonlStore {self.directory}>"


async def _in_thread(function: Callable[..., T], *args: Any) -> T:
    """Run what blocks in a worker thread, to its end: a cancelled caller never leaves a lock behind."""
    await trio.lowlevel.checkpoint_if_cancelled()
    try:
        return await to_end(trio.to_thread.run_sync, function, *args)
    except OSError as error:
        raise StoreFailure(
            f"{error}; the session store needs a directory that exists or may be made, with room"
        ) from error


def _stored(parsed: Parsed, status: os.stat_result) -> StoredSession:
    return StoredSession(parsed.reader.header, parsed.events, _revision(status), parsed.torn, parsed.damage)


def _revision(status: os.stat_result) -> str:
    return f"{status.st_ino:x}.{status.st_size:x}.{status.st_mtime_ns:x}"
