"""A store in memory: for tests, and for hosts that need resume but no disk (P1)."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import trio
from attrs import define, field

from ..errors import DuplicateSession, InvalidData, SessionCorrupt, SessionLocked, SessionNotFound, TreadleError
from ..ids import session_id as checked_id
from ..words.events import Event, UserMessageAdded, encode_event
from .codec import encode_header, read_header
from .fork import fork_stored
from .log import SessionHeader, wall_clock
from .store import Listed, Listing, OpenSession, StoredSession, Unreadable, readable
from .writer import BatchWriter

_GENERATIONS = itertools.count(1)
TITLE_LENGTH = 80
"""Characters of a listing's title (P6)."""


@define(eq=False)
class Kept:
    """One session as records, exactly as a file would hold them."""

    header: bytes
    records: list[bytes]
    generation: int = field(factory=lambda: next(_GENERATIONS))
    modified: int = field(factory=wall_clock)
    owner: str | None = None


class _Sink:
    """Writes to a ``Kept``; what is in memory is as durable as it gets."""

    def __init__(self, shelf: dict[str, Kept], id: str, owner: str) -> None:
        self._shelf = shelf
        self._id = id
        self._kept = shelf[id]
        self._owner = owner
        self._kept.owner = owner

    async def write(self, first: int, records: Sequence[bytes], durable: bool) -> bool:
        del durable  # it always is
        await trio.lowlevel.checkpoint()
        kept = self._kept
        if self._shelf.get(self._id) is not kept:
            raise SessionLocked("this session was replaced or removed by somebody else; it is not written (P2)")
        if kept.owner != self._owner or len(kept.records) != first:
            raise SessionLocked(
                f"the lock of this session was lost to {kept.owner or 'nobody'}; it is not written (P2)"
            )
        kept.records.extend(records)
        kept.modified = wall_clock()
        return True

    async def release(self) -> None:
        await trio.lowlevel.checkpoint()
        if self._kept.owner == self._owner:
            self._kept.owner = None


class MemoryStore:
    """Keeps sessions in a dictionary, encoded. See ``SessionStore`` for what its methods promise.

    Args:
        shelf: where the sessions are; stores that share it see the same ones, as if it were a directory.
        window: seconds that live events wait for company.
    """

    def __init__(self, shelf: dict[str, Kept] | None = None, *, window: float = 0.02) -> None:
        self.shelf: dict[str, Kept] = {} if shelf is None else shelf
        self._window = window
        self._name = f"process {os.getpid()}, memory store {next(_GENERATIONS)}"

    async def create(self, header: SessionHeader, events: Sequence[Event] = ()) -> BatchWriter:
        """See ``SessionStore``."""
        await trio.lowlevel.checkpoint()
        if checked_id(header.id) in self.shelf:
            raise DuplicateSession(f"a session {header.id!r} is stored already; resume it, or choose another id (O2)")
        kept = Kept(encode_header(header), [encode_event(entry) for entry in events])
        self.shelf[header.id] = kept
        return self._writer(header.id, kept)

    def _writer(self, id: str, kept: Kept) -> BatchWriter:
        sink = _Sink(self.shelf, id, f"{self._name}, writer {next(_GENERATIONS)}")
        return BatchWriter(id, sink, len(kept.records), window=self._window)

    def _kept(self, session_id: str) -> Kept:
        kept = self.shelf.get(checked_id(session_id))
        if kept is None:
            raise SessionNotFound(f"no session {session_id!r} in this store; list() tells which there are")
        return kept

    async def open_write(self, session_id: str) -> OpenSession:
        """See ``SessionStore``."""
        await trio.lowlevel.checkpoint()
        kept = self._kept(session_id)
        if kept.owner is not None:
            raise SessionLocked(f"session {session_id!r} is being written by {kept.owner} (P2); close it there first")
        stored = readable(_read(session_id, kept))
        return OpenSession(stored, self._writer(session_id, kept))

    async def open_read(self, session_id: str) -> StoredSession:
        """See ``SessionStore``."""
        return readable(await self.inspect(session_id))

    async def inspect(self, session_id: str) -> StoredSession:
        """See ``SessionStore``."""
        await trio.lowlevel.checkpoint()
        return _read(session_id, self._kept(session_id))

    async def revision(self, session_id: str) -> str:
        """See ``SessionStore``."""
        await trio.lowlevel.checkpoint()
        return _revision(self._kept(session_id))

    async def list(self) -> Listing:
        """See ``SessionStore``."""
        await trio.lowlevel.checkpoint()
        good: list[Listed] = []
        bad: list[Unreadable] = []
        for name, kept in self.shelf.items():
            try:
                good.append(_listed(kept))
            except TreadleError as error:
                bad.append(Unreadable(name, error))
        return Listing(tuple(sorted(good, key=lambda one: -one.modified)), tuple(bad))

    async def fork(self, session_id: str, new_id: str, upto: int | None = None) -> SessionHeader:
        """See ``SessionStore``."""
        return await fork_stored(self, session_id, new_id, upto)

    async def delete(self, session_id: str) -> None:
        """See ``SessionStore``."""
        await trio.lowlevel.checkpoint()
        kept = self._kept(session_id)
        if kept.owner is not None:
            raise SessionLocked(f"session {session_id!r} is being written by {kept.owner} (P2); close it there first")
        del self.shelf[session_id]

    async def close(self) -> None:
        """See ``SessionStore``."""
        await trio.lowlevel.checkpoint()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _revision(kept: Kept) -> str:
    return f"{kept.generation:x}.{len(kept.records):x}"


def _read(id: str, kept: Kept) -> StoredSession:
    try:
        reader = read_header(kept.header)
    except InvalidData as error:
        raise SessionCorrupt(f"session {id!r}: {error}", path=id, line=1) from error
    events: list[Event] = []
    damage: SessionCorrupt | None = None
    for seq, record in enumerate(kept.records):
        try:
            entry = reader.event(record)
        except InvalidData as error:
            damage = SessionCorrupt(str(error), seq, path=id, line=seq + 2)
            break
        if entry.seq != seq:
            damage = misplaced(entry.seq, seq, id, seq + 2)
            break
        events.append(entry)
    return StoredSession(reader.header, events, _revision(kept), damage=damage)


def misplaced(found: int, expected: int, path: str, line: int) -> SessionCorrupt:
    """An event whose number does not follow (N6, P3)."""
    return SessionCorrupt(
        f"event number {found} stands where {expected} is due (N6); nothing is rewritten, and inspect() reads what lies before",
        expected,
        path=path,
        line=line,
        expected=expected,
        found=found,
    )


def _listed(kept: Kept) -> Listed:
    reader = read_header(kept.header)
    size = len(kept.header) + sum(map(len, kept.records))
    title = next((text for record in kept.records[:50] if (text := title_of(reader.event(record)))), "")
    return Listed(reader.header, size, kept.modified, len(kept.records), title)


def title_of(entry: Event) -> str:
    """The beginning of a user message, in one line; empty for any other event (P6)."""
    if type(entry.data) is not UserMessageAdded:
        return ""
    return " ".join(entry.data.message.text[: 4 * TITLE_LENGTH].split())[:TITLE_LENGTH]
