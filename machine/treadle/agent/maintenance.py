"""One task between turns, run from true idle (§7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar, cast

import trio

from ..containment import leaving_in, without_cancelled
from ..errors import MaintenanceCancelled
from ..words.reasons import Cause
from ..words.signal import Signal

T = TypeVar("T")


class MaintenanceTask(Generic[T]):
    """The task, and its result for whoever awaits it. A cancelled waiter only stops waiting (M5)."""

    __slots__ = ("_done", "_error", "_function", "_value")

    def __init__(self, function: Callable[[Signal], Awaitable[T]]) -> None:
        self._function = function
        self._value: T | None = None
        self._error: BaseException | None = None
        self._done = trio.Event()

    async def run(self, signal: Signal) -> None:
        """Run the task; however it ends, that is for whoever awaits it (M3).

        Args:
            signal: tells the task that it is cancelled.

        Raises:
            BaseException: the task asks to leave the program (H5).
        """
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._value = await self._function(signal)
        except BaseException as error:
            self._error = _verdict(error, signal.cause)
            if leaving_in(error) is not None:
                raise
        finally:
            self._done.set()

    async def wait(self) -> T:
        """Wait for the task's own result or exception (M3)."""
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
