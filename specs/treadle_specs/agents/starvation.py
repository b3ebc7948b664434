"""Calls that block: the thread of the loop sleeps inside a batch of tasks, so that nobody else can go on.

How it is seen does not depend on how fast or how busy the machine is. The system tells of a thread how long it computed
and how long it waited for a processor; the rest of a batch it slept, and nothing in a batch should sleep. A run in which
that happened is made once more under a profiler, which names the call and the line. A call that sleeps on is interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from .sites import Site, of_stack

ASLEEP = 0.03
"""Seconds that the thread may sleep within one batch of tasks."""
UNTOLD = 10
"""How many times that it may where the system does not tell sleeping from waiting for a processor."""
LONGEST = 1.5
"""Real seconds after which a batch that sleeps is interrupted."""
COMPUTING = 3.0
"""Seconds of processor time that one batch may take."""
_LOOK = 0.1


class Starved(BaseException):
    """Raised into a call that blocks, so that the check goes on."""


class Starvation:
    """Watches the batches of one thread.

    Args:
        profiled: name the calls in which the thread sleeps.

    Attributes:
        asleep: the longest that one batch has slept, in seconds.
        computed: the longest that one batch has computed, in seconds.
        sites: the seconds that calls of the user's lines slept, where they are named.
        sampled: where the user's code was, seen from outside, in a batch that took long.
    """

    def __init__(self, *, profiled: bool = False) -> None:
        self.asleep = self.computed = 0.0
        self.sites: dict[Site, float] = {}
        self.sampled: Site | None = None
        self.began: float | None = None
        self.thread = threading.get_ident()
        self._profiled = profiled
        self._entered: list[tuple[Any, float]] = []
        self._waited: Callable[[], float] | None = None
        self._file = -1
        with suppress(OSError):
            self._file = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        self._most = ASLEEP if self._file >= 0 else UNTOLD * ASLEEP

    def close(self) -> None:
        """Watch no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def batch(self, run: Callable[[], None]) -> None:
        """Run one batch."""
        began, slept = time.monotonic(), self._slept()
        computed = time.thread_time()
        self.began = began
        if self._profiled:
            sys.setprofile(self._profile)
        try:
            run()
        finally:
            if self._profiled:
                sys.setprofile(None)
            self.began = None
            self.asleep = max(self.asleep, self._slept() - slept)
            self.computed = max(self.computed, time.thread_time() - computed)

    def _slept(self) -> float:
        """Seconds that the thread has slept since some moment: what is left of time when work and waiting are taken away."""
        if self._file < 0:
            return time.monotonic() - time.thread_time()
        worked, waited, _ = os.pread(self._file, 100, 0).split()
        return time.monotonic() - (int(worked) + int(waited)) / 1e9

    def _profile(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call":
            self._entered.append((function, self._slept()))
        elif event in ("c_return", "c_exception") and self._entered:
            _, before = self._entered.pop()
            slept = self._slept() - before
            # one that waits for a thread that computes waits for some 5 ms, and no call does that for long
            site = of_stack(frame) if slept > self._most / 2 else None
            if site is not None:
                self.sites[site] = self.sites.get(site, 0.0) + slept

    @property
    def slept(self) -> bool:
        """Whether a batch slept for too long."""
        return self.asleep > self._most

    @property
    def site(self) -> Site | None:
        """The user's line that slept longest, if it was too long."""
        worst = max(self.sites, key=lambda site: self.sites[site], default=None)
        return worst if worst is not None and self.sites[worst] > self._most else None


@contextmanager
def interrupting(current: Callable[[], Starvation | None], stuck: Callable[[Site | None], None]) -> Generator[None]:
    """Interrupt batches that sleep on, while the block runs; this is possible in the main thread only.

    Args:
        current: the watch of the run that is under way.
        stuck: told where a batch was when it was interrupted.
    """
    able = hasattr(signal, "pthread_kill") and hasattr(time, "pthread_getcpuclockid")
    if not able or threading.current_thread() is not threading.main_thread():
        yield
        return
    over, main = threading.Event(), threading.get_ident()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        watch = current()
        if watch is not None and watch.began is not None:
            raise Starved

    def look() -> None:
        while not over.wait(_LOOK):
            watch = current()
            began = watch.began if watch is not None else None
            if watch is None or began is None or time.monotonic() - began < LONGEST:
                continue
            computed = time.clock_gettime(time.pthread_getcpuclockid(main))
            time.sleep(_LOOK)
            busy = time.clock_gettime(time.pthread_getcpuclockid(main)) - computed
            if watch.began != began:
                continue
            watch.sampled = of_stack(sys._current_frames().get(main))  # pyright: ignore[reportPrivateUsage]
            if busy < _LOOK / 10:
                stuck(watch.sampled)
                signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    thread = threading.Thread(target=look, name="treadle check", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)
