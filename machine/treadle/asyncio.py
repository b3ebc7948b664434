"""Hosts for asyncio programs: one runs in a trio thread of its own, and its agents are used from asyncio code.

    async with Bridge(Host()) as bridge:
        handle = await bridge.agents.create(agent_options=options)
        receipt = handle.agent.followup("Hello")
        await handle.agent.when_idle()

What acts in the call on a trio handle acts in the call here, too: the message is on its way when ``followup`` returns,
and no cancellation takes it back. Awaiting only waits. Whatever raises there raises here, the very object.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from .agent import Agent
from .asyncio_agent import BridgedAgent, BridgedHandle, BridgedInbox, BridgedReceipt
from .asyncio_loop import LoopSide
from .asyncio_streams import EventStream, FrameStream
from .creation import Setup
from .crossing import HostThread, Reply, Work
from .errors import BridgeClosed
from .hooks import HookPoint, Mode
from .options import DEFAULT_OPTIONS, AgentOptions
from .scope import Disposer, Scope
from .session.events import Event
from .tools.definition import Tool, tool

if TYPE_CHECKING:
    from .handle import AgentHandle
    from .host import Host

T = TypeVar("T")


class BridgedAgents:
    """The agents of the bridge's host. Lookups answer at once; making agents is awaited."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def get(self, id: str) -> BridgedAgent | None:
        """The live agent of an id."""
        agent = self._bridge.host.agents.get(id)
        return self._bridge.agent(agent) if agent is not None else None

    def list(self) -> list[BridgedAgent]:
        """All live agents, in the order of registration (O6)."""
        return [self._bridge.agent(agent) for agent in self._bridge.host.agents.list()]

    def roots(self) -> list[BridgedAgent]:
        """The live agents without an owner (O6)."""
        return [self._bridge.agent(agent) for agent in self._bridge.host.agents.roots()]

    async def create(
        self,
        *,
        session_id: str | None = None,
        parent_agent: BridgedAgent | None = None,
        agent_options: AgentOptions = DEFAULT_OPTIONS,
        setup: Setup | None = None,
        owner: Scope | None = None,
        seed: Iterable[Event] = (),
        **meta: Any,
    ) -> BridgedHandle:
        """As ``Agents.create``. ``setup`` runs in the host's thread; ``bridge.in_loop`` brings it back.

        A cancelled creation is rolled back before the cancellation goes on.
        """

        async def make() -> AgentHandle:
            return await self._bridge.host.agents.create(
                session_id=session_id,
                parent_agent=parent_agent.native if parent_agent is not None else None,
                agent_options=agent_options,
                setup=setup,
                owner=owner,
                seed=seed,
                **meta,
            )

        return await self._made(make)

    async def resume(
        self,
        session_id: str,
        *,
        parent_agent: BridgedAgent | None = None,
        agent_options: AgentOptions | None = None,
        setup: Setup | None = None,
        owner: Scope | None = None,
    ) -> BridgedHandle:
        """As ``Agents.resume``, with what ``create`` says here."""

        async def make() -> AgentHandle:
            return await self._bridge.host.agents.resume(
                session_id,
                parent_agent=parent_agent.native if parent_agent is not None else None,
                agent_options=agent_options,
                setup=setup,
                owner=owner,
            )

        return await self._made(make)

    async def _made(self, make: Callable[[], Awaitable[AgentHandle]]) -> BridgedHandle:
        async def end(handle: AgentHandle) -> None:
            await handle.dispose(keep_inbox=True)

        return BridgedHandle(self._bridge, await self._bridge.run(make, lost=end))


class Bridge:
    """Runs a host in a thread and gives asyncio code its agents. Use it as an async context manager.

    Leaving it leaves the host: every agent is disposed, keeping what is pending (O4).

    Args:
        host: a host that was not entered yet; enter it nowhere else.

    Attributes:
        host: the host itself. Read it from anywhere; change it through ``call`` and ``run``.
        agents: its agents.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.agents = BridgedAgents(self)
        self._thread = HostThread(host)
        self._loop_side: LoopSide | None = None

    async def __aenter__(self) -> Self:
        self._loop_side = LoopSide(asyncio.get_running_loop(), self._thread)
        self._thread.start()
        try:
            await undisturbed(self._thread.started)
        except BaseException:
            self._thread.stop()
            await self._ended()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.stop()
        await self._ended()

    async def _ended(self) -> None:
        try:
            await undisturbed(self._thread.ended)
        finally:
            self._thread.join()

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

    def start(self, function: Callable[[], Awaitable[T]]) -> Work[T]:
        """Start a trio function in the host's loop; it ends with the bridge at the latest."""
        work: Work[T] = Work()
        self._thread.start_work(work, function)
        return work

    async def run(
        self, function: Callable[..., Awaitable[T]], *args: Any, lost: Callable[[T], Awaitable[object]] | None = None
    ) -> T:
        """Run a trio function in the host's loop and wait for what it returns.

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

    # --- back into the loop -------------------------------------------------------------------------------------------

    def in_loop(self, function: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        """Make a trio function of an asyncio one: it runs in the bridge's loop, and a cancellation reaches it there."""

        @functools.wraps(function)
        async def crossed(*args: Any, **options: Any) -> T:
            if self._loop_side is None:
                raise BridgeClosed("the bridge is not open; use it as 'async with Bridge(host) as bridge'")
            return await self._loop_side.run(functools.partial(function, *args, **options))

        return crossed

    def tool(self, function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """As ``treadle.tool``, for an asyncio function: it runs in the bridge's loop. Usable as a decorator."""
        if function is None:
            return functools.partial(self.tool, **options)
        if not inspect.iscoroutinefunction(function):
            return tool(function, **options)
        made: Tool = tool(self.in_loop(function), **options)
        return made

    def on(self, point: HookPoint[Any], listener: Callable[..., Any]) -> Reply[Disposer]:
        """Listen at a hook point for every agent.

        An ``async`` listener runs in the bridge's loop, any other in the host's thread.
        """
        return self.call(self.host.scope.on, point, self.listener(point, listener))  # pyright: ignore[reportArgumentType]

    def listener(self, point: HookPoint[Any], function: Callable[..., Any]) -> Callable[..., Any]:
        """Make a listener of an asyncio function; the ``next`` of a waterfall is awaited there as usual."""
        if not inspect.iscoroutinefunction(function):
            return function
        crossed = self.in_loop(function)
        if point.mode is not Mode.WATERFALL:
            return crossed

        async def decide(payload: object, proceed: Callable[[], Awaitable[Any]]) -> Any:
            return await crossed(payload, lambda: self.run(proceed))

        return decide

    def agent(self, agent: Agent) -> BridgedAgent:
        """The asyncio side of an agent of this host."""
        return BridgedAgent(self, agent)

    def awaits_here(self, agent: Agent) -> bool:
        """Whether the running asyncio task is a tool or hook of that agent, brought here by ``in_loop``."""
        return self._loop_side is not None and self._loop_side.runs_for(agent)


async def undisturbed(reply: Reply[T], *, reraise: bool = True) -> T:
    """Wait to the end; a cancellation that comes meanwhile goes on afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not reply.done():
        try:
            await reply
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:
            break
    value = await reply
    if cancelled is not None and reraise:
        raise cancelled
    return value


__all__ = [
    "Bridge",
    "BridgedAgent",
    "BridgedAgents",
    "BridgedHandle",
    "BridgedInbox",
    "BridgedReceipt",
    "EventStream",
    "FrameStream",
    "Reply",
]
