"""The live agents of a host: lookup, publication, ownership, and the factory that makes them (§8)."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, evolve

from .agent import Agent
from .creation import AgentFactory, CreateOptions, ResumeOptions, Setup
from .errors import AgentDisposed, DuplicateSession, MisuseError, NoFactory
from .hooks import emit, serial
from .ids import new_id
from .initiator import Initiators
from .options import DEFAULT_OPTIONS, AgentOptions
from .points import (
    AGENT_CREATED,
    AGENT_DISPOSED,
    SESSION_START,
    AgentCreation,
    AgentGone,
    SessionStarted,
    StartSource,
)
from .reports import report_listener
from .scope import Disposer, Scope
from .session.events import Event
from .signal import Signal
from .unloading import Unloading

if TYPE_CHECKING:
    from .handle import AgentHandle
    from .host import Host

End = Callable[[bool], Awaitable[None]]
"""Disposes an agent, taking the state in the call; the argument says whether its inbox is kept."""


@define(eq=False)
class Entry:
    """One agent in the registry.

    Attributes:
        ending: its disposal has begun: it takes no more children.
        dispatching: its ``agent/created`` dispatch is running.
        leaving: a detach waits for that dispatch to settle (O15).
    """

    agent: Agent
    owner: Agent | None
    announced: bool = False
    ending: bool = False
    dispatching: bool = False
    leaving: bool = False


class Agents(Initiators):
    """Knows the live agents, and creates them through the factory that is set."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host
        self._entries: dict[str, Entry] = {}
        self._children: dict[Agent, dict[object, End]] = {}
        self._factory: AgentFactory | None = None
        self._unload: Callable[[], Unloading] | None = None
        self._unloading: dict[Unloading, None] = {}

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, id: str) -> Agent | None:
        """The live agent of an id; it cannot be disposed by who looks it up (O3)."""
        entry = self._entries.get(id)
        return entry.agent if entry is not None else None

    def list(self) -> list[Agent]:
        """All live agents, in the order of registration (O6)."""
        return [entry.agent for entry in self._entries.values()]

    def roots(self) -> list[Agent]:
        """The live agents without a live owner, in the order of registration (O6)."""
        return [entry.agent for entry in self._entries.values() if entry.owner is None]

    def is_owned_by(self, id: str, owner: Agent) -> bool:
        """Whether the live agent of an id was created under exactly that parent (O6)."""
        entry = self._entries.get(id)
        return entry is not None and entry.owner is owner

    def children(self, owner: Agent) -> builtins.list[Agent]:
        """The live agents that were created under exactly that parent, in the order of registration (O6)."""
        return [entry.agent for entry in self._entries.values() if entry.owner is owner]

    def __len__(self) -> int:
        return len(self._entries)

    # --- creating -----------------------------------------------------------------------------------------------------

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
            seed: events the session begins with.
            inherited_event_count: how many of them a fork inherited.
            meta: further fields of ``SessionHeader``: ``cwd``, ``parent_session``, ``origin``, ``agent_preset``, …
            **fields: the same, by keyword.

        Raises:
            NoFactory: no factory is set (O14).
            DuplicateSession: an agent of that id is live already (O2).
            Exception: whatever setup, commit or a created listener raised; everything is rolled back.
        """
        if meta is not None:
            fields = {**meta, **fields}
        if inherited_event_count is not None:
            fields["inherited"] = inherited_event_count
        return await self._made().create(
            CreateOptions(
                session_id if session_id is not None else new_id(),
                self._owner(owner),
                parent_agent,
                agent_options,
                setup,
                seed,
                fields,
            )
        )

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
        return await self._made().resume(
            ResumeOptions(session_id, self._owner(owner), parent_agent, agent_options, setup)
        )

    def _made(self) -> AgentFactory:
        if self._factory is None:
            raise NoFactory("no agent factory is set (O14): call agents.set_factory(factory) first")
        return self._factory

    def _owner(self, owner: Scope | None) -> Scope:
        if owner is None:
            return self._host.scope
        owner.check_open()
        return owner

    # --- the factory --------------------------------------------------------------------------------------------------

    @property
    def has_factory(self) -> bool:
        """Whether a factory is set (O14)."""
        return self._factory is not None

    def set_factory(self, factory: AgentFactory) -> Callable[[], Unloading]:
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
        unloading: Unloading | None = None

        def unload() -> Unloading:
            nonlocal unloading
            if unloading is None:
                self._factory = self._unload = None
                unloading = Unloading(factory)
                self._unloading[unloading] = None
                if self._host.running:
                    self._host.spawn(unloading.run)
            return unloading

        self._unload = unload
        return unload

    # --- publishing ---------------------------------------------------------------------------------------------------

    def check_free(self, id: str) -> None:
        """Raise ``DuplicateSession`` while an agent of that id is live (O2)."""
        if id in self._entries:
            raise DuplicateSession(f"an agent of session {id!r} is live already (O2); dispose it first")

    def enter(self, agent: Agent, owner: Agent | None = None, end: End | None = None) -> Disposer:
        """Insert a prepared agent silently (O15).

        Args:
            agent: the agent; ``announce`` it next.
            owner: the live agent that owns it, ``None`` for a root.
            end: disposes it when its owner is disposed (O6); give it to ``adopt_child`` instead if you did.

        Returns:
            An idempotent function that takes exactly this entry out, and publishes ``agent/disposed`` if it was
            announced. Called during its ``agent/created`` dispatch, it waits until that has settled.

        Raises:
            DuplicateSession: an agent of that id is live (O2).
            MisuseError: the owner is not live.
        """
        self.check_free(agent.id)
        if owner is not None:
            self._live(owner)
        disown = self.adopt_child(owner, agent, end) if owner is not None and end is not None else None
        entry = self._entries[agent.id] = Entry(agent, owner)

        def detach() -> None:
            if self._entries.get(agent.id) is not entry:
                return
            if entry.dispatching:
                entry.leaving = True
                return
            if disown is not None:
                disown()
            self._leave(entry)

        return detach

    def _leave(self, entry: Entry) -> None:
        agent = entry.agent
        del self._entries[agent.id]
        self._children.pop(agent, None)
        if entry.announced:
            listeners = agent.scope.listeners(AGENT_DISPOSED)
            if listeners:
                host = self._host.scope
                awake = [evolve(one, scope=host) if one.scope.closed else one for one in listeners if one.alive]
                emit(tuple(awake), AgentGone(agent), lambda listener, error: report_listener(agent, listener, error))

    async def announce(self, agent: Agent, source: StartSource, signal: Signal | None = None) -> None:
        """Tell the created listeners of an entered agent, in order, then ``agent/session-start`` (O1, O15, O18).

        Raises:
            MisuseError: the agent is not the live entry of its id, or was announced before.
            AgentDisposed: it was detached meanwhile.
            Exception: the first failure of a created listener; later ones are not called.
        """
        entry = self._live(agent)
        if entry.announced:
            raise MisuseError(f"agent {agent.id!r} was announced already (O15)")
        entry.announced = entry.dispatching = True
        try:
            listeners = agent.scope.listeners(AGENT_CREATED)
            if listeners:
                await serial(listeners, AgentCreation(agent, source, signal))
        finally:
            entry.dispatching = False
            if entry.leaving:
                self._leave(entry)
        if entry.leaving:
            raise AgentDisposed(f"agent {agent.id!r} was taken out while its creation was announced (O15)")
        listeners = agent.scope.listeners(SESSION_START)
        if listeners:
            emit(
                listeners,
                SessionStarted(agent, source),
                lambda listener, error: report_listener(agent, listener, error),
            )

    async def register(self, agent: Agent, *, owner: Scope | None = None) -> Disposer:
        """Enter a ready agent as a root and announce it with source ``startup`` (O15).

        Returns:
            The detach of ``enter``; the end of ``owner``, the host's scope unless given, calls it as well.

        Raises:
            DuplicateSession: an agent of that id is live (O2).
            Exception: a created listener failed; the agent is taken out again.
        """
        scope = self._owner(owner)
        detach = self.enter(agent)
        forget = scope.defer(detach)
        try:
            await self.announce(agent, "startup")
        except BaseException:
            forget()
            detach()
            raise

        def leave() -> None:
            forget()
            detach()

        return leave

    # --- ownership ----------------------------------------------------------------------------------------------------

    def _live(self, agent: Agent) -> Entry:
        entry = self._entries.get(agent.id)
        if entry is None or entry.agent is not agent:
            raise MisuseError(f"agent {agent.id!r} is not live in this host (O6, O15)")
        return entry

    def check_parent(self, parent: Agent) -> None:
        """Raise unless an agent may get children now (O6).

        Raises:
            MisuseError: it is not live.
            AgentDisposed: it is being disposed.
        """
        if self._live(parent).ending:
            raise AgentDisposed(f"parent agent {parent.id!r} is being disposed; it takes no more children (O6, L9)")

    def adopt_child(self, parent: Agent, key: object, end: End) -> Disposer:
        """Have ``end`` called when ``parent`` is disposed, also while the child is still being created (O6).

        Raises:
            MisuseError: the parent is not live.
            AgentDisposed: it is being disposed.
        """
        self.check_parent(parent)
        ends = self._children.setdefault(parent, {})
        ends[key] = end

        def disown() -> None:
            ends.pop(key, None)

        return disown

    def end_children(self, parent: Agent, keep_inbox: bool) -> list[Awaitable[None]]:
        """Begin to dispose the children of an agent that is being disposed, youngest first (O6)."""
        entry = self._entries.get(parent.id)
        if entry is not None and entry.agent is parent:
            entry.ending = True
        ends = self._children.get(parent)
        return [end(keep_inbox) for end in reversed(list(ends.values()))] if ends else []

    def children_of(self, parent: Agent) -> list[object]:
        """What was given to ``adopt_child`` as keys, oldest first: the children, those being created included."""
        return list(self._children.get(parent, ()))

    async def close(self) -> None:
        """Unload the factory, wait for all unloading, take out what was registered by hand, drain initiators (O4)."""
        self.begin_closing()
        if self._unload is not None:
            self._unload()
        for unloading in list(self._unloading):
            await unloading.wait()
        for entry in reversed(list(self._entries.values())):
            self._leave(entry)
