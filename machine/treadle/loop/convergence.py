"""Cancellations under way: what each waits for, and a warning when one takes long (C10)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import trio

from ..agent.agent import Agent
from ..agent.engine import Converging
from ..kernel.effects import PROCEED
from ..kernel.kernel import Kernel
from ..kernel.schedule import STARTED

LOGGER = logging.getLogger("treadle")


class Spawn(Protocol):
    """Starts a task of the host's own."""

    def __call__(self, run: Callable[[], Awaitable[Any]], name: str | None = None) -> None:
        """Start ``run`` under a name for people."""
        ...


class Convergence:
    """One cancellation under way.

    Attributes:
        agent: whose turn or task is being cancelled.
        since: seconds on trio's clock when the cancel was made.
    """

    __slots__ = ("_kernel", "agent", "since")

    def __init__(self, agent: Agent, kernel: Kernel) -> None:
        self.agent = agent
        self.since = trio.current_time()
        self._kernel = kernel

    @property
    def warn_at(self) -> float:
        """When it is worth a warning, on trio's clock."""
        return self.since + self.agent.options.convergence_warning

    def state(self) -> Converging | None:
        """What it is waiting for; ``None`` once everything has settled."""
        kernel = self._kernel
        if kernel.cause is None or kernel.owed is None:
            return None
        return Converging(_waits_for(kernel), self.since, trio.current_time() - self.since)


def _waits_for(kernel: Kernel) -> str:
    schedule = kernel.schedule
    if schedule is not None:
        running = [call.name for call, status in zip(schedule.calls, schedule.status, strict=True) if status == STARTED]
        if running:
            return f"tools: {', '.join(running)}"
    return type(kernel.owed).__name__.lower() if kernel.owed is not PROCEED else "its listeners"


class Convergences:
    """Watches the cancellations of all agents of a host, in one task that lives while there are any.

    Args:
        spawn: starts that task.
    """

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._watched: dict[Convergence, None] = {}
        self._scope: trio.CancelScope | None = None

    def watch(self, convergence: Convergence) -> None:
        """Log a warning should it take longer than the agent's option says."""
        self._watched[convergence] = None
        if self._scope is not None:
            self._scope.cancel()  # it sleeps until an earlier one's time, which may be later than this one's
        scope = self._scope = trio.CancelScope()
        self._spawn(lambda: self._watch(scope))

    def over(self, convergence: Convergence) -> None:
        """It has converged, or gave way to another one."""
        self._watched.pop(convergence, None)
        if not self._watched and self._scope is not None:
            self._scope.cancel()
            self._scope = None

    @trio.lowlevel.enable_ki_protection
    async def _watch(self, scope: trio.CancelScope) -> None:
        with scope:
            while self._watched:
                await trio.sleep_until(min([convergence.warn_at for convergence in self._watched]))
                for convergence in list(self._watched):
                    if convergence.warn_at <= trio.current_time():
                        del self._watched[convergence]
                        _warn(convergence)
        if self._scope is scope:
            self._scope = None


def _warn(convergence: Convergence) -> None:
    state = convergence.state()
    LOGGER.warning(
        "agent %s has been cancelled for %.1f s and still waits for %s (C10)",
        convergence.agent.id,
        state.seconds if state is not None else 0.0,
        state.what if state is not None else "nothing",
    )
