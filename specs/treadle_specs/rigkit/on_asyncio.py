"""asyncio for a rig: a loop that runs inside ``settle`` alone, and knows when nothing but a gate can go on.

Work that is handed to threads is counted where it is handed over (executors, anyio's ``to_thread``), sockets are looked
at, and a timer that is near is met by moving the loop's clock, but only when no gate is open: beside an open gate time
stands still. Not seen are threads of the driver's own that call ``call_soon_threadsafe``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any

HORIZON_S = 5.0
"""Seconds of the loop's clock that one settle skips over at most."""
PATIENCE_S = 10.0
"""Real seconds that a settle waits for threads and sockets."""
PAUSE_S = 0.000_5


class Elsewhere:
    """Work that other threads do for the loop."""

    jobs = 0
    _lock = threading.Lock()

    @classmethod
    def add(cls, count: int) -> None:
        """So many more are under way."""
        with cls._lock:
            cls.jobs += count


def count_threads() -> None:
    """Count what is handed to threads from now on: by executors, and by anyio if it is imported."""
    _count_executors()
    if "anyio" in sys.modules:
        _count_anyio()


@cache
def _count_executors() -> None:
    submit = concurrent.futures.ThreadPoolExecutor.submit

    def counting(self: Any, /, *given: Any, **more: Any) -> Any:
        Elsewhere.add(1)
        try:
            future = submit(self, *given, **more)
        except BaseException:
            Elsewhere.add(-1)
            raise
        future.add_done_callback(lambda _: Elsewhere.add(-1))
        return future

    concurrent.futures.ThreadPoolExecutor.submit = counting


@cache
def _count_anyio() -> None:
    backend: Any = importlib.import_module("anyio._backends._asyncio").AsyncIOBackend
    run_sync = backend.run_sync_in_worker_thread.__func__

    async def counting(kind: Any, *given: Any, **more: Any) -> Any:
        Elsewhere.add(1)
        try:
            return await run_sync(kind, *given, **more)
        finally:
            Elsewhere.add(-1)

    backend.run_sync_in_worker_thread = classmethod(counting)


class QuietLoop(asyncio.SelectorEventLoop):
    """A loop whose clock can be moved, and which tells what it holds."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead = 0.0
        self._inside: Any = self  # what the base class keeps, and offers no door to

    def time(self) -> float:
        """The loop's clock, in seconds."""
        return super().time() + self._ahead

    def skip(self, seconds: float) -> None:
        """Move the clock."""
        self._ahead += seconds

    @property
    def busy(self) -> bool:
        """Whether something can go on now."""
        return bool(self._inside._ready)

    @property
    def outside(self) -> bool:
        """Whether a thread or a socket may still have something for it."""
        own = 1  # the socket by which threads wake the loop
        return Elsewhere.jobs > 0 or len(self._inside._selector.get_map()) > own

    @property
    def next_timer(self) -> float | None:
        """Seconds until the next timer; none when there is none."""
        live = [timer.when() for timer in self._inside._scheduled if not timer.cancelled()]
        return max(0.0, min(live) - self.time()) if live else None


class OnAsyncio:
    """The engine of drivers on asyncio."""

    def __init__(self) -> None:
        count_threads()
        self.loop = QuietLoop()
        asyncio.set_event_loop(self.loop)
        self._tasks: set[asyncio.Task[Any]] = set()

    def call(self, function: Callable[[], Any]) -> Any:
        """See ``Engine``: ``get_running_loop`` works in it."""
        asyncio._set_running_loop(self.loop)
        try:
            return function()
        finally:
            asyncio._set_running_loop(None)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """See ``Engine``."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def signal(self) -> asyncio.Event:
        """See ``Engine``."""
        return asyncio.Event()

    async def pause(self) -> None:
        """See ``Engine``."""
        await asyncio.sleep(0)

    def settle(self, waits: Callable[[], bool]) -> None:
        """See ``Engine``."""
        self.loop.run_until_complete(self._watch(waits))

    async def _watch(self, waits: Callable[[], bool]) -> None:
        until, skipped = time.monotonic() + PATIENCE_S, 0.0
        while True:
            await asyncio.sleep(0)
            if self.loop.busy:
                continue
            if self.loop.outside and time.monotonic() < until:
                threading.Event().wait(PAUSE_S)
                continue
            ahead = self.loop.next_timer
            if ahead is None or waits() or skipped + ahead > HORIZON_S:
                return
            step = ahead + 0.001
            skipped += step
            self.loop.skip(step)
