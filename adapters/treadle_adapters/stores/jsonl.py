"""The JSONL store: one directory per project, one file per session, one record per line (§13).

``<id>.jsonl`` holds the header line and then event 0, 1, 2, …; ``<id>.jsonl.zst`` the same, compressed. While a
session is written, ``<id>.lock`` beside it names the writer. Everything that blocks runs in worker threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import trio
from attrs import frozen

from treadle import DuplicateSession, Event, SessionCorrupt, SessionHeader, SessionLocked, SessionNotFound, StoreFailure
from treadle.session import (
    WINDOW,
    BatchWriter,
    Listing,
    OpenSession,
    StoredSession,
    TornTail,
    encode_event,
    encode_header,
    fork_stored,
    readable,
)
from treadle.session import session_id as checked_id

from .files import AppendFile, Write, in_thread, make_directory, read_all, sync_directory, to_end, write_whole
from .frames import pack, unpack
from .jsonl_listing import list_directory
from .jsonl_records import Parsed, parse
from .locks import FileLock

T = TypeVar("T")
Fsync = Literal["always", "flush", "never"]
PLAIN, PACKED, LOCK = ".jsonl", ".jsonl.zst", ".lock"


@frozen
class _Sink:
    """Appends batches to a session's file."""

    file: AppendFile
    fsync: Fsync

    async def write(self, first: int, records: Sequence[bytes], durable: bool) -> bool:  # noqa: ARG002  # the file knows its end
        sync = self.fsync == "always" or (durable and self.fsync == "flush")
        payload = b"\n".join(records) + b"\n" if records else b""
        await in_thread(lambda: self.file.append(payload, sync=sync))
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

    def _writer(self, session_id: str, file: AppendFile, count: int) -> BatchWriter:
        return BatchWriter(session_id, _Sink(file, self.fsync), count, window=self._window)

    async def open_write(self, session_id: str) -> OpenSession:
        """See ``SessionStore``."""
        stored, file = await _in_thread(self._open_write, session_id)
        return OpenSession(stored, self._writer(session_id, file, len(stored.events)))

    def _open_write(self, session_id: str) -> tuple[StoredSession, AppendFile]:
        path = self._stored_at(session_id)
        lock = self._lock(session_id)
        try:
            file = self._append_file(path, lock)
        except BaseException:
            lock.release()
            raise
        try:
            parsed, _ = self._parse(path)
            if parsed.damage is not None:
                raise parsed.damage
            if parsed.reader.upgrades:
                return _stored(parsed, self._upgrade(path, parsed, file)), file
            file.begin(parsed.end)
            file.append(b"\n" if parsed.unended else b"", sync=self.fsync != "never")
            return _stored(parsed, file.status), file
        except BaseException:
            file.close()
            raise

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
