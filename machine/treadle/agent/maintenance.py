"""One task between turns, run from true idle (§7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar, cast

import trio

from ..containment import leaving_in, stands_below, without_cancelled
from ..errors import MaintenanceCancelled, MisuseError
from ..leftovers import check_left, standing, tidy
from ..words.reasons import Cause
from ..words.signal import Signal

T = TypeVar("T")


class MaintenanceTask(Generic[T]):
    """The task, and its result for whoever awaits it. A cancelled waiter only stops waiting (M5).

    Attributes:
        awaited: whether anybody has awaited it; a failure that nobody awaits is told by ``agent/error`` (N8).
    """

    __slots__ = ("_done", "_error", "_function", "_task", "_value", "awaited")

    def __init__(self, function: Callable[[Signal], Awaitable[T]]) -> None:
        self._function = function
        self._value: T | None = None
        self._error: BaseException | None = None
        self._done = trio.Event()
        self._task: trio.lowlevel.Task | None = None
        self.awaited = False

    async def run(self, signal: Signal) -> None:
        """Run the task; however it ends, that is for whoever awaits it (M3).

        Args:
            signal: tells the task that it is cancelled.

        Raises:
            BaseException: the task asks to leave the program (H5).
        """
        self._task, _ = before = standing()
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._value = await self._function(signal)
            await check_left(before, "the maintenance task")
        except BaseException as error:
            await tidy(before)
            self._error = _verdict(error, signal.cause)
            if leaving_in(error) is not None:
                raise
        finally:
            self._task = None
            self._done.set()

    @property
    def unseen(self) -> BaseException | None:
        """What the task failed with, where nobody waits to be told; a cancellation is no failure (N8)."""
        return None if self.awaited or isinstance(self._error, MaintenanceCancelled) else self._error

    async def wait(self) -> T:
        """Wait for the task's own result or exception (M3).

        Raises:
            MisuseError: awaited by the task itself, which would never return (L6).
        """
        if stands_below(self._task):
            raise MisuseError("a maintenance task awaited by itself would never return (L6)")
        self.awaited = True
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return cast("T", self._value)

    def __await__(self) -> Any:
        return self.wait().__await__()


def _verdict(error: BaseException, cause: Cause | None) -> BaseException:
    """Never a bare ``Cancelled`` for the caller: what ended the task is said (M3)."""
    if without_cancelled(error) is None:
        cancelled = MaintenanceCancelled(cause)
        cancelled.__cause__ = error
        return cancelled
    return error
