"""Waiting for agents: what would never return, and what a cancelled parent takes along (L6, O6, O15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from attrs import frozen

from . import inputs as i
from .effects import PROCEED
from .errors import MisuseError
from .initiator import CURRENT
from .schedule import STARTED
from .session.reasons import ByParent, EndReason

if TYPE_CHECKING:
    from .driver import Driver
    from .kernel import Kernel


@frozen
class Converging:
    """What a cancellation is waiting for (C10).

    Attributes:
        what: the operation that has not settled.
        since: seconds on trio's clock when the cancel was made.
        seconds: how long it has taken so far.
    """

    what: str
    since: float
    seconds: float


def forbid_self_wait(driver: Driver, what: str) -> None:
    """Raise when the running task is awaited by the agent's own operation or creation: it would wait for itself (L6)."""
    flushing = [task for task, owner in driver.host.flush_tasks.items() if owner is driver]
    for task in (driver.task, driver.creator, *flushing):
        if task is not None and _stands_below(task):
            raise MisuseError(
                f"{what} of agent {driver.agent.id!r} awaited by the agent's own tool, hook or creation "
                "would never return (L6)"
            )


def forbid_creator_wait(driver: Driver, what: str) -> None:
    """Raise when the running task is awaited by the agent's creation, which the wait would wait for (O15)."""
    if driver.creator is not None and _stands_below(driver.creator):
        raise MisuseError(f"{what} of agent {driver.agent.id!r} awaited by its own creation would never return (O15)")


def _stands_below(above: trio.lowlevel.Task) -> bool:
    """Whether the running task is ``above``, or is awaited by it through nurseries."""
    task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
    while task is not None:
        if task is above:
            return True
        nursery = task.parent_nursery
        task = nursery.parent_task if nursery is not None else None
    return False


def cancel_with_parent(driver: Driver) -> bool:
    """Cancel a child whose parent's turn is being cancelled while it awaits the child (O6).

    Called where a wait for the child was cancelled. Returns whether the wait was the parent's own; then the caller
    waits for the child's convergence before it lets the cancellation go on, so that nothing of the child's happens
    after the parent's turn.
    """
    from .agent import driver_if_any

    parent = driver.agent.parent
    above = driver_if_any(parent) if parent is not None else None
    if above is None or above.kernel.cause is None or not above.runs(CURRENT.get()):
        return False
    driver.feed(i.Cancel(ByParent(), above.kernel.keep))
    return True


async def when_quiet(driver: Driver) -> EndReason | None:
    """Wait until the agent is quiet; returns the reason of the last turn that ended meanwhile (L6)."""
    forbid_self_wait(driver, "when_idle()")
    ended = driver.ended
    if driver.quiet:
        await trio.lowlevel.checkpoint()
    try:
        await _until_quiet(driver)
    except trio.Cancelled:
        if cancel_with_parent(driver):
            with trio.CancelScope(shield=True):
                await _until_quiet(driver)
        raise
    return driver.kernel.last_reason if driver.ended != ended else None


async def _until_quiet(driver: Driver) -> None:
    while not driver.quiet or driver.host.flushing(driver):
        if driver.waiting is None:
            driver.waiting = trio.lowlevel.ParkingLot()
        await driver.waiting.park()


# --- what a cancellation waits for (C10) ------------------------------------------------------------------------------


def converging(driver: Driver) -> Converging | None:
    """What a cancellation is waiting for (C10)."""
    kernel = driver.kernel
    if kernel.cause is None or driver.since is None or kernel.owed is None:
        return None
    return Converging(_waits_for(kernel), driver.since, trio.current_time() - driver.since)


def warn_at(driver: Driver) -> float:
    """When a convergence under way is worth a warning, on trio's clock."""
    return (driver.since or 0.0) + driver.agent.options.convergence_warning


def _waits_for(kernel: Kernel) -> str:
    schedule = kernel.schedule
    if schedule is not None:
        running = [call.name for call, status in zip(schedule.calls, schedule.status, strict=True) if status == STARTED]
        if running:
            return f"tools: {', '.join(running)}"
    return type(kernel.owed).__name__.lower() if kernel.owed is not PROCEED else "its listeners"
