"""Waiting for an agent to be idle, and what would never return (L6, O15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ..containment import stands_below
from ..errors import MisuseError

if TYPE_CHECKING:
    from ..words.reasons import EndReason
    from .engine import Engine


def forbid_creator_wait(engine: Engine, id: str) -> None:
    """Raise when the running task is awaited by an agent's creation, which its disposal would wait for (O15)."""
    if stands_below(engine.creator):
        raise MisuseError(f"the disposal of agent {id!r} awaited by its own creation would never return (O15)")


def forbid_own_wait(engine: Engine, what: str) -> None:
    """Raise when the running task is awaited by the agent's own operation or creation, which ``what`` waits for (L6)."""
    if any(map(stands_below, engine.awaited_tasks())):
        raise MisuseError(f"{what} awaited by the agent's own tool, hook or creation would never return (L6)")


def forbid_wait(engine: Engine, what: str) -> None:
    """Raise when the running task is awaited by anything of the agent's that ``what`` waits for (L6)."""
    forbid_own_wait(engine, what)
    forbid_flush_wait(engine, what)


def forbid_flush_wait(engine: Engine, what: str) -> None:
    """Raise when the running task is a flush of the agent's, or its disposal's clean-up, which ``what`` waits for (L6)."""
    if any(map(stands_below, engine.last_tasks())):
        raise MisuseError(f"{what} awaited by the agent's own flush or clean-up would never return (L6)")


async def when_quiet(engine: Engine, id: str, since: int | None = None) -> EndReason | None:
    """Wait until the agent is quiet; returns the reason of the last turn that ended meanwhile (L6).

    Where the wait is the parent's own and is cancelled with the parent's turn, the cancellation goes on once the child
    has converged: so nothing of the child's happens after the parent's turn. A wait that such a parent begins when its
    turn has been cancelled already cancels the child as well (O6).

    Args:
        engine: drives the agent.
        id: the agent's.
        since: how many of its turns had ended when the caller's wait counts as begun; now, unless given.

    Raises:
        MisuseError: the running task is awaited by the agent's own operation or creation.
    """
    forbid_own_wait(engine, f"when_idle() of agent {id!r}")
    ended = engine.ended if since is None else since
    if engine.quiet:
        await trio.lowlevel.checkpoint()
    else:
        engine.cancel_with_parent()
    try:
        await engine.until_quiet()
    except trio.Cancelled:
        if engine.cancel_with_parent():
            with trio.CancelScope(shield=True):
                await engine.until_quiet()
        raise
    return engine.kernel.last_reason if engine.ended != ended else None
