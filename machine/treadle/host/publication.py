"""Who is live under which id: entering, announcing, leaving, and what ends with whom (O2, O6, O15)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio
from attrs import define, evolve

from ..agent.agent import Agent
from ..errors import AgentDisposed, DelegationLimit, DuplicateSession, MisuseError
from ..hooks.dispatch import emit, serial
from ..hooks.points import (
    AGENT_CREATED,
    AGENT_DISPOSED,
    SESSION_START,
    AgentCreation,
    AgentGone,
    SessionStarted,
    StartSource,
)
from ..hooks.reports import report_listener
from ..hooks.scope import Disposer, Scope
from ..words.signal import Signal

MAX_DELEGATION_DEPTH, MAX_LIVE_CHILDREN = 8, 256
"""How deep, and how many at once, agents may stand below a root unless told otherwise (O6)."""
End = Callable[[bool], Awaitable[None]]
"""Disposes an agent, taking the state in the call; the argument says whether its inbox is kept."""


@define(eq=False)
class Entry:
    """One live agent.

    Attributes:
        take_out: takes an entry out of those that are kept.
        children: what ends the agents below it, those being created included, oldest first.
        ending: its disposal has begun: it takes no more children.
        dispatching: its ``agent/created`` dispatch is running.
        leaving: a detach waits for that dispatch to settle (O15).
        below: how many agents live below a root, those being created included.
        disown: takes it from its owner's children, where ``enter`` was given its end.
    """

    take_out: Callable[[Entry], None]
    agent: Agent
    owner: Agent | None
    children: dict[object, End] | None = None
    announced: bool = False
    ending: bool = False
    dispatching: bool = False
    leaving: bool = False
    below: int = 0
    disown: Disposer | None = None

    def detach(self) -> None:
        """Take it out; once (O15)."""
        self.take_out(self)


class Publication:
    """Keeps the entries of the live agents, in the order of registration.

    Args:
        scope: the host's; tells the last listeners of agents whose own scope has ended (O17).
        max_live_children: see ``Host``.
    """

    def __init__(self, scope: Scope, max_live_children: int | None = None) -> None:
        self.scope = scope
        self._max_live_children = max_live_children
        self._take_out = self._detach  # one for all entries
        self._entries: dict[str, Entry] = {}

    def check_free(self, id: str) -> None:
        """Raise ``DuplicateSession`` while an agent of that id is live (O2)."""
        if id in self._entries:
            raise DuplicateSession(f"an agent of session {id!r} is live already (O2); dispose it first")

    @trio.lowlevel.enable_ki_protection
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
        entry = Entry(self._take_out, agent, owner)
        if owner is not None and end is not None:
            entry.disown = self.adopt_child(owner, end)
        self._entries[agent.id] = entry
        return entry.detach

    def _detach(self, entry: Entry) -> None:
        """Take an entry out, unless that was done; during its ``agent/created`` dispatch once that has settled (O15)."""
        if self._entries.get(entry.agent.id) is not entry:
            return
        if entry.dispatching:
            entry.leaving = True
        else:
            self._leave(entry)

    def _leave(self, entry: Entry) -> None:
        agent = entry.agent
        del self._entries[agent.id]
        if entry.disown is not None:
            entry.disown()
        listeners = agent.scope.heard[AGENT_DISPOSED] if entry.announced else ()
        if listeners:
            awake = [evolve(one, scope=self.scope) if one.scope.closed else one for one in listeners if one.alive]
            emit(tuple(awake), AgentGone(agent), partial(report_listener, agent))

    @trio.lowlevel.enable_ki_protection
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
            listeners = agent.scope.heard[AGENT_CREATED]
            if listeners:
                await serial(listeners, AgentCreation(agent, source, signal))
        finally:
            entry.dispatching = False
            if entry.leaving:
                self._leave(entry)
        if entry.leaving:
            raise AgentDisposed(f"agent {agent.id!r} was taken out while its creation was announced (O15)")
        listeners = agent.scope.heard[SESSION_START]
        if listeners:
            emit(listeners, SessionStarted(agent, source), partial(report_listener, agent))

    @trio.lowlevel.enable_ki_protection
    async def register(self, agent: Agent, *, owner: Scope | None = None) -> Disposer:
        """Enter a ready agent as a root and announce it with source ``startup`` (O15).

        Returns:
            The detach of ``enter``; the end of ``owner``, the host's scope unless given, calls it as well.

        Raises:
            DuplicateSession: an agent of that id is live (O2).
            Exception: a created listener failed; the agent is taken out again.
        """
        if owner is not None:
            owner.check_open()
        detach = self.enter(agent)
        forget = (owner or self.scope).defer(detach)

        def leave() -> None:
            forget()
            detach()

        try:
            await self.announce(agent, "startup")
        except BaseException:
            leave()
            raise
        return leave

    # --- ownership ----------------------------------------------------------------------------------------------------

    def _live(self, agent: Agent) -> Entry:
        entry = self._entries.get(agent.id)
        if entry is None or entry.agent is not agent:
            raise MisuseError(f"agent {agent.id!r} is not live in this host (O6, O15)")
        return entry

    def check_parent(self, parent: Agent) -> Entry:
        """The entry of an agent that may get children now (O6).

        Raises:
            MisuseError: it is not live.
            AgentDisposed: it is being disposed.
            DelegationLimit: as many agents live below its root as may (O6).
        """
        entry = self._live(parent)
        if entry.ending:
            raise AgentDisposed(f"parent agent {parent.id!r} is being disposed; it takes no more children (O6, L9)")
        limit, root = self._max_live_children, self._root_of(entry)
        if limit is not None and root.below >= limit:
            raise DelegationLimit(
                f"{root.below} agents live below agent {root.agent.id!r}, and the host allows {limit} (O6): "
                "wait until some have ended, or raise Host(max_live_children=…)"
            )
        return entry

    def _root_of(self, entry: Entry) -> Entry:
        while entry.owner is not None and (above := self._entries.get(entry.owner.id)) is not None:
            entry = above
        return entry

    @trio.lowlevel.enable_ki_protection
    def adopt_child(self, parent: Agent, end: End) -> Disposer:
        """Have ``end`` called when ``parent`` is disposed, also while the child is still being created (O6).

        Raises what ``check_parent`` does.
        """
        entry, key = self.check_parent(parent), object()
        if entry.children is None:
            entry.children = {}
        children = entry.children
        children[key] = end
        root = self._root_of(entry)
        root.below += 1

        def disown() -> None:
            if children.pop(key, None) is not None:
                root.below -= 1

        return disown

    @trio.lowlevel.enable_ki_protection
    def end_children(self, parent: Agent, keep_inbox: bool) -> list[Awaitable[None]]:
        """Begin to dispose the children of an agent that is being disposed, youngest first (O6)."""
        entry = self._entries.get(parent.id)
        if entry is None or entry.agent is not parent:
            return []
        entry.ending = True
        return [end(keep_inbox) for end in reversed(list((entry.children or {}).values()))]
