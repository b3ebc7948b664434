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
from .convergence import Spawn


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
        self._under_way: dict[trio.Event, None] = {}
        self.tasks: set[trio.lowlevel.Task] = set()

    @property
    def under_way(self) -> bool:
        """Whether there is one."""
        return bool(self._under_way)

    def begin(self) -> trio.Event:
        """Flush what the turn recorded; returns what is set when that is over."""
        done = trio.Event()
        self._under_way[done] = None
        self._spawn(partial(self._flush, done), "treadle.loop.flushes.Flushes.begin")
        return done

    async def wait(self) -> None:
        """Wait until none is under way."""
        while self._under_way:
            await next(iter(self._under_way)).wait()

    async def _flush(self, done: trio.Event) -> None:
        task = trio.lowlevel.current_task()
        self.tasks.add(task)
        try:
            flushing = SessionFlushing(self._agent, self._agent.session)
            for listener in self._agent.scope.heard[SESSION_FLUSH]:
                await self._ask(listener, flushing)
        finally:
            self.tasks.discard(task)
            done.set()
            del self._under_way[done]
            if not self._under_way:
                self._over()

    async def _ask(self, listener: Listener, flushing: SessionFlushing) -> None:
        try:
            result = listener.function(flushing)
            if result is not None:
                await result
        except BaseException as error:
            cancelled = trio.current_effective_deadline() == -math.inf
            if leaving_in(error) is not None or (cancelled and without_cancelled(error) is None):
                raise
            self._report(listener, error)
