"""A memory store whose writes wait for the test, or fail when it says so."""

from collections.abc import Sequence

import trio

from treadle import MemoryStore
from treadle.session import BatchWriter, Sink
from treadle.session.memory import Kept


class GatedSink:
    def __init__(self, inner: Sink, store: "GatedStore") -> None:
        self.inner = inner
        self.store = store

    async def write(self, first: int, records: Sequence[bytes], durable: bool) -> bool:
        self.store.attempts.append((len(records), durable))
        await self.store.gate.wait()
        if self.store.failure is not None:
            raise self.store.failure
        await self.inner.write(first, records, durable)
        self.store.written.append(len(records))
        return durable

    async def release(self) -> None:
        await self.inner.release()


class GatedStore(MemoryStore):
    """Set ``gate`` to let writes through; set ``failure`` to have them fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = trio.Event()
        self.gate.set()
        self.failure: Exception | None = None
        self.attempts: list[tuple[int, bool]] = []
        self.written: list[int] = []

    def shut(self) -> None:
        self.gate = trio.Event()

    def _writer(self, id: str, kept: Kept) -> BatchWriter:
        writer = super()._writer(id, kept)
        writer._sink = GatedSink(writer._sink, self)
        return writer
