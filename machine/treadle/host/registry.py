"""The live agents of a host: looking them up, and having them made by the factory that is set (§8)."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import trio

from ..agent.agent import Agent
from ..agent.creation import AgentFactory, CreateOptions, ResumeOptions, Setup
from ..agent.ending import Ending, Failed
from ..agent.idle import forbid_own_wait
from ..agent.initiator import Initiators
from ..agent.options import DEFAULT_OPTIONS, AgentOptions
from ..errors import MisuseError, NoFactory
from ..hooks.scope import Scope
from ..ids import new_id
from ..words.events import Event
from .publication import Entry, Publication

if TYPE_CHECKING:
    from ..agent.handle import AgentHandle


class Agents(Publication, Initiators):
    """Knows the live agents, and creates them through the factory that is set."""

    def __init__(self, scope: Scope, max_live_children: int | None = None) -> None:
        Publication.__init__(self, scope, max_live_children)
        Initiators.__init__(self)
        self._factory: AgentFactory | None = None
        self._unload: Callable[[], Ending] | None = None
        self._unloaded: list[Ending] = []

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, id: str) -> Agent | None:
        """The live agent of an id; it cannot be disposed by who looks it up (O3)."""
        entry = self._entries.get(id)
        return entry.agent if entry is not None else None

    def list(self) -> builtins.list[Agent]:
        """All live agents, in the order of registration (O6)."""
        return [entry.agent for entry in self._now()]

    def roots(self) -> builtins.list[Agent]:
        """The live agents without a live owner, in the order of registration (O6)."""
        return [entry.agent for entry in self._now() if entry.owner is None]

    def is_owned_by(self, id: str, owner: Agent) -> bool:
        """Whether the live agent of an id was created under exactly that parent (O6)."""
        entry = self._entries.get(id)
        return entry is not None and entry.owner is owner

    def children(self, owner: Agent) -> builtins.list[Agent]:
        """The live agents that were created under exactly that parent, in the order of registration (O6)."""
        return [entry.agent for entry in self._now() if entry.owner is owner]

    def _now(self) -> builtins.list[Entry]:
        # A copy in one piece: the asyncio bridge looks up from another thread.
        return builtins.list(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    # --- creating -----------------------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def create(
        self,
        *,
        session_id: str | None = None,
        parent_agent: Agent | None = None,
        agent_options: AgentOptions = DEFAULT_OPTIONS,
        setup: Setup | None = None,
        owner: Scope | None = None,
        seed: Iterable[Event] = (),
        inherited_event_count: int | None = None,
        meta: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> AgentHandle:
        """Create an agent on a fresh session, as one transaction (O1, O13).

        Args:
            session_id: the id of session and agent; made up unless given.
            parent_agent: the live agent that owns it (O6); never derived from scope or initiator.
            agent_options: its options.
            setup: awaited with the agent's scope and the agent before anything is published; may return a commit.
            owner: the scope whose end is the agent's (O3); the host's unless given.
            seed: events the session begins with, of which copies are taken; resuming them must be possible (O13).
            inherited_event_count: how many of them a fork inherited; all of them are then marked as inherited (S5).
            meta: further fields of ``SessionHeader``: ``cwd``, ``parent_session``, ``origin``, ``agent_preset``, …
            **fields: the same, by keyword.

        Raises:
            NoFactory: no factory is set (O14).
            DuplicateSession: an agent of that id is live already (O2).
            MisuseError: the seed breaks a rule or ends inside a turn, or a field of the header is wrong.
            Exception: whatever setup, commit or a created listener raised; everything is rolled back.
        """
        fields = {**(meta or {}), **fields}
        if inherited_event_count is not None:
            fields["inherited"] = inherited_event_count
        exact = session_id if session_id is not None else new_id()
        factory, owner = self._made_in(owner)
        return await factory.create(
            CreateOptions(exact, owner, parent_agent, agent_options, setup, seed=seed, meta=fields)
        )

    @trio.lowlevel.enable_ki_protection
    async def resume(
        self,
        session_id: str,
        *,
        parent_agent: Agent | None = None,
        agent_options: AgentOptions | None = None,
        setup: Setup | None = None,
        owner: Scope | None = None,
    ) -> AgentHandle:
        """Resume an agent on a stored session, as one transaction (O1, O13).

        Args:
            session_id: the stored session.
            parent_agent: the live agent that owns it (O6).
            agent_options: its options; what they name overrides the logged configuration once (Q11).
            setup: as in ``create``.
            owner: as in ``create``.

        Raises:
            NoFactory: no factory is set (O14).
            NoStore: the host has no store.
            DuplicateSession: an agent of that id is live already (O2).
            Exception: whatever loading, setup, commit or a created listener raised; everything is rolled back.
        """
        factory, owner = self._made_in(owner)
        return await factory.resume(ResumeOptions(session_id, owner, parent_agent, agent_options, setup))

    def _made_in(self, owner: Scope | None) -> tuple[AgentFactory, Scope]:
        if self._factory is None:
            raise NoFactory("no agent factory is set (O14): call agents.set_factory(factory) first")
        if owner is not None:
            owner.check_open()
        return self._factory, owner if owner is not None else self.scope

    # --- the factory --------------------------------------------------------------------------------------------------

    @property
    def has_factory(self) -> bool:
        """Whether a factory is set (O14)."""
        return self._factory is not None

    def set_factory(self, factory: AgentFactory) -> Callable[[], Ending]:
        """Let ``factory`` make the agents (O14).

        Returns:
            The disposer. Calling it frees the slot at once; await what it returns for the end of every creation under
            way and every agent that the factory made.

        Raises:
            MisuseError: another factory is set.
        """
        if self._factory is not None:
            raise MisuseError("an agent factory is set already (O14); unload it before setting another")
        self._factory = factory
        ending: Ending | None = None

        def unload() -> Ending:
            nonlocal ending
            if ending is None:
                self._factory = self._unload = None
                closing = factory.close()

                async def close(_: Failed) -> None:
                    await closing

                ending = Ending(close, self._forbid_unload)
                self._unloaded.append(ending)
                if self.scope.start is not None:
                    ending.begin(self.scope.start)
            return ending

        self._unload = unload
        return unload

    def _forbid_unload(self) -> None:
        """Raise when the running task is awaited by an operation of an agent whose end the unloading waits for (L6)."""
        for agent in self.list():
            engine = getattr(agent, "engine", None)
            if engine is not None:
                forbid_own_wait(engine, "unloading the agent factory")

    @trio.lowlevel.enable_ki_protection
    async def close(self) -> None:
        """Unload the factory, wait for all unloading, take out what was registered by hand, drain initiators (O4)."""
        self.begin_closing()
        if self._unload is not None:
            self._unload()
        for ending in self._unloaded:
            await ending
        for entry in reversed(list(self._entries.values())):
            self._leave(entry)
