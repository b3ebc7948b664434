"""What the web asks of a host: one interface, over a trio host and over the bridge to asyncio.

Everything that changes an agent runs in the host's thread, through ``Port.run``. What is told by streams is read where
the server runs, from lists that only grow; a ``Bell`` says that there is more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import trio

from treadle import Host
from treadle.asyncio import Bridge

T = TypeVar("T")
LOOKS = 0.004
"""Seconds after which a loop that was woken looks for further rings by itself."""


class Bell:
    """Wakes one task of the server's loop. Rung from any thread; rings that nobody waited for yet are one.

    Args:
        wake: has ``open`` called in the server's loop.
        event: the loop's own kind of event.
    """

    __slots__ = ("_event", "_make", "_rung", "_wake")

    def __init__(self, wake: Callable[[Bell], None], event: Callable[[], trio.Event | asyncio.Event]) -> None:
        self._wake = wake
        self._make = event
        self._rung = False
        self._event: trio.Event | asyncio.Event | None = None

    def ring(self) -> None:
        """Wake the task that waits, or the next one that will."""
        if not self._rung:
            self._rung = True
            self._wake(self)

    def open(self) -> None:
        """In the server's loop: let the waiting task go on."""
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Wait until it was rung since the last wait; it may return early, never late."""
        event = self._event = self._make()
        if not self._rung:
            await event.wait()
        self._event = None
        self._rung = False


class Port(Protocol):
    """What the web asks of a host.

    Attributes:
        host: the host; to be read from anywhere.
    """

    host: Host

    async def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run a trio function in the host's thread and return its result; a cancellation reaches it there.

        Raises:
            BridgeClosed: the bridge is not open.
            Exception: what the function raised.
        """
        ...

    def bell(self) -> Bell:
        """A bell for a task of the server's loop; to be called there."""
        ...


class TrioPort:
    """A host in the server's own trio loop: nothing has to cross. Otherwise see ``Port``."""

    def __init__(self, host: Host) -> None:
        self.host = host

    async def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """See ``Port.run``."""
        return await function(*args)

    def bell(self) -> Bell:
        """See ``Port.bell``."""
        return Bell(Bell.open, trio.Event)


class BridgePort:
    """A host in a thread of its own, behind the bridge. Otherwise see ``Port``.

    Rings are gathered: the first one wakes the loop at once, and while there are more it looks every few milliseconds by
    itself, so that it is not woken for each.
    """

    def __init__(self, bridge: Bridge) -> None:
        self.host = bridge.host
        self._bridge = bridge
        self._rung: deque[Bell] = deque()
        self._looking = self._busy = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """See ``Port.run``."""
        return await self._bridge.run(function, *args)

    def bell(self) -> Bell:
        """See ``Port.bell``."""
        self._loop = asyncio.get_running_loop()
        return Bell(self._wake, asyncio.Event)

    def _wake(self, bell: Bell) -> None:
        self._rung.append(bell)
        if not self._looking and self._loop is not None:
            self._looking = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
                self._loop.call_soon_threadsafe(self._open)

    def _open(self) -> None:
        rung, loop = self._rung, self._loop
        assert loop is not None
        for _ in range(len(rung)):
            rung[0].open()
            rung.popleft()
            self._busy = True
        if self._busy:
            self._busy = False
            loop.call_later(LOOKS, self._open)
            return
        self._looking = False
        if rung:  # it was rung meanwhile, by a thread that saw us looking
            self._looking = True
            loop.call_soon(self._open)


def port_of(host: Host | Bridge) -> Port:
    """The port of a trio host, or of a bridge."""
    return BridgePort(host) if isinstance(host, Bridge) else TrioPort(host)
