"""One task between turns, run from true idle (§7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import outcome
import trio

from . import inputs as i
from .errors import MaintenanceCancelled
from .signal import Signal

if TYPE_CHECKING:
    from .driver import Driver

T = TypeVar("T")


class MaintenanceTask(Generic[T]):
    """The task, and its result for whoever awaits it. A cancelled waiter only stops waiting (M5)."""

    __slots__ = ("_done", "_function", "_result")

    def __init__(self, function: Callable[[Signal], Awaitable[T]]) -> None:
        self._function = function
        self._result: outcome.Outcome[T] | None = None
        self._done = trio.Event()

    async def run(self, driver: Driver) -> i.Outcome:
        """Run the task; the outcome for the kernel is the same however it ends (M3)."""
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._result = outcome.Value(await self._function(driver.signal))
        except BaseException as error:
            self._result = outcome.Error(self._verdict(driver, error))
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                self._done.set()
                raise
        self._done.set()
        return i.Maintained()

    def _verdict(self, driver: Driver, error: BaseException) -> BaseException:
        """Never a bare ``Cancelled`` for the caller: what ended the task is said (M3)."""
        from .driver import without_cancelled

        cause = driver.kernel.cause
        if without_cancelled(error) is None:
            cancelled = MaintenanceCancelled(cause)
            cancelled.__cause__ = error
            return cancelled
        return error

    async def wait(self) -> T:
        """Wait for the task's own result or exception (M3)."""
        await self._done.wait()
        assert self._result is not None
        return self._result.unwrap()

    def __await__(self) -> Any:
        return self.wait().__await__()
