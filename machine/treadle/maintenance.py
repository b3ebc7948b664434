"""One task between turns, run from true idle (§7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import trio

from . import inputs as i
from .errors import MaintenanceCancelled
from .interruption import leaving_in, without_cancelled
from .signal import Signal

if TYPE_CHECKING:
    from .driver import Driver
    from .effects import Maintain

T = TypeVar("T")


class MaintenanceTask(Generic[T]):
    """The task, and its result for whoever awaits it. A cancelled waiter only stops waiting (M5)."""

    __slots__ = ("_done", "_error", "_function", "_value")

    def __init__(self, function: Callable[[Signal], Awaitable[T]]) -> None:
        self._function = function
        self._value: T | None = None
        self._error: BaseException | None = None
        self._done = trio.Event()

    async def run(self, driver: Driver) -> i.Outcome:
        """Run the task; the outcome for the kernel is the same however it ends (M3)."""
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._value = await self._function(driver.signal)
        except BaseException as error:
            self._error = self._verdict(driver, error)
            if leaving_in(error) is not None:
                raise
        finally:
            self._done.set()
        return i.Maintained()

    def _verdict(self, driver: Driver, error: BaseException) -> BaseException:
        """Never a bare ``Cancelled`` for the caller: what ended the task is said (M3)."""
        cause = driver.kernel.cause
        if without_cancelled(error) is None:
            cancelled = MaintenanceCancelled(cause)
            cancelled.__cause__ = error
            return cancelled
        return error

    async def wait(self) -> T:
        """Wait for the task's own result or exception (M3)."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return cast("T", self._value)

    def __await__(self) -> Any:
        return self.wait().__await__()


async def run_maintenance(driver: Driver, _operation: Maintain) -> i.Outcome:
    """Run the task that the agent was claimed for (M1)."""
    assert driver.maintenance is not None
    return await driver.maintenance.run(driver)
