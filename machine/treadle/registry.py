"""The live agents of a host: creation as one transaction, lookup, ownership (§8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

import trio
from attrs import define

from . import inputs as i
from .agent import Agent, attach, driver_of
from .driver import Driver
from .errors import DuplicateSession, MisuseError
from .hooks import emit, serial
from .ids import SessionId, new_id
from .inbox import Inbox
from .kernel import Kernel
from .life import AgentHandle, Life
from .options import DEFAULT_OPTIONS, AgentOptions
from .points import AGENT_CREATED, SESSION_START, AgentCreation, SessionStarted, StartSource
from .request import restore_requests
from .scope import Scope
from .session.events import CallConfig, Event, InboxSpliced, TurnStart
from .session.log import Session, SessionHeader, new_header

if TYPE_CHECKING:
    from .host import Host

Commit = Callable[[], None]
Setup = Callable[[Scope, Agent], Awaitable[Commit | None]]


@define(eq=False)
class Entry:
    """One live agent in the registry."""

    life: Life
    owner: Agent | None
    announced: bool = False


class Agents:
    """Creates agents and knows the live ones."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._entries: dict[str, Entry] = {}
        self._lives: dict[Life, None] = {}

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, id: str) -> Agent | None:
        """The live agent of an id; it cannot be disposed by who looks it up (O3)."""
        entry = self._entries.get(id)
        return entry.life.agent if entry is not None else None

    def list(self) -> list[Agent]:
        """All live agents, in the order of registration (O6)."""
        return [entry.life.agent for entry in self._entries.values()]

    def roots(self) -> list[Agent]:
        """The live agents without a live owner, in the order of registration (O6)."""
        return [entry.life.agent for entry in self._entries.values() if entry.owner is None]

    def is_owned_by(self, id: str, owner: Agent) -> bool:
        """Whether the live agent of an id was created under exactly that parent (O6)."""
        entry = self._entries.get(id)
        return entry is not None and entry.owner is owner

    def children(self, owner: Agent) -> list[Life]:
        """The lives of an agent's live children, oldest first."""
        return [entry.life for entry in self._entries.values() if entry.owner is owner]

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
        cwd: str | None = None,
        seed: Iterable[Event] = (),
        **meta: Any,
    ) -> AgentHandle:
        """Create an agent on a fresh session, as one transaction (O1).

        Args:
            session_id: the id of session and agent; made up unless given.
            parent_agent: the live agent that owns it (O6).
            agent_options: its options.
            setup: awaited with the agent's scope and the agent before anything is published; may return a commit.
            cwd: absolute working directory; the host's unless given.
            seed: events the session begins with.
            **meta: further fields of ``SessionHeader``.

        Raises:
            DuplicateSession: an agent of that id is live already (O2).
            Exception: whatever setup, commit or a created listener raised; everything is rolled back.
        """
        header = new_header(session_id or new_id(), cwd or self._host.cwd, **meta)
        session = Session(header, seed)
        return await self._publish(session, agent_options, parent_agent, setup, "startup", None)

    async def adopt(
        self,
        header: SessionHeader,
        events: Iterable[Event],
        *,
        agent_options: AgentOptions | None = None,
        parent_agent: Agent | None = None,
        setup: Setup | None = None,
    ) -> AgentHandle:
        """Resume an agent on a session that was loaded and repaired already."""
        session = Session(header, events)
        override = agent_options.config if agent_options is not None else None
        options = agent_options or DEFAULT_OPTIONS
        return await self._publish(session, options, parent_agent, setup, "resume", override)

    async def _publish(
        self,
        session: Session,
        options: AgentOptions,
        parent: Agent | None,
        setup: Setup | None,
        source: StartSource,
        override: CallConfig | None,
    ) -> AgentHandle:
        self._check_free(session.id)
        if parent is not None and self.get(parent.id) is not parent:
            raise MisuseError(f"parent agent {parent.id!r} is not live (O6)")
        life = self._prepare(session, options, parent, override)
        try:
            if setup is not None:
                commit = await setup(life.agent.scope, life.agent)
                if commit is not None:
                    commit()
            await trio.lowlevel.checkpoint_if_cancelled()
            self._check_free(session.id)
            if life.disposal is not None:
                raise MisuseError("the agent was disposed before its creation was complete (O1)")
            self._entries[session.id] = Entry(life, parent)
            await self._announce(life, source)
        except BaseException:
            with trio.CancelScope(shield=True):
                await life.dispose()
            raise
        driver_of(life.agent).feed(i.Unreserve())
        return AgentHandle(life)

    def _check_free(self, id: SessionId) -> None:
        if id in self._entries:
            raise DuplicateSession(f"an agent of session {id!r} is live already (O2); dispose it first")

    def _prepare(
        self, session: Session, options: AgentOptions, parent: Agent | None, override: CallConfig | None
    ) -> Life:
        kernel = Kernel(max_steps=options.max_steps_per_turn, pool=options.max_parallel_tool_calls, held=True)
        kernel.recorded = session.recorded
        if len(session):
            kernel.inbox, kernel.turn = restore(session.events)
        scope = Scope(session.id, self._host.scope)
        agent = Agent(session, options, scope, parent)
        driver = Driver(agent, self._host, session, kernel)
        if len(session):
            driver.requests = restore_requests(session.events, override)
        attach(agent, driver)
        session.driven = True
        session.listen(driver.publish_event)
        life = Life(self._host, agent, self._gone)
        self._lives[life] = None
        return life

    async def _announce(self, life: Life, source: StartSource) -> None:
        """Tell the created listeners, in order, then ``agent/session-start`` (O1, O18)."""
        agent, scope = life.agent, life.agent.scope
        driver = driver_of(agent)
        life.announced = self._entries[agent.id].announced = True
        life.settled = trio.Event()
        driver.creator = trio.lowlevel.current_task()
        try:
            listeners = scope.listeners(AGENT_CREATED)
            if listeners:
                await serial(listeners, AgentCreation(agent, source))
        finally:
            driver.creator = None
            life.settled.set()
        if life.disposal is None:
            listeners = scope.listeners(SESSION_START)
            if listeners:
                emit(listeners, SessionStarted(agent, source), driver.report_listener)
        if life.disposal is not None:
            raise MisuseError("the agent was disposed while its creation was announced (O1)")

    def _gone(self, life: Life) -> None:
        self._lives.pop(life, None)
        entry = self._entries.get(life.agent.id)
        if entry is not None and entry.life is life:
            del self._entries[life.agent.id]

    async def close(self) -> None:
        """Dispose every agent, keeping what is pending, and wait for the ends (O4)."""
        while self._lives:
            for disposal in [life.dispose(keep_inbox=True) for life in reversed(list(self._lives))]:
                try:
                    await disposal
                except BaseExceptionGroup as errors:
                    self._host.report(errors)


def restore(events: Iterable[Event]) -> tuple[Inbox, int]:
    """The pending lists and the last turn number of a log (I8, L4); pending entries are passive (I3).

    Raises:
        SessionCorrupt: the splices do not fold (I6).
    """
    inbox, turn = Inbox(), 0
    for entry in events:
        data = entry.data
        if type(data) is InboxSpliced:
            inbox.fold(data, entry.seq)
        elif type(data) is TurnStart:
            turn = max(turn, data.turn)
    return inbox, turn
