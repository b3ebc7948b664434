"""Waiting for agents: what would never return, and what a cancelled parent takes along (L6, O6, O15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from attrs import frozen

from . import inputs as i
from .effects import PROCEED
from .errors import MisuseError
from .schedule import STARTED
from .session.reasons import ByParent, EndReason

if TYPE_CHECKING:
    from .engine import Engine
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


def forbid_self_wait(engine: Engine, what: str) -> None:
    """Raise when the running task is awaited by the agent's own operation or creation: it would wait for itself (L6)."""
    if any([_stands_below(task) for task in engine.tasks]):
        raise MisuseError(
            f"{what} of agent {engine.session.id!r} awaited by the agent's own tool, hook or creation "
            "would never return (L6)"
        )


def forbid_creator_wait(engine: Engine, what: str) -> None:
    """Raise when the running task is awaited by the agent's creation, which the wait would wait for (O15)."""
    if engine.creator is not None and _stands_below(engine.creator):
        raise MisuseError(f"{what} of agent {engine.session.id!r} awaited by its own creation would never return (O15)")


def _stands_below(above: trio.lowlevel.Task) -> bool:
    """Whether the running task is ``above``, or is awaited by it through nurseries."""
    task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
    while task is not None:
        if task is above:
            return True
        nursery = task.parent_nursery
        task = nursery.parent_task if nursery is not None else None
    return False


async def when_quiet(engine: Engine, above: Engine | None) -> EndReason | None:
    """Wait until the agent is quiet; returns the reason of the last turn that ended meanwhile (L6).

    Where the wait is the parent's own and is cancelled with the parent's turn, the child is cancelled, and the
    cancellation goes on once that has converged: so nothing of the child's happens after the parent's turn (O6).

    Args:
        engine: what drives the agent.
        above: what drives its parent, if anything does.
    """
    forbid_self_wait(engine, "when_idle()")
    ended = engine.ended
    if engine.quiet:
        await trio.lowlevel.checkpoint()
    try:
        await engine.until_quiet()
    except trio.Cancelled:
        if above is not None and above.kernel.cause is not None and above.below:
            engine.feed(i.Cancel(ByParent(), above.kernel.keep))
            with trio.CancelScope(shield=True):
                await engine.until_quiet()
        raise
    return engine.kernel.last_reason if engine.ended != ended else None


# --- what a cancellation waits for (C10) ------------------------------------------------------------------------------


def converging(engine: Engine) -> Converging | None:
    """What a cancellation is waiting for (C10)."""
    kernel = engine.kernel
    if kernel.cause is None or engine.since is None or kernel.owed is None:
        return None
    return Converging(_waits_for(kernel), engine.since, trio.current_time() - engine.since)


def _waits_for(kernel: Kernel) -> str:
    schedule = kernel.schedule
    if schedule is not None:
        running = [call.name for call, status in zip(schedule.calls, schedule.status, strict=True) if status == STARTED]
        if running:
            return f"tools: {', '.join(running)}"
    return type(kernel.owed).__name__.lower() if kernel.owed is not PROCEED else "its listeners"
