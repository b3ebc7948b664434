"""The idle watchdog: a provider that says nothing does not hold an agent for ever (Q8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from treadle import Failure, ModelFailure
from treadle.models import Code

T = TypeVar("T")

STREAM_IDLE_TIMEOUT = 300.0
"""Seconds without a byte from the provider (Q8)."""

KEEP_ALIVE_TIMEOUT = 1800.0
"""Seconds in which only keep-alives come and nothing of the answer; DeepSeek's documented limit."""


class IdleWatchdog:
    """Bounds each wait of one attempt, on trio's clock.

    It is armed only inside ``wait``: time that the consumer takes between two reads does not count.

    Args:
        idle: seconds that one wait may take; any byte ends a wait.
        quiet: seconds that waits may take together until ``progress`` is called.
    """

    __slots__ = ("_idle", "_quiet", "_waited")

    def __init__(self, idle: float = STREAM_IDLE_TIMEOUT, quiet: float = KEEP_ALIVE_TIMEOUT) -> None:
        self._idle = idle
        self._quiet = quiet
        self._waited = 0.0

    def progress(self) -> None:
        """Something of the answer arrived, not a keep-alive only."""
        self._waited = 0.0

    async def wait(self, read: Callable[[], Awaitable[T]], limit: float | None = None) -> T:
        """Await ``read()`` under the watchdog.

        Args:
            read: what to wait for: the response's headers, or its next bytes.
            limit: a shorter limit for this wait, in seconds.

        Raises:
            ModelFailure: TIMEOUT when it takes too long (Q8).
        """
        start = trio.current_time()
        allowed = min(self._idle if limit is None else min(limit, self._idle), self._quiet - self._waited)
        with trio.CancelScope(deadline=start + allowed):
            result = await read()
            self._waited += trio.current_time() - start
            return result
        if allowed < self._idle:
            text = f"only keep-alives came from the provider for {self._waited + allowed:g} s (Q8)"
        else:
            text = f"no bytes came from the provider for {self._idle:g} s (Q8)"
        raise ModelFailure(Failure(text, Code.TIMEOUT.value))
