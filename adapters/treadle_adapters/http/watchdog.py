"""The idle watchdog: a provider that says nothing does not hold an agent for ever (Q8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from treadle import Failure, ModelFailure
from treadle.models import DEFAULT_BOUNDS, AnswerBounds, Code

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
        bounds: how long all may take, from now on.
    """

    __slots__ = ("_bounds", "_closing", "_ends", "_idle", "_quiet", "_waited")

    def __init__(
        self,
        idle: float = STREAM_IDLE_TIMEOUT,
        quiet: float = KEEP_ALIVE_TIMEOUT,
        bounds: AnswerBounds = DEFAULT_BOUNDS,
    ) -> None:
        self._bounds = bounds
        self._closing: float | None = None
        self._ends = trio.current_time() + bounds.seconds
        self._idle = idle
        self._quiet = quiet
        self._waited = 0.0

    def progress(self) -> None:
        """Something of the answer arrived, not a keep-alive only."""
        self._waited = 0.0

    def end_within(self, seconds: float) -> None:
        """The answer is known to be complete: nothing is waited for longer than this; the first call decides."""
        if self._closing is None:
            self._closing = trio.current_time() + seconds

    async def wait(self, read: Callable[[], Awaitable[T]]) -> T:
        """Await ``read()`` under the watchdog: the response's headers, or its next bytes.

        Raises:
            ModelFailure: TIMEOUT when it takes too long (Q8), STREAM_CLOSED when the answer does (X3).
        """
        start = trio.current_time()
        idle = min(self._idle, self._quiet - self._waited)
        ends = self._ends if self._closing is None else min(self._ends, self._closing)
        with trio.CancelScope(deadline=min(start + idle, ends)):
            result = await read()
            self._waited += trio.current_time() - start
            return result
        if ends < start + idle:
            raise self._bounds.too_slow()
        if idle < self._idle:
            text = f"only keep-alives came from the provider for {self._waited + idle:g} s (Q8)"
        else:
            text = f"no bytes came from the provider for {self._idle:g} s (Q8)"
        raise ModelFailure(Failure(text, Code.TIMEOUT.value))
