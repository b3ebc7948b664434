"""The loop's side of a bridge: asyncio functions that the host's loop waits for."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from ..agent.agent import Agent
from ..agent.initiator import CURRENT
from ..errors import TreadleError
from .thread import HostThread

T = TypeVar("T")


class LoopSide:
    """Runs asyncio functions in one loop for callers in the host's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: HostThread) -> None:
        self._loop = loop
        self._thread = thread
        self._agents: dict[asyncio.Task[Any], Agent] = {}

    def is_running(self) -> bool:
        """Whether the caller runs in this loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def runs_for(self, agent: Agent) -> bool:
        """Whether the running asyncio task was started here by that agent's own tool or hook."""
        task = asyncio.current_task() if self.is_running() else None
        return task is not None and self._agents.get(task) is agent

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run a function in the loop; called in the host's thread.

        The function sees the caller's context. A cancellation is passed on, and the function's end is waited for; a
        result that it gives all the same is kept (C4).
        """
        crossing = _Crossing(self, function)
        self._loop.call_soon_threadsafe(crossing.begin)
        try:
            await crossing.done.wait()
        except trio.Cancelled:
            self._loop.call_soon_threadsafe(crossing.cancel)
            with trio.CancelScope(shield=True):
                await crossing.done.wait()
            if crossing.cancelled:
                raise
        return crossing.result()

    def started(self, task: asyncio.Task[Any], agent: Agent | None) -> None:
        """Remember for whom a task runs."""
        if agent is not None:
            self._agents[task] = agent

    def ended(self, task: asyncio.Task[Any], done: Callable[[], object]) -> None:
        """Tell the host's thread that a task is over."""
        self._agents.pop(task, None)
        self._thread.post(done)


class _Crossing:
    """One asyncio function, and its end for whoever waits in the host's loop."""

    def __init__(self, side: LoopSide, function: Callable[[], Awaitable[Any]]) -> None:
        self.done = trio.Event()
        self._side = side
        self._function = function
        self._context = contextvars.copy_context()
        self._task: asyncio.Task[Any] | None = None

    def begin(self) -> None:
        """Start the task; in the loop's thread."""
        current = self._context.get(CURRENT)
        task = asyncio.get_running_loop().create_task(self._await(), context=self._context)
        self._task = task
        self._side.started(task, current.agent if current is not None else None)
        task.add_done_callback(lambda ended: self._side.ended(ended, self.done.set))

    async def _await(self) -> Any:
        return await self._function()

    def cancel(self) -> None:
        """Cancel the task; in the loop's thread, after ``begin``."""
        assert self._task is not None
        self._task.cancel()

    @property
    def cancelled(self) -> bool:
        """Whether the task let a cancellation through."""
        return self._task is not None and self._task.cancelled()

    def result(self) -> Any:
        """What the function returned, or raise what it raised."""
        assert self._task is not None
        if self._task.cancelled():
            raise TreadleError("the asyncio task was cancelled by somebody else than its agent")
        return self._task.result()
