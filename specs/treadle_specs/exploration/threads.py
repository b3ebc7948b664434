"""The worker threads of a stepped run, waited for at every step: so the run takes the same course each time.

A thread takes as long as the machine pleases. While ``Threads`` is applied, the loop stands still from the moment in which a
thread is given something to do until it hands back the result, or asks the loop for something. trio hands all threads out
at one place, and this is the one module that touches it. Should the private name be gone, none is waited for, and
``CONTROLLED`` says so.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import trio

_CACHE: Any = importlib.import_module("trio._core._thread_cache")
_NAME = "THREAD_CACHE"

CONTROLLED: bool = hasattr(_CACHE, _NAME)
"""Whether this trio lets its threads be waited for."""
PAUSE = 0.000_05
"""Real seconds between two looks at a thread."""
GRACE = 0.5
"""Real seconds for which a thread is waited for that asked the loop for something. Where that is a plain call with the loop's
token, it is answered by then; what takes the loop a while is not waited for any longer, nor is that thread from then on."""


class Threads(trio.abc.Instrument):
    """Hands out trio's threads, and waits for them.

    Args:
        patience: real seconds for which a thread is waited for that was just started; what takes longer is left to itself.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._working: set[object] = set()
        self._returned: set[object] = set()

    @contextmanager
    def applied(self) -> Generator[None]:
        """Wait for the threads that are used while the block, one step of the run, is under way."""
        if not CONTROLLED:
            yield
            return
        before = getattr(_CACHE, _NAME)
        setattr(_CACHE, _NAME, self)
        try:
            yield
        finally:
            setattr(_CACHE, _NAME, before)

    def start_thread_soon(
        self, fn: Callable[[], Any], deliver: Callable[[Any], object], name: str | None = None
    ) -> None:
        """See ``trio.lowlevel.start_thread_soon``."""
        job, token = object(), trio.lowlevel.current_trio_token()

        def delivered(result: Any) -> None:
            self._returned.add(job)
            try:
                deliver(result)
                with contextlib.suppress(trio.RunFinishedError):
                    token.run_sync_soon(self._returned.discard, job)
            finally:
                self._working.discard(job)

        self._working.add(job)
        _THREADS.start_thread_soon(fn, delivered, name)
        self._wait(self._patience)

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 (the interface's)
        """See ``trio.abc.Instrument``: who asked and was answered goes on computing, and is waited for."""
        self._wait(min(GRACE, self._patience))

    def _wait(self, patience: float) -> None:
        if not self._working:
            return
        until = time.monotonic() + patience
        while self._working and self._computing():
            if time.monotonic() > until:
                self._working.clear()
            time.sleep(PAUSE)
        if (
            self._working
        ):  # whoever asks has put his call there, and may not have woken the loop yet: that locks its queue
            self._nudge(object())

    def _nudge(self, job: object) -> None:
        token = trio.lowlevel.current_trio_token()
        self._returned.add(job)
        token.run_sync_soon(int)
        token.run_sync_soon(self._returned.discard, job)

    def _computing(self) -> bool:
        """Whether a thread neither handed back, which puts two calls into the loop's queue, nor asks, which puts one there."""
        queued = trio.lowlevel.current_statistics().run_sync_soon_queue_size
        return len(self._working) > queued - 2 * len(self._returned)


_THREADS: Any = getattr(_CACHE, _NAME, None)
