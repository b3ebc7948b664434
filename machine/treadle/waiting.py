"""Waiting for an agent to be idle, and what would never return (L6, O15)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import trio
from attrs import frozen

from .errors import MisuseError
from .session.reasons import EndReason

if TYPE_CHECKING:
    from .agent import Agent


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


class Awaited(Protocol):
    """What drives an agent, as far as waiting for it goes."""

    @property
    def agent(self) -> Agent:
        """The agent."""
        ...

    @property
    def ended(self) -> int:
        """How many turns have ended."""
        ...

    @property
    def last_reason(self) -> EndReason | None:
        """Why the last one ended."""
        ...

    @property
    def creator(self) -> trio.lowlevel.Task | None:
        """The task that creates the agent, ``None`` once that is over."""
        ...

    @property
    def quiet(self) -> bool:
        """Whether nothing is active or due."""
        ...

    def awaited_tasks(self) -> Iterator[trio.lowlevel.Task]:
        """The tasks that must end before it is quiet."""
        ...

    def cancel_with_parent(self) -> bool:
        """Cancel the agent if its parent's turn, which is being cancelled, waited for it (O6)."""
        ...

    async def until_quiet(self) -> None:
        """Wait until it is quiet."""
        ...


def forbid_self_wait(driver: Awaited, what: str) -> None:
    """Raise when the running task is awaited by the agent's own operation or creation: it would wait for itself (L6)."""
    for task in driver.awaited_tasks():
        if _stands_below(task):
            raise MisuseError(
                f"{what} of agent {driver.agent.id!r} awaited by the agent's own tool, hook or creation "
                "would never return (L6)"
            )


def forbid_creator_wait(driver: Awaited, what: str) -> None:
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


async def when_quiet(driver: Awaited) -> EndReason | None:
    """Wait until the agent is quiet; returns the reason of the last turn that ended meanwhile (L6)."""
    forbid_self_wait(driver, "when_idle()")
    ended = driver.ended
    if driver.quiet:
        await trio.lowlevel.checkpoint()
    try:
        await driver.until_quiet()
    except trio.Cancelled:
        if driver.cancel_with_parent():
            with trio.CancelScope(shield=True):
                await driver.until_quiet()
        raise
    return driver.last_reason if driver.ended != ended else None
