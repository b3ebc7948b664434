"""A host's trio loop in a thread of its own, and what other threads have it do."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import trio

from ..errors import BridgeClosed
from ..host.host import Host
from .reply import Reply

T = TypeVar("T")
LOGGER = logging.getLogger("treadle")


class Work(Generic[T]):
    """One async function on its way through the host's loop.

    Attributes:
        reply: its end.
        scope: cancels it; in the host's thread.
    """

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


class HostThread:
    """Runs a host in a trio loop, in a thread.

    Attributes:
        started: tells that the host is entered, or why it could not be.
        ended: tells that it has been left, or what leaving it raised.
    """

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

    # --- from any thread; all raise BridgeClosed when the host is not running -----------------------------------------

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

    def call_to_end(self, work: Work[T], function: Callable[..., Awaitable[T]], *args: Any) -> None:
        """As ``call``; what the function returned is awaited in the host's loop, and its end is the reply."""
        context = contextvars.copy_context()

        def run() -> None:
            try:
                taken = context.run(function, *args)
            except BaseException as error:
                work.reply.fail(error)
            else:
                self._begin(context, work, lambda: taken)

        self.post(run)

    def start_work(self, work: Work[T], function: Callable[..., Awaitable[T]], *args: Any) -> None:
        """Run an async function in the host's loop, in a copy of the caller's context."""
        context = contextvars.copy_context()
        self.post(lambda: self._begin(context, work, function, *args))

    def _begin(
        self, context: contextvars.Context, work: Work[T], function: Callable[..., Awaitable[T]], *args: Any
    ) -> None:
        assert self._nursery is not None
        try:
            context.run(self._nursery.start_soon, work.run, function, args)
        except RuntimeError:
            work.reply.fail(BridgeClosed("the bridge is closed; nothing runs in its host any more"))

    def post(self, function: Callable[[], object]) -> None:
        """Run a function soon in the host's thread, after those posted before.

        Raises:
            BridgeClosed: the host is not running.
            MisuseError: this process was forked from the one that it runs in.
        """
        self.host.check_not_forked()
        if self.token is None or self._nursery is None:
            raise BridgeClosed("the bridge is not open; use it as 'async with Bridge(host) as bridge'")
        try:
            self.token.run_sync_soon(function)
        except trio.RunFinishedError:
            raise BridgeClosed("the bridge is closed; nothing runs in its host any more") from None
