"""What a bridged agent tells, as async iterators: events of its log, and frames of its live answers."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Generic, Self, TypeVar

from ..agent.agent import Agent
from ..agent.delivery import Receipt
from ..errors import BridgeClosed, ScopeClosed, StreamOverrun
from ..hooks.points import (
    ASSISTANT_STREAM,
    INBOX_CLAIMED,
    INBOX_DISCARDED,
    SESSION_EVENT,
    AssistantStream,
    InboxClaimed,
    InboxDiscarded,
    SessionEventAdded,
)
from ..hooks.scope import Disposer
from ..session.window import PIECE
from ..words.events import Event, TurnEnd
from ..words.frames import StreamFrame
from ..words.messages import UserMessage
from .crossing import Crossing
from .inbox import BridgedReceipt

T = TypeVar("T")
MAX_FRAMES = 100_000
"""Frames that wait for a slow reader before its stream is given up."""


class Feed:
    """The host's side of a stream: takes what is told and wakes the reader in its loop."""

    def __init__(self, agent: Agent, loop: asyncio.AbstractEventLoop, wake: asyncio.Event) -> None:
        self.agent = agent
        self.frames: deque[StreamFrame] = deque()
        self.closed = False
        self.lost = 0
        self.undo: list[Disposer] = []
        self._loop = loop
        self._wake = wake

    def subscribe(self) -> None:
        """Listen, until the agent's end at the latest; in the host's thread, as everything here."""
        try:
            self.listen()
            self.undo.append(self.agent.scope.defer(self.close))
        except ScopeClosed:
            self.close()

    def listen(self) -> None:
        """Listen to events: a reader of the log need only be woken."""
        self.undo.append(self.agent.scope.on(SESSION_EVENT, self.ring))

    def unsubscribe(self) -> None:
        """Listen no more."""
        while self.undo:
            self.undo.pop()()

    def close(self) -> None:
        """Nothing comes any more."""
        self.closed = True
        self.ring()

    def ring(self, _: object = None) -> None:
        """Wake the reader."""
        try:
            self._loop.call_soon_threadsafe(self._wake.set)
        except RuntimeError:
            self.closed = True  # the reader's loop is gone, and the reader with it


class FrameFeed(Feed):
    """Keeps the frames of live answers until they are read."""

    def listen(self) -> None:
        """Listen to frames."""
        self.undo.append(self.agent.scope.on(ASSISTANT_STREAM, self.take))

    def take(self, told: AssistantStream) -> None:
        """Keep a frame, unless the reader is far behind."""
        if len(self.frames) < MAX_FRAMES:
            self.frames.append(told.frame)
        else:
            self.lost += 1
        self.ring()


class TurnFeed(FrameFeed):
    """Keeps the frames of the one turn that a message opens, and closes with that turn."""

    def __init__(
        self, agent: Agent, loop: asyncio.AbstractEventLoop, wake: asyncio.Event, message: UserMessage
    ) -> None:
        super().__init__(agent, loop, wake)
        self._message = message
        self._turn: int | None = None

    def deliver(self) -> Receipt:
        """Listen, then send the message.

        Raises:
            DuplicateMessage, AgentDisposed: it was not accepted.
        """
        self.subscribe()
        try:
            return self.agent.followup(self._message)
        except BaseException:
            self.close()
            raise

    def listen(self) -> None:
        """Listen to frames, and to what becomes of the message and its turn."""
        scope = self.agent.scope
        super().listen()
        self.undo.append(scope.on(INBOX_CLAIMED, self._claimed))
        self.undo.append(scope.on(INBOX_DISCARDED, self._discarded))
        self.undo.append(scope.on(SESSION_EVENT, self._event))

    def take(self, told: AssistantStream) -> None:
        """Keep a frame of that turn."""
        if self._turn is not None:
            super().take(told)

    def _claimed(self, told: InboxClaimed) -> None:
        if told.message.id == self._message.id:
            self._turn = told.turn

    def _discarded(self, told: InboxDiscarded) -> None:
        if told.message.id == self._message.id:
            self.close()

    def _event(self, told: SessionEventAdded) -> None:
        data = told.event.data
        if self._turn is not None and type(data) is TurnEnd and data.turn == self._turn:
            self.unsubscribe()
            self.close()


class Stream(Generic[T]):
    """An async iterator that ends with its agent. Leaving it early changes nothing but that nobody reads on.

    Iterate it, or use it as an async context manager around the iteration, so that it is let go of at once.
    """

    feed: Feed

    def __init__(self, crossing: Crossing) -> None:
        self._crossing = crossing
        self._wake = asyncio.Event()
        self._closed = False

    def _next(self) -> T | None:
        """The next item, if it is there."""
        raise NotImplementedError

    async def _finish(self) -> None:
        """Raise what the end has to tell."""

    async def __anext__(self) -> T:
        while True:
            self._wake.clear()
            over = self._closed or self.feed.closed
            item = self._next() if not self._closed else None
            if item is not None:
                return item
            if over:
                await self.aclose()
                await self._finish()
                raise StopAsyncIteration
            await self._wake.wait()

    def __aiter__(self) -> Self:
        return self

    async def aclose(self) -> None:
        """Stop reading. Idempotent."""
        self._wake.set()
        self._let_go()

    def _let_go(self) -> None:
        if not self._closed:
            self._closed = True
            try:
                self._crossing.call(self.feed.unsubscribe)
            except BridgeClosed:
                self.feed.undo.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._let_go()


class EventStream(Stream[Event]):
    """The events of an agent's log, from a position on: what is recorded already, then what follows."""

    def __init__(self, crossing: Crossing, agent: Agent, start: int) -> None:
        super().__init__(crossing)
        self._seq = start
        self._ahead: deque[Event] = deque()
        self.feed = Feed(agent, asyncio.get_running_loop(), self._wake)
        crossing.call(self.feed.subscribe)

    def _next(self) -> Event | None:
        if not self._ahead:
            self._ahead.extend(self.feed.agent.session.events[self._seq : self._seq + PIECE])
            self._seq += len(self._ahead)
        return self._ahead.popleft() if self._ahead else None


class FrameStream(Stream[StreamFrame]):
    """Frames of an agent's live answers: all from now on, or those of the turn that answers a message (Q9).

    Attributes:
        receipt: of the message that ``BridgedAgent.stream`` sent.

    Raises:
        StreamOverrun: from the iteration, when the reader was so slow that frames were lost.
    """

    def __init__(
        self,
        crossing: Crossing,
        agent: Agent,
        message: UserMessage | None = None,
        receipt: BridgedReceipt | None = None,
    ) -> None:
        super().__init__(crossing)
        self.receipt = receipt
        loop = asyncio.get_running_loop()
        if message is not None and receipt is not None:
            self.feed = feed = TurnFeed(agent, loop, self._wake, message)
            crossing.call_into(receipt, feed.deliver)
        else:
            self.feed = FrameFeed(agent, loop, self._wake)
            crossing.call(self.feed.subscribe)

    def _next(self) -> StreamFrame | None:
        feed = self.feed
        if feed.frames:
            return feed.frames.popleft()
        if feed.lost:
            raise StreamOverrun(f"{feed.lost} frames were lost: the reader is slower than the model; read the log")
        return None

    async def _finish(self) -> None:
        if self.receipt is not None:
            await self.receipt
