"""What lies between a transport and the client: it tells when the connection is over, and bounds what a server may do.

Sending never waits for the server: what it does not read yet is kept, up to a bound. So a cancelled call is over at
once, whatever the server does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self, cast

import anyio
import mcp_types
import trio
from mcp.shared.message import SessionMessage

from .servers import Limits

MOST_WAITING = 4_096
"""How many messages to a server may wait until it reads them."""
WINDOW = 10.0
"""Seconds over which messages that nobody asked for are counted."""
NOT_SENT, TOO_LONG = -32_097, -32_098
"""Codes of ours: of a request that did not reach the server, and of an answer that is too long to be let in."""

Transport = AbstractAsyncContextManager[tuple[Any, Any]]
"""A transport as the SDK knows it: its two ends, to read from and to write to."""


@asynccontextmanager
async def watched(
    transport: Transport, limits: Limits, lost: Callable[[str], None], noticed: Callable[[str], None]
) -> AsyncGenerator[tuple[Incoming, Outgoing]]:
    """A transport whose end, and whose excess, is told to ``lost`` with the reason.

    ``noticed`` is told the method of each notification when it is read: before what comes after it, which a task of its
    own could not promise.
    """
    async with transport as (reading, writing), trio.open_nursery() as nursery:
        outgoing = Outgoing(lost)
        nursery.start_soon(outgoing.pump, writing)
        try:
            yield Incoming(reading, limits, lost, noticed), outgoing
        finally:
            nursery.cancel_scope.cancel()


class Incoming:
    """Messages from the server, in order."""

    def __init__(
        self, source: Any, limits: Limits, lost: Callable[[str], None], noticed: Callable[[str], None]
    ) -> None:
        self._source = source
        self._most = limits.unasked
        self._lost = lost
        self._noticed = noticed
        self._unasked = 0
        self._since = trio.current_time()

    async def receive(self) -> SessionMessage | Exception:
        """The next message.

        Raises:
            anyio.EndOfStream: the connection is over.
        """
        try:
            item: SessionMessage | Exception = await self._source.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._lost("it closed the connection")
            raise anyio.EndOfStream from None
        if isinstance(item, SessionMessage) and isinstance(
            item.message, (mcp_types.JSONRPCRequest, mcp_types.JSONRPCNotification)
        ):
            self._count()
            if isinstance(item.message, mcp_types.JSONRPCNotification):
                self._noticed(item.message.method)
        return item

    def _count(self) -> None:
        now = trio.current_time()
        if now - self._since > WINDOW:
            self._since, self._unasked = now, 0
        self._unasked += 1
        if self._unasked > self._most:
            self._lost(f"it sent more than {self._most} messages within {WINDOW:g} s that nobody asked for")
            raise anyio.EndOfStream

    async def aclose(self) -> None:
        """Close it."""
        await self._source.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Outgoing:
    """Messages to the server, in order; sending does not wait."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        self._lost = lost
        self._queue: deque[SessionMessage] = deque()
        self._wake = trio.Event()
        self._closed = False

    async def send(self, item: SessionMessage, /) -> None:
        """Have a message sent.

        Raises:
            anyio.ClosedResourceError: it was closed.
            anyio.BrokenResourceError: the server does not read what it is sent.
        """
        if self._closed:
            raise anyio.ClosedResourceError
        if len(self._queue) >= MOST_WAITING:
            self._lost(f"it left {MOST_WAITING} messages unread")
            raise anyio.BrokenResourceError
        self._queue.append(item)
        self._wake.set()
        await trio.lowlevel.checkpoint()

    async def pump(self, target: Any) -> None:
        """Hand over what is sent until it is closed."""
        async with target:
            while True:
                while self._queue:
                    try:
                        await target.send(self._queue.popleft())
                    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                        self._lost("it takes no more messages")
                        return
                if self._closed:
                    return
                self._wake = trio.Event()
                await self._wake.wait()

    async def aclose(self) -> None:
        """Close it; what was sent before still goes out."""
        self._closed = True
        self._wake.set()
        await trio.lowlevel.cancel_shielded_checkpoint()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def refused(id: Any, code: int, message: str) -> SessionMessage:
    """An error that stands for an answer which is not let in."""
    error = mcp_types.ErrorData(code=code, message=message)
    return SessionMessage(cast("Any", mcp_types.JSONRPCError(jsonrpc="2.0", id=id, error=error)))
