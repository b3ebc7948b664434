"""What a bridged agent tells, as async iterators: events of its log, and frames of its live answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from .errors import BridgeClosed, ScopeClosed, StreamOverrun
from .hooks import Emit, HookPoint
from .points import ASSISTANT_STREAM, SESSION_EVENT, AssistantStream, StreamFrame
from .scope import Disposer
from .session.events import Event

if TYPE_CHECKING:
    from .agent import Agent
    from .asyncio import Bridge
    from .asyncio_agent import BridgedReceipt

T = TypeVar("T")
MAX_FRAMES = 100_000
"""Frames that wait for a slow reader before its stream is given up."""


class Stream(Generic[T]):
    """An async iterator that ends with its agent. Leaving it early changes nothing but that nobody reads on.

    Iterate it, or use it as an async context manager around the iteration, so that it is let go of at once.
    """

    def __init__(self, bridge: Bridge, agent: Agent, point: HookPoint[Any]) -> None:
        self._bridge = bridge
        self._agent = agent
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._closed = False
        self._undo: list[Disposer] = []
        self._feed = Feed(self._loop, self._wake, keeps=point is ASSISTANT_STREAM)
        bridge.call(_subscribe, agent, point, self._feed, self._undo)

    def _next(self) -> T | None:
        """The next item, if it is there."""
        raise NotImplementedError

    async def __anext__(self) -> T:
        while True:
            self._wake.clear()
            item = self._next()
            if item is not None:
                return item
            if self._closed or self._feed.closed:
                item = self._next()
                if item is not None:
                    return item
                await self.aclose()
                await self._finish()
                raise StopAsyncIteration
            await self._wake.wait()

    async def _finish(self) -> None:
        """Raise what the end has to tell."""

    def __aiter__(self) -> Self:
        return self

    async def aclose(self) -> None:
        """Stop reading. Idempotent."""
        self._closed = True
        self._wake.set()
        self._let_go()

    def _let_go(self) -> None:
        undo = self._undo
        try:
            self._bridge.call(lambda: [function() for function in undo])
        except BridgeClosed:
            undo.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if not self._closed:
            self._closed = True
            self._let_go()


class Feed:
    """The host's side of a stream: takes what is told and wakes the reader in its loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: asyncio.Event, *, keeps: bool) -> None:
        self.items: deque[Any] = deque()
        self.closed = False
        self.lost = 0
        self.keeps = keeps
        self._loop = loop
        self._wake = wake

    def __call__(self, payload: object) -> None:
        """A listener: in the host's thread."""
        if self.keeps and isinstance(payload, AssistantStream):
            if len(self.items) < MAX_FRAMES:
                self.items.append(payload.frame)
            else:
                self.lost += 1
        self.ring()

    def close(self) -> None:
        """Nothing comes any more."""
        self.closed = True
        self.ring()

    def ring(self) -> None:
        """Wake the reader."""
        try:
            self._loop.call_soon_threadsafe(self._wake.set)
        except RuntimeError:
            self.closed = True  # the reader's loop is gone, and the reader with it


def _subscribe(agent: Agent, point: HookPoint[Any], feed: Feed, undo: list[Disposer]) -> None:
    try:
        undo.append(agent.scope.on(cast("Emit[object]", point), feed))
        undo.append(agent.scope.defer(feed.close))
    except ScopeClosed:
        feed.close()


class EventStream(Stream[Event]):
    """The events of an agent's log, from a position on: what is recorded already, then what follows."""

    def __init__(self, bridge: Bridge, agent: Agent, start: int) -> None:
        self._seq = start
        super().__init__(bridge, agent, SESSION_EVENT)

    def _next(self) -> Event | None:
        events = self._agent.session.events
        if self._seq >= len(events):
            return None
        entry = events[self._seq]
        self._seq += 1
        return entry


class FrameStream(Stream[StreamFrame]):
    """The frames of an agent's live answers, from now on (Q9).

    Attributes:
        receipt: of the message that ``BridgedAgent.stream`` sent.

    Raises:
        StreamOverrun: from the iteration, when the reader was so slow that frames were lost.
    """

    def __init__(self, bridge: Bridge, agent: Agent) -> None:
        self.receipt: BridgedReceipt | None = None
        super().__init__(bridge, agent, ASSISTANT_STREAM)

    def _next(self) -> StreamFrame | None:
        if self._feed.items:
            return self._feed.items.popleft()
        if self._feed.lost:
            raise StreamOverrun(
                f"{self._feed.lost} frames were lost: the reader is slower than the model; read the log"
            )
        return None

    async def _finish(self) -> None:
        if self.receipt is not None:
            await self.receipt

    @property
    def end(self) -> Callable[[], None]:
        """Ends the stream after what was told so far; for the host's thread."""
        return self._feed.close
