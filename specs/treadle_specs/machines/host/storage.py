"""Where a world keeps its sessions: stores that are slow, fail and acknowledge late, and what a kill or a power cut leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import trio
from attrs import define, field

from treadle import MemoryStore
from treadle.session import BatchWriter, SessionStore, Sink
from treadle.session.memory import Kept

from ...exploration.violation import require

Mood = Literal["well", "slow", "late", "full", "unsure"]
"""At once; each write takes a while; written at once and acknowledged after a while; no room; no sync succeeds."""
SLOW = 0.3
"""Seconds that a slow write takes, or a late acknowledgement."""


class Storage(Protocol):
    """A place for sessions, and the means to harm it."""

    mood: Mood

    def store(self) -> SessionStore:
        """A store on it."""
        ...

    def copy(self, *, power: bool) -> Storage:
        """What a kill at this moment leaves; with ``power`` only what is on disk."""
        ...

    def hold_written(self, session_id: str, seq: int) -> None:
        """Hold that the operating system has an event, where that can be seen (P4)."""
        ...

    def hold_durable(self, session_id: str, seq: int) -> None:
        """Hold that an event is on disk, where that can be seen (P8)."""
        ...

    def end(self) -> None:
        """Take it away."""
        ...


@define(eq=False)
class _MoodySink:
    """A sink of a memory store, in the mood of its storage."""

    inner: Sink
    storage: MemoryStorage
    kept: Kept

    async def write(self, first: int, records: Sequence[bytes], durable: bool) -> bool:
        if self.storage.mood == "slow":
            await trio.sleep(SLOW)
        if self.storage.mood == "full" or (durable and self.storage.mood == "unsure"):
            self.storage.refused += 1
            raise OSError(28, "no room")
        await self.inner.write(first, records, durable)
        if durable:
            self.storage.disk[_key(self.kept)] = len(self.kept.records)
        if self.storage.mood == "late":
            await trio.sleep(SLOW)
        return durable

    async def release(self) -> None:
        await self.inner.release()


class _MoodyStore(MemoryStore):
    """A memory store whose writers are in the mood of its storage."""

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__(storage.shelf)
        self._storage = storage

    def _writer(self, id: str, kept: Kept) -> BatchWriter:  # pyright: ignore[reportIncompatibleMethodOverride]
        made: Any = super()._writer(id, kept)
        self._storage.disk.setdefault(_key(kept), len(kept.records))
        made._sink = _MoodySink(made._sink, self._storage, kept)
        return made


def _key(kept: Kept) -> int:
    return id(kept)


@define(eq=False)
class MemoryStorage:
    """A shelf in memory; how much of each session is on disk is counted beside it."""

    shelf: dict[str, Kept] = field(factory=dict[str, Kept])
    disk: dict[int, int] = field(factory=dict[int, int])
    mood: Mood = "well"
    refused: int = 0

    def store(self) -> SessionStore:
        """See ``Storage``."""
        return _MoodyStore(self)

    def copy(self, *, power: bool) -> Storage:
        """See ``Storage``."""
        copied: dict[str, Kept] = {}
        for name, kept in self.shelf.items():
            count = self.disk.get(_key(kept), len(kept.records)) if power else len(kept.records)
            copied[name] = Kept(kept.header, list(kept.records[:count]))
        return MemoryStorage(copied)

    def hold_written(self, session_id: str, seq: int) -> None:
        """See ``Storage``."""
        kept = self.shelf.get(session_id)
        if kept is not None and not self.refused:
            require(len(kept.records) > seq, "P4", "event {} of {} is not written, and its call runs", seq, session_id)

    def hold_durable(self, session_id: str, seq: int) -> None:
        """See ``Storage``."""
        kept = self.shelf.get(session_id)
        if kept is not None and not self.refused:
            require(self.disk.get(_key(kept), 0) > seq, "P8", "event {} of {} is not on disk", seq, session_id)

    def end(self) -> None:
        """Nothing to take away."""
