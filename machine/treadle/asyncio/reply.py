"""Answers on their way from a host's thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

import trio

from ..errors import MisuseError

T = TypeVar("T")
LOGGER = logging.getLogger("treadle")


class Reply(Generic[T]):
    """An answer on its way from the host's thread.

    Await it in asyncio, or call ``result`` in any other thread. A waiter that is cancelled or times out only stops
    waiting: what was asked for happens all the same. A failure that nobody looks at is logged (N8).

    Attributes:
        forbid: called first by whoever waits; raises where the wait would never end (L6).
    """

    def __init__(self) -> None:
        self.forbid: Callable[[], None] | None = None
        self._future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._seen = False

    def done(self) -> bool:
        """Whether the answer is there."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Block the calling thread until the answer is there, at most ``timeout`` seconds. Not for an event loop.

        Raises:
            MisuseError: it is not there yet, and the calling thread runs an event loop, which would stand still; or it
                itself waits for the caller (L6).
            TimeoutError: it did not come in time.
            Exception: what the call raised, the very object.
        """
        if not self.done() and timeout != 0:
            _forbid_blocking()
            if self.forbid is not None:
                self.forbid()
        concurrent.futures.wait([self._future], timeout)
        self._seen = self._future.done()
        return self._future.result(0)

    async def wait(self) -> T:
        """Wait for the answer in an asyncio loop, any; the same as to await the reply, any number of times.

        Raises:
            MisuseError: awaited by what the answer itself waits for (L6).
            Exception: what the call raised, the very object.
        """
        if self.forbid is not None and not self.done():
            self.forbid()
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[None] = loop.create_future()

        def arrive() -> None:
            if not arrived.done():
                arrived.set_result(None)

        def tell(_: object) -> None:
            try:
                loop.call_soon_threadsafe(arrive)
            except RuntimeError:
                LOGGER.debug("a loop was closed before an answer came")

        self._future.add_done_callback(tell)
        await arrived
        self._seen = True
        return self._future.result()

    def __await__(self) -> Generator[Any, Any, T]:
        return self.wait().__await__()

    def settle(self, value: T) -> None:
        """The host's side: the answer."""
        self._future.set_result(value)

    def fail(self, error: BaseException) -> None:
        """The host's side: the call raised."""
        self._future.set_exception(error)

    def __del__(self) -> None:
        if not self._seen and self._future.done() and self._future.exception() is not None:
            LOGGER.error("a call on the host failed, and nobody looked", exc_info=self._future.exception())


def _forbid_blocking() -> None:
    """Raise where a thread that blocks holds up an event loop, perhaps the very one that the answer needs (L6)."""
    if trio.lowlevel.in_trio_run():
        raise MisuseError(
            "result() would block the host's loop, which has to give the answer (L6): in a listener, hook or tool that "
            "runs there, use the agent itself (`agent.native`) instead of its bridge, or let a sync tool do it, which "
            "runs in a thread of its own"
        )
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise MisuseError("result() would block the running asyncio loop (L6): await the reply instead")


async def undisturbed(reply: Reply[T], *, reraise: bool = True) -> T:
    """Wait to the end; a cancellation that comes meanwhile goes on afterwards, unless ``reraise`` is false.

    Raises:
        Exception: what the call raised, also when a cancellation came first.
    """
    cancelled: asyncio.CancelledError | None = None
    while not reply.done():
        try:
            await reply
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:
            break
    value = await reply
    if cancelled is not None and reraise:
        raise cancelled
    return value
