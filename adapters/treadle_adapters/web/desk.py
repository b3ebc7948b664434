"""Whose session is whose, and which agents are in memory: resumed when they are needed, unloaded when idle.

Everything here runs in the host's thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, field, frozen

from treadle import (
    Agent,
    AgentHandle,
    AgentOptions,
    Host,
    MisuseError,
    SessionHeader,
    SessionLocked,
    SessionNotFound,
    Signal,
)
from treadle.agent import Reached, Setup
from treadle.hooks import SESSION_EVENT, SessionEventAdded
from treadle.session import StoredSession, TurnEnd, session_id

from .approvals import Approvals
from .limits import Limits
from .problems import Refused, not_there
from .watching import Watching

ORIGIN = "web:"
"""What a header's origin begins with for sessions that were made here; the owner's name follows."""
DEEPEST = 16
"""How many parents of a session are asked whose it is."""
REMEMBERED = 10_000
"""How many sessions' owners are remembered."""

Owner = str | None
"""Who a token belongs to. ``None`` is the operator, to whom every session of the host belongs."""
Maintenance = Mapping[str, Callable[[Agent, Signal], Awaitable[Any]]]
"""Tasks between turns that clients may ask for, by name (M1)."""


@frozen
class Furnishing:
    """What the agents of the web are made with.

    Attributes:
        options: the options of agents, new and resumed; the host's defaults and the log's unless given.
        setup: as ``Agents.create`` takes it, for agents new and resumed.
        maintenance: tasks between turns that clients may ask for.
    """

    options: AgentOptions | None = None
    setup: Setup | None = None
    maintenance: Maintenance = field(factory=dict[str, Any])


@define(eq=False)
class _Opening:
    lock: trio.Lock = field(factory=trio.Lock)
    users: int = 0


class Desk:
    """The sessions of a host, as the owners of tokens reach them.

    Args:
        host: the host, entered.
        furnishing: what agents are made with.
        limits: what clients may take.
        watching: who watches what.
    """

    def __init__(self, host: Host, furnishing: Furnishing, limits: Limits, watching: Watching) -> None:
        self.host = host
        self.furnishing = furnishing
        self.limits = limits
        self.watching = watching
        self.approvals = Approvals(watching.ring)
        self.draining = False
        self._handles: OrderedDict[str, AgentHandle] = OrderedDict()
        self._making = 0
        self._opening: dict[str, _Opening] = {}
        self._owners: OrderedDict[str, Owner] = OrderedDict()
        self._counts: dict[str, int] = {}

    async def attach(self) -> None:
        """Begin to listen; calls that ask are answered here unless the host has an approver."""
        self.watching.attach(self.host)
        replica = self.host.replica
        if self.host.approver is None or (replica is not None and self.host.approver is replica.approver):
            self.host.approver = self.approvals
        self.host.on(SESSION_EVENT, self._drained_turn)

    # --- whose it is --------------------------------------------------------------------------------------------------

    async def check(self, owner: Owner, id: str) -> None:
        """See that a session is there and belongs to an owner.

        Raises:
            Refused: it is not there, or is another's: both are told alike.
        """
        try:
            session_id(id)
            whose = await self._owner(id)
        except (MisuseError, SessionNotFound) as error:
            raise not_there(id) from error
        if owner is not None and whose != owner:
            raise not_there(id)

    async def _owner(self, id: str, depth: int = 0) -> Owner:
        if id in self._owners:
            self._owners.move_to_end(id)
            return self._owners[id]
        header = await self._header(id)
        owner: Owner = None
        if header.origin is not None and header.origin.startswith(ORIGIN):
            owner = header.origin.removeprefix(ORIGIN)
        elif header.parent_session is not None and depth < DEEPEST:
            try:
                owner = await self._owner(header.parent_session, depth + 1)
            except SessionNotFound:
                owner = None  # its parent was deleted: the operator's
        self._remember(id, owner)
        return owner

    def _remember(self, id: str, owner: Owner) -> None:
        self._owners[id] = owner
        if len(self._owners) > REMEMBERED:
            self._owners.popitem(last=False)

    async def _header(self, id: str) -> SessionHeader:
        agent = self.host.agents.get(id)
        return agent.session.header if agent is not None else (await self.stored(id)).header

    async def stored(self, id: str) -> StoredSession:
        """A session as the store has it.

        Raises:
            SessionNotFound: it has none of that id.
        """
        if self.host.store is None:
            raise SessionNotFound(f"there is no session {id!r}")
        return await self.host.store.open_read(id)

    # --- which are in memory ------------------------------------------------------------------------------------------

    async def opened(self, owner: Owner, id: str) -> Agent:
        """The live agent of a session, resumed if it was not in memory.

        It is live until the caller's next checkpoint; later it may have been unloaded.

        Raises:
            Refused: the session is not there, or there is no room for another agent (``TOO_MANY_LIVE``).
            TreadleError: it cannot be resumed.
        """
        await self.check(owner, id)
        async with self._alone(id):
            agent = self.host.agents.get(id)
            if agent is None:
                async with self._room():
                    handle = await self.host.agents.resume(
                        id, agent_options=self.furnishing.options, setup=self.furnishing.setup
                    )
                    self._handles[id] = handle
                agent = handle.agent
            elif id in self._handles:
                self._handles.move_to_end(id)
            return agent

    def elsewhere(self, id: str, locked: SessionLocked) -> Reached:
        """The agent of a session that another replica owns.

        Raises:
            SessionLocked: this host is no replica.
        """
        if self.host.replica is None:
            raise locked
        return self.host.replica.agent(id)

    async def created(self, owner: Owner, **fields: Any) -> Agent:
        """A new agent on a fresh session of an owner.

        Raises:
            Refused: the owner has too many sessions, or there is no room for another agent.
            TreadleError: it cannot be created.
        """
        self.check_admits()
        await self._count(owner)
        options = {} if self.furnishing.options is None else {"agent_options": self.furnishing.options}
        origin = None if owner is None else ORIGIN + owner
        async with self._room():
            handle = await self.host.agents.create(setup=self.furnishing.setup, origin=origin, **options, **fields)
            self._handles[handle.agent.id] = handle
        self.counted(owner, handle.agent.id)
        return handle.agent

    async def _count(self, owner: Owner) -> None:
        """Refuse an owner who has as many sessions as may be; they are counted once, and kept count of from then on."""
        if owner is None:
            return
        if owner not in self._counts:
            whose = [agent.session.header for agent in self.host.agents.list()]
            if self.host.store is not None:
                whose += [listed.header for listed in (await self.host.store.list()).sessions]
            self._counts[owner] = len({header.id for header in whose if header.origin == ORIGIN + owner})
        if self._counts[owner] >= self.limits.sessions_per_owner:
            raise Refused(429, "TOO_MANY_SESSIONS", "you have as many sessions as you may have; delete some first")

    def counted(self, owner: Owner, id: str, more: int = 1) -> None:
        """A session of an owner was made, or is gone."""
        if owner is not None and owner in self._counts:
            self._counts[owner] += more
        if more > 0:
            self._remember(id, owner)
        else:
            self._owners.pop(id, None)

    async def check_room(self, owner: Owner) -> None:
        """Raise ``Refused`` where an owner may have no further session."""
        await self._count(owner)

    @asynccontextmanager
    async def _room(self) -> AsyncGenerator[None]:
        """Room for one more agent, kept while it is made."""
        await self._make_room()
        self._making += 1
        try:
            yield
        finally:
            self._making -= 1

    async def _make_room(self) -> None:
        """Unload idle agents, least recently used first, until there is room for one more."""
        store = self.host.store
        while len(self._handles) + self._making >= self.limits.loaded:
            idle = next((handle for handle in self._handles.values() if self._is_idle(handle.agent)), None)
            if idle is None or store is None:
                raise Refused(503, "TOO_MANY_LIVE", "as many agents are at work as may be; try again later")
            async with self._alone(idle.agent.id):  # who asks for it meanwhile waits, and resumes it
                if self._handles.get(idle.agent.id) is idle and self._is_idle(idle.agent):
                    await self.unload(idle.agent.id)

    def _is_idle(self, agent: Agent) -> bool:
        return agent.engine.quiet and not self.host.agents.children(agent)

    async def unload(self, id: str) -> None:
        """Dispose the agent of a session that the web made or resumed, keeping what is pending; its lock is held."""
        handle = self._handles.get(id)
        if handle is not None:
            try:
                with trio.CancelScope(shield=True):
                    await handle.dispose(keep_inbox=True)
            finally:
                self._handles.pop(id, None)  # not before: until then it is in memory

    @asynccontextmanager
    async def _alone(self, id: str) -> AsyncGenerator[None]:
        opening = self._opening.setdefault(id, _Opening())
        opening.users += 1
        try:
            async with opening.lock:
                yield
        finally:
            opening.users -= 1
            if not opening.users:
                del self._opening[id]

    @asynccontextmanager
    async def at_rest(self, owner: Owner, id: str) -> AsyncGenerator[None]:
        """Hold a session with no agent on it, for what changes it as a whole.

        Raises:
            Refused: it is not there, or its agent is not the web's to end.
        """
        await self.check(owner, id)
        async with self._alone(id):
            await self.unload(id)
            if self.host.agents.get(id) is not None:
                raise Refused(409, "NOT_OURS", "this session's agent was not made over the web, and is not ended by it")
            yield

    def owner_for(self, header: SessionHeader) -> Owner:
        """Whose a listed session is, by its own header; subagents are found through their parents."""
        if header.origin is not None and header.origin.startswith(ORIGIN):
            return header.origin.removeprefix(ORIGIN)
        return self._owners.get(header.id)

    # --- the end ------------------------------------------------------------------------------------------------------

    def check_admits(self) -> None:
        """Raise ``Refused`` while the server is being drained: nothing new is begun."""
        if self.draining:
            raise Refused(503, "DRAINING", "the server is going down; send this again in a moment")

    def _drained_turn(self, told: SessionEventAdded) -> None:
        if self.draining and isinstance(told.event.data, TurnEnd):
            self._end_soon(told.agent.id)

    def _end_soon(self, id: str) -> None:
        handle = self._handles.get(id)
        if handle is not None:
            handle.dispose(keep_inbox=True)

    async def drain(self, seconds: float) -> None:
        """Begin no further turns; wait for those under way, and end those that are left after ``seconds``.

        What is pending stays pending. Then every stream ends with a word to come back.
        """
        self.draining = True
        handles = list(self._handles.values())
        for handle in handles:
            if handle.agent.engine.quiet:
                self._end_soon(handle.agent.id)
        with trio.move_on_after(seconds):
            for handle in handles:
                await handle.agent.when_idle()
        with trio.CancelScope(shield=True):
            for handle in handles:
                await handle.dispose(keep_inbox=True)
        self.watching.end_all("draining")
