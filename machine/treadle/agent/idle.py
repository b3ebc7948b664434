"""Waiting for an agent to be idle, and what would never return (L6, O15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ..errors import MisuseError

if TYPE_CHECKING:
    from ..words.reasons import EndReason
    from .engine import Engine


def forbid_creator_wait(engine: Engine, id: str) -> None:
    """Raise when the running task is awaited by an agent's creation, which its disposal would wait for (O15)."""
    if engine.creator is not None and _stands_below(engine.creator):
        raise MisuseError(f"the disposal of agent {id!r} awaited by its own creation would never return (O15)")


def _stands_below(above: trio.lowlevel.Task) -> bool:
    """Whether the running task is ``above``, or is awaited by it through nurseries."""
    task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
    while task is not None:
        if task is above:
            return True
        nursery = task.parent_nursery
        task = nursery.parent_task if nursery is not None else None
    return False


async def when_quiet(engine: Engine, id: str) -> EndReason | None:
    """Wait until the agent is quiet; returns the reason of the last turn that ended meanwhile (L6).

    Where the wait is the parent's own and is cancelled with the parent's turn, the cancellation goes on once the child
    has converged: so nothing of the child's happens after the parent's turn (O6).

    Raises:
        MisuseError: the running task is awaited by the agent's own operation or creation.
    """
    if any([_stands_below(task) for task in engine.awaited_tasks()]):
        raise MisuseError(
            f"when_idle() of agent {id!r} awaited by the agent's own tool, hook or creation would never return (L6)"
        )
    ended = engine.ended
    if engine.quiet:
        await trio.lowlevel.checkpoint()
    try:
        await engine.until_quiet()
    except trio.Cancelled:
        if engine.cancel_with_parent():
            with trio.CancelScope(shield=True):
                await engine.until_quiet()
        raise
    return engine.kernel.last_reason if engine.ended != ended else None
