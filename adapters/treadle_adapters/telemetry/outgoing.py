"""A bounded queue and one thread behind it: where whatever may block, raise or flood meets no agent."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

LOGGER = logging.getLogger("treadle.telemetry")

DELAY = 0.2
"""Seconds in which more is waited for before the thread goes to work."""


class Outgoing:
    """Runs what it is handed, in order, in a thread of its own.

    The thread takes everything that has come within ``DELAY`` at once, so that a busy agent wakes it a few times a second
    and not for every span.

    Args:
        limit: how many may wait; what comes when so many do is dropped and counted.

    Attributes:
        dropped: how many were dropped, those included that were left when it was closed.
        failed: how many raised.
    """

    def __init__(self, limit: int) -> None:
        self.dropped = 0
        self.failed = 0
        self._limit = limit
        self._queue: deque[Callable[[], object]] = deque()
        self._thread: threading.Thread | None = None
        self._awake = False
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._closed = False

    def put(self, run: Callable[[], object]) -> None:
        """Run something soon; never waits."""
        waiting = len(self._queue)
        if self._closed or waiting >= self._limit:
            self._drop()
            return
        self._queue.append(run)
        if not self._awake:
            self._start()
        elif waiting > self._limit // 2:
            self._hurry.set()

    def drain(self, seconds: float) -> bool:
        """Wait until all that was put before is done, or the time is over; returns whether it is done.

        For a thread that may wait: not the loop's.
        """
        if self._thread is None or self._closed:
            return not self._queue
        reached = threading.Event()
        self._queue.append(reached.set)
        self._hurry.set()
        self._start()
        return reached.wait(seconds)

    def close(self) -> None:
        """Take nothing more; what waits is dropped and counted, and what runs is left alone."""
        self._closed = True
        while self._next() is not None:
            self.dropped += 1
        self._hurry.set()
        self._wake.set()

    def told(self, error: BaseException, what: str) -> None:
        """Count a failure, and tell the first one."""
        self.failed += 1
        if self.failed == 1:
            LOGGER.warning("%s failed (%s); agents go on, later ones are only counted", what, type(error).__name__)

    def _drop(self) -> None:
        self.dropped += 1
        if self.dropped == 1:
            LOGGER.warning("telemetry is dropped: %d entries wait for an exporter already", self._limit)

    def _start(self) -> None:
        self._awake = True
        if self._thread is None or not self._thread.is_alive():  # it is not there in a process that was forked off
            self._thread = threading.Thread(target=self._work, name="treadle-telemetry", daemon=True)
            self._thread.start()
        self._wake.set()

    def _next(self) -> Callable[[], object] | None:
        try:
            return self._queue.popleft()
        except IndexError:
            return None

    def _work(self) -> None:
        while not self._closed:
            self._wake.wait()
            self._hurry.wait(DELAY)
            self._hurry.clear()
            self._wake.clear()
            self._awake = False  # what is put from here on wakes it again
            while (run := self._next()) is not None:
                try:
                    run()
                except Exception as error:
                    self.told(error, "telemetry")
