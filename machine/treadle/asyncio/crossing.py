"""The way from asyncio into a host's thread, and the way back."""

from __future__ import annotations

import asyncio
import functools
import inspect
import weakref
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar

import trio
from attrs import define, field

from ..agent.agent import Agent
from ..containment import stands_below
from ..errors import BridgeClosed, MisuseError
from ..hooks.dispatch import HookPoint, Mode
from ..hooks.scope import Disposer
from .loop import LoopSide
from .reply import Reply, undisturbed
from .thread import HostThread, Work

T = TypeVar("T")
Undo = Callable[[], Reply[None]]
"""Takes a registration back, from any thread; once the bridge is closed it raises ``BridgeClosed``."""


@define(eq=False)
class Delivered:
    """What one asyncio task has delivered.

    Attributes:
        task: the task.
        ended: how many turns each agent had ended when the first delivery that no wait followed yet was taken.
    """

    task: weakref.ref[asyncio.Task[Any]]
    ended: weakref.WeakKeyDictionary[Agent, list[int]] = field(factory=weakref.WeakKeyDictionary[Agent, list[int]])


_DELIVERED: ContextVar[Delivered | None] = ContextVar("treadle_delivered", default=None)


class Crossing:
    """Both ways between a host's thread and one asyncio loop: what the parts of a bridge are made of."""

    def __init__(self, thread: HostThread) -> None:
        self._thread = thread
        self._loop_side: LoopSide | None = None

    # --- into the host's thread ---------------------------------------------------------------------------------------

    def call(self, function: Callable[..., T], *args: Any) -> Reply[T]:
        """Run a function in the host's thread. Callable from any thread; calls run in the order of asking.

        Returns:
            The reply: await it, or call its ``result()`` in a thread that runs no event loop.

        Raises:
            BridgeClosed: the bridge is not open.
        """
        reply: Reply[T] = Reply()
        self._thread.call(reply, function, *args)
        return reply

    def call_into(self, reply: Reply[T], function: Callable[..., T], *args: Any) -> None:
        """As ``call``, with a reply of the caller's making."""
        self._thread.call(reply, function, *args)

    def call_to_end(self, function: Callable[..., Awaitable[T]], *args: Any) -> Reply[T]:
        """As ``call``; the reply is the end of what the function returned to be awaited. For what acts in the call."""
        work: Work[T] = Work()
        self._thread.call_to_end(work, function, *args)
        return work.reply

    def register(self, function: Callable[..., Disposer], *args: Any) -> Reply[Undo]:
        """As ``call``, for a function that returns a disposer: what comes back may be called from any thread."""

        def registered() -> Undo:
            return functools.partial(self.call, function(*args))

        return self.call(registered)

    def start(self, function: Callable[[], Awaitable[T]]) -> Work[T]:
        """Start a trio function in the host's loop, from any thread; it ends with the bridge at the latest.

        Raises:
            BridgeClosed: the bridge is not open.
        """
        work: Work[T] = Work()
        self._thread.start_work(work, function)
        return work

    async def run(
        self, function: Callable[..., Awaitable[T]], *args: Any, lost: Callable[[T], Awaitable[object]] | None = None
    ) -> T:
        """Run a trio function in the host's loop and wait for what it returns, in the bridge's loop.

        A cancellation reaches the function, and goes on here once the function has settled.

        Args:
            function: what to run.
            *args: its arguments.
            lost: run with the result in the host's loop when the function returned although it was cancelled.

        Raises:
            BridgeClosed: the bridge is not open, or was closed meanwhile.
            Exception: what the function raised, the very object.
        """
        work = self.start(functools.partial(function, *args))
        try:
            return await work.reply
        except asyncio.CancelledError:
            self._thread.post(work.scope.cancel)
            await self._abandon(work, lost)
            raise

    async def _abandon(self, work: Work[T], lost: Callable[[T], Awaitable[object]] | None) -> None:
        try:
            value = await undisturbed(work.reply, reraise=False)
        except Exception:
            return  # the cancellation goes on; it is what the caller asked for
        if lost is not None:
            rest: Work[object] = Work()
            self._thread.start_work(rest, lost, value)
            await undisturbed(rest.reply, reraise=False)

    # --- what a task has delivered ------------------------------------------------------------------------------------

    def delivering(self, agent: Agent) -> list[int]:
        """Where the host's thread notes how many turns had ended when it took what the calling task delivers (L6)."""
        task, made = _current_task(), _DELIVERED.get()
        if task is None:
            return []
        if made is None or made.task() is not task:
            made = Delivered(weakref.ref(task))
            _DELIVERED.set(made)
        return made.ended.setdefault(agent, [])

    def delivered(self, agent: Agent) -> list[int]:
        """What was noted for deliveries, by the calling task or the one that started it, that no wait followed yet."""
        made = _DELIVERED.get()
        if made is None:
            return []
        own = made.task() is _current_task()
        return made.ended.pop(agent, []) if own else made.ended.get(agent, [])

    # --- back into the loop -------------------------------------------------------------------------------------------

    def in_loop(self, function: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        """Make a trio function of an asyncio one: it runs in the bridge's loop, and a cancellation reaches it there.

        Awaited in the bridge's loop, what it makes just runs there. Before the bridge is open it raises
        ``BridgeClosed``.
        """

        @functools.wraps(function)
        async def crossed(*args: Any, **options: Any) -> T:
            if self._loop_side is None:
                raise BridgeClosed("the bridge is not open; use it as 'async with Bridge(host) as bridge'")
            if self._loop_side.is_running():
                return await function(*args, **options)
            return await self._loop_side.run(functools.partial(function, *args, **options))

        return crossed

    def brought(self, function: T) -> T:
        """An asyncio function as ``in_loop`` makes it; anything else as it is."""
        given: Any = function
        made: Any = self.in_loop(given) if is_async(given) else given
        return made

    def listener(self, point: HookPoint[Any], function: Callable[..., Any]) -> Callable[..., Any]:
        """Make a listener of an asyncio function; the ``next`` of a waterfall is awaited there as usual."""
        if point.mode is not Mode.WATERFALL or not is_async(function):
            return self.brought(function)
        crossed = self.in_loop(function)

        async def decide(payload: object, proceed: Callable[[], Awaitable[Any]]) -> Any:
            return await crossed(payload, lambda: self.run(proceed))

        return decide

    def forbid_own_wait(self, agent: Agent, what: str) -> None:
        """Raise where a tool or hook of that agent waits, which ``what`` waits for: as an asyncio task or a thread (L6)."""
        if self.awaits_here(agent) or _awaits_this_thread(agent):
            raise MisuseError(f"{what} awaited by the agent's own tool or hook would never return (L6)")

    def awaits_here(self, agent: Agent) -> bool:
        """Whether the running asyncio task is a tool or hook of that agent, brought here by ``in_loop``."""
        return self._loop_side is not None and self._loop_side.runs_for(agent)


def _awaits_this_thread(agent: Agent) -> bool:
    """Whether the agent waits for the present thread: a worker's that runs one of its tools, and is not abandoned."""
    try:
        return trio.from_thread.run_sync(lambda: any(map(stands_below, agent.engine.awaited_tasks())))
    except RuntimeError:  # no worker's thread, or an abandoned one, which no task stands for
        return False


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def is_async(function: object) -> bool:
    """Whether calling it gives a coroutine, as far as can be told: also an object with an async ``__call__``."""
    return callable(function) and any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
