"""Where a run keeps its sessions: in memory, a write of which may go wrong, and what a death leaves of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import trio

from treadle import MemoryStore
from treadle.session import BatchWriter, Event, Session, Sink, encode_event
from treadle.session.memory import Kept

from .faults import SLOW, Faults

STUCK = 15 * SLOW
"""Virtual seconds that a write which hangs takes: stores come back some time."""


class _HarmedSink:
    """A sink whose writes are counted, and one of which goes wrong."""

    def __init__(self, inner: Sink, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def write(self, first: int, records: Sequence[bytes], durable: bool) -> bool:
        """See ``Sink``."""
        match self._faults.due("store", ""):
            case "fail":
                raise OSError(28, "no room, for the check")
            case "hang":
                await trio.sleep(STUCK)
            case "slow":
                await trio.sleep(SLOW)
            case _:
                pass
        return await self._inner.write(first, records, durable)

    async def release(self) -> None:
        """See ``Sink``."""
        await self._inner.release()


class HarmedStore(MemoryStore):
    """A memory store, one write of which goes wrong."""

    def __init__(self, shelf: dict[str, Kept], faults: Faults) -> None:
        super().__init__(shelf)
        self._faults = faults

    def _writer(self, id: str, kept: Kept) -> BatchWriter:
        made: Any = super()._writer(id, kept)
        made._sink = _HarmedSink(made._sink, self._faults)
        return made


def left_of(shelf: Mapping[str, Kept], session: Session | None = None, count: int = 0) -> dict[str, Kept]:
    """What a death leaves of a shelf; of ``session`` its first ``count`` events, if these are more than were stored."""
    left = {name: Kept(kept.header, list(kept.records)) for name, kept in shelf.items()}
    if session is not None and session.header.id in left:
        records = left[session.header.id].records
        events: Sequence[Event] = session.events
        records += [encode_event(entry) for entry in events[len(records) : count]]
    return left
