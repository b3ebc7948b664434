"""Waiting for agents: what would never return, and what a cancelled parent takes along (L6, O6, O15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from . import inputs as i
from .agent import driver_if_any
from .errors import MisuseError
from .initiator import CURRENT
from .session.reasons import ByParent

if TYPE_CHECKING:
    from .driver import Driver


def forbid_self_wait(driver: Driver, what: str) -> None:
    """Raise when the running task is awaited by the agent's own operation or creation: it would wait for itself (L6)."""
    for task in (driver.task, driver.creator):
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
    parent = driver.agent.parent
    above = driver_if_any(parent) if parent is not None else None
    if above is None or above.kernel.cause is None or not above.runs(CURRENT.get()):
        return False
    driver.feed(i.Cancel(ByParent(), above.kernel.keep))
    return True
