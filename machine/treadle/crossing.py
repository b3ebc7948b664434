"""Crossing between threads: a host's trio loop in a thread of its own, and answers on their way from it."""

from __future__ import annotations

import concurrent.futures
import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from .errors import BridgeClosed

if TYPE_CHECKING:
    from .host import Host

T = TypeVar("T")
LOGGER = logging.getLogger("treadle")


class Reply(Generic[T]):
    """An answer on its way from the host's thread.

    Await it in asyncio, or call ``result`` in any other thread. A waiter that is cancelled or times out only stops
    waiting: what was asked for happens all the same. A failure that nobody looks at is logged (N8).
    """

    def __init__(self) -> None:
        self._future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._seen = False

    def done(self) -> bool:
        """Whether the answer is there."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Block the calling thread until the answer is there, at most ``timeout`` seconds. Not for an event loop.

        Raises:
            TimeoutError: it did not come in time.
            Exception: what the call raised, the very object.
        """
        concurrent.futures.wait([self._future], timeout)
        self._seen = self._future.done()
        return self._future.result(0)

    async def wait(self) -> T:
        """Wait for the answer in asyncio; the same as to await the reply."""
        import asyncio

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


class HostThread:
    """Runs a host in a trio loop, in a thread."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.started: Reply[None] = Reply()
        self.ended: Reply[None] = Reply()
        self.token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._stop: trio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="treadle host", daemon=True)

    def start(self) -> None:
        """Start the thread; ``started`` tells when the host is entered."""
        self._thread.start()

    def stop(self) -> None:
        """Have the host left; ``ended`` tells when it has been. Callable from any thread, any number of times."""
        stop = self._stop
        if stop is not None and self.token is not None:
            try:
                self.token.run_sync_soon(stop.set)
            except trio.RunFinishedError:
                LOGGER.debug("the host had ended already")

    def join(self) -> None:
        """Wait for the thread itself, which has nothing left to do once ``ended`` is settled."""
        self._thread.join()

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:
            self._finish(error)
        else:
            self._finish(None)

    def _finish(self, error: BaseException | None) -> None:
        if not self.started.done():
            self.started.fail(error or BridgeClosed("the host ended before it was entered"))
            self.ended.settle(None)
        elif error is not None:
            self.ended.fail(error)
        else:
            self.ended.settle(None)

    async def _main(self) -> None:
        self.token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with self.host, trio.open_nursery() as nursery:
            self._nursery = nursery
            self.started.settle(None)
            await self._stop.wait()
            nursery.cancel_scope.cancel()

    # --- from other threads -------------------------------------------------------------------------------------------

    def call(self, reply: Reply[T], function: Callable[..., T], *args: Any) -> None:
        """Run a function in the host's thread, in a copy of the caller's context; calls run in the order of asking."""
        context = contextvars.copy_context()

        def run() -> None:
            try:
                value = context.run(function, *args)
            except BaseException as error:
                reply.fail(error)
            else:
                reply.settle(value)

        self.post(run)

    def start_work(self, work: Work[Any], function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Run an async function in the host's loop, in a copy of the caller's context."""
        context = contextvars.copy_context()

        def begin() -> None:
            assert self._nursery is not None
            try:
                context.run(self._nursery.start_soon, work.run, function, args)
            except RuntimeError:
                work.reply.fail(BridgeClosed("the bridge is closed; nothing runs in its host any more"))

        self.post(begin)

    def post(self, function: Callable[[], object]) -> None:
        """Run a function soon in the host's thread.

        Raises:
            BridgeClosed: the host is not running.
        """
        if self.token is None or self._nursery is None:
            raise BridgeClosed("the bridge is not open; use it as 'async with Bridge(host) as bridge'")
        try:
            self.token.run_sync_soon(function)
        except trio.RunFinishedError:
            raise BridgeClosed("the bridge is closed; nothing runs in its host any more") from None


class Work(Generic[T]):
    """One async function on its way through the host's loop."""

    def __init__(self) -> None:
        self.reply: Reply[T] = Reply()
        self.scope = trio.CancelScope()

    async def run(self, function: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> None:
        """Run it to its one answer."""
        try:
            with self.scope:
                self.reply.settle(await function(*args))
        except trio.Cancelled:
            self.reply.fail(BridgeClosed("the bridge was closed while this was waited for"))
            raise
        except BaseException as error:
            self.reply.fail(error)
        if not self.reply.done():
            self.reply.fail(BridgeClosed("the wait was cancelled"))
