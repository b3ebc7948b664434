"""The agents of a host, looked up and made from asyncio code."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from ..agent.agent import Agent
from ..agent.creation import Setup
from ..agent.handle import AgentHandle
from ..agent.options import DEFAULT_OPTIONS, AgentOptions
from ..hooks.scope import Scope
from ..host.registry import Agents
from ..words.events import Event
from .agent import BridgedAgent
from .crossing import Crossing
from .handle import BridgedHandle


class BridgedAgents:
    """The agents of the bridge's host. Lookups answer at once; making agents is awaited."""

    __slots__ = ("_agents", "_crossing")

    def __init__(self, crossing: Crossing, agents: Agents) -> None:
        self._crossing = crossing
        self._agents = agents

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, id: str) -> BridgedAgent | None:
        """See ``Agents.get``, as of now."""
        agent = self._agents.get(id)
        return self._bridged(agent) if agent is not None else None

    def list(self) -> builtins.list[BridgedAgent]:
        """See ``Agents.list``, as of now."""
        return [self._bridged(agent) for agent in self._agents.list()]

    def roots(self) -> builtins.list[BridgedAgent]:
        """See ``Agents.roots``, as of now."""
        return [self._bridged(agent) for agent in self._agents.roots()]

    def children(self, owner: BridgedAgent) -> builtins.list[BridgedAgent]:
        """See ``Agents.children``, as of now."""
        return [self._bridged(agent) for agent in self._agents.children(owner.native)]

    def is_owned_by(self, id: str, owner: BridgedAgent) -> bool:
        """See ``Agents.is_owned_by``, as of now."""
        return self._agents.is_owned_by(id, owner.native)

    @property
    def has_factory(self) -> bool:
        """See ``Agents.has_factory``, as of now."""
        return self._agents.has_factory

    def current_initiator(self) -> BridgedAgent | None:
        """See ``Agents.current_initiator``: in a tool or hook, and in tasks started there, whose it is (O7).

        Raises:
            MisuseError: the host is disposed.
        """
        agent = self._agents.current_initiator()
        return self._bridged(agent) if agent is not None else None

    def require_initiator(self) -> BridgedAgent:
        """See ``Agents.require_initiator``.

        Raises:
            MisuseError: there is none, or the host is disposed.
        """
        return self._bridged(self._agents.require_initiator())

    def __len__(self) -> int:
        return len(self._agents)

    def _bridged(self, agent: Agent) -> BridgedAgent:
        return BridgedAgent(self._crossing, agent)

    # --- making -------------------------------------------------------------------------------------------------------

    async def create(
        self,
        *,
        session_id: str | None = None,
        parent_agent: BridgedAgent | None = None,
        agent_options: AgentOptions = DEFAULT_OPTIONS,
        setup: Setup | None = None,
        owner: Scope | None = None,
        seed: Iterable[Event] = (),
        inherited_event_count: int | None = None,
        meta: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> BridgedHandle:
        """As ``Agents.create``. ``setup`` runs in the host's thread; ``bridge.in_loop`` brings it back.

        A cancelled creation is rolled back before the cancellation goes on.

        Raises:
            BridgeClosed: the bridge is not open, or was closed meanwhile.
            Exception: as there; everything is rolled back.
        """

        async def make() -> AgentHandle:
            return await self._agents.create(
                session_id=session_id,
                parent_agent=parent_agent.native if parent_agent is not None else None,
                agent_options=agent_options,
                setup=setup,
                owner=owner,
                seed=seed,
                inherited_event_count=inherited_event_count,
                meta=meta,
                **fields,
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
            return await self._agents.resume(
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

        return BridgedHandle(self._crossing, await self._crossing.run(make, lost=end))
