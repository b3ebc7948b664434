"""Durability at the end of turns: ``session/flush`` runs beside whatever follows (P8)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import trio

from ..agent.agent import Agent
from ..containment import leaving_in, without_cancelled
from ..hooks.dispatch import Listener
from ..hooks.points import SESSION_FLUSH, SessionFlushing
from ..leftovers import check_left, left_entered, standing, tidy
from .convergence import Spawn


class Flush:
    """One flush.

    Attributes:
        over: set when it is over.
        failure: the first failure of a listener.
    """

    __slots__ = ("failure", "over")

    def __init__(self) -> None:
        self.over = trio.Event()
        self.failure: BaseException | None = None


class Flushes:
    """The flushes of one agent that are under way.

    Args:
        agent: whose.
        spawn: starts a task of the host's own.
        report: told of a listener that failed; the others go on (H5).
        over: called when none is under way any more.

    Attributes:
        tasks: what runs them.
    """

    __slots__ = ("_agent", "_over", "_report", "_spawn", "_under_way", "tasks")

    def __init__(
        self,
        agent: Agent,
        spawn: Spawn,
        report: Callable[[Listener, BaseException], None],
        over: Callable[[], None],
    ) -> None:
        self._agent = agent
        self._spawn = spawn
        self._report = report
        self._over = over
        self._under_way: dict[Flush, None] = {}
        self.tasks: set[trio.lowlevel.Task] = set()

    @property
    def under_way(self) -> bool:
        """Whether there is one."""
        return bool(self._under_way)

    def begin(self) -> Flush:
        """Flush what has been recorded so far."""
        flush = Flush()
        self._under_way[flush] = None
        self._spawn(partial(self._flush, flush), "treadle.loop.flushes.Flushes.begin")
        return flush

    async def wait(self) -> None:
        """Wait for those that are under way now."""
        for flush in list(self._under_way):
            await flush.over.wait()

    async def _flush(self, flush: Flush) -> None:
        task = trio.lowlevel.current_task()
        self.tasks.add(task)
        try:
            flushing = SessionFlushing(self._agent, self._agent.session)
            for listener in self._agent.scope.heard[SESSION_FLUSH]:
                await self._ask(listener, flushing, flush)
        finally:
            self.tasks.discard(task)
            flush.over.set()
            del self._under_way[flush]
            if not self._under_way:
                self._over()

    async def _ask(self, listener: Listener, flushing: SessionFlushing, flush: Flush) -> None:
        before = standing()
        try:
            result = listener.function(flushing)
            if result is not None:
                await result
            if left_entered(before):
                await check_left(before, f"listener {listener.name}")
        except BaseException as error:
            await tidy(before)
            cancelled = trio.current_effective_deadline() == -math.inf
            if leaving_in(error) is not None or (cancelled and without_cancelled(error) is None):
                raise
            flush.failure = flush.failure or error
            self._report(listener, error)
