"""The loop's factory: makes agents that a ``Driver`` drives, each creation one transaction (O1, O2, O13)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

import trio

from ..agent.agent import Agent
from ..agent.creation import CreateOptions, ResumeOptions, Setup
from ..agent.ending import Ending
from ..agent.handle import AgentHandle
from ..agent.options import DEFAULT_OPTIONS
from ..checks import SessionChecks
from ..errors import AgentDisposed, DelegationLimit, NoFactory, NoStore, ParentCancelled, SessionLocked
from ..hooks.points import AGENT_CREATED, SESSION_START, StartSource
from ..hooks.reports import report_failure
from ..hooks.scope import Scope
from ..kernel import inputs as i
from ..kernel.kernel import Kernel
from ..leftovers import check_left, left_entered, standing, tidy
from ..session.log import Session, SessionHeader, new_header
from ..session.repair import end_of_log
from ..session.store import SessionWriter
from .convergence import Convergences
from .driver import Driver
from .durability import Reopened, begin, let_go, persist, remove, reopen, store_new
from .life import Life
from .request_state import restore_requests
from .services import Shared

if TYPE_CHECKING:
    from .surroundings import Surroundings


class LoopFactory:
    """Implements ``AgentFactory`` with the loop that ships."""

    def __init__(self, host: Surroundings) -> None:
        self._host = host
        self._shared = Shared(host, Convergences(host.spawn))
        self._lives: dict[Life, None] = {}
        self._closed = False

    # --- the interface ------------------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def create(self, options: CreateOptions) -> AgentHandle:
        """See ``AgentFactory.create``."""
        self._host.check_here()
        return await self._publish(await begin(self._header(options), tuple(options.seed)), options)

    @trio.lowlevel.enable_ki_protection
    async def resume(self, options: ResumeOptions) -> AgentHandle:
        """See ``AgentFactory.resume``."""
        self._host.check_here()
        store, agents = self._host.store, self._host.agents
        if store is None:
            raise NoStore(
                f"session {options.session_id!r} cannot be resumed: the host has no store (O13); make it with Host(store=…)"
            )
        agents.check_free(options.session_id)
        try:
            opened = await reopen(store, options.session_id)
        except SessionLocked:
            agents.check_free(options.session_id)
            raise
        try:
            return await self._publish(opened.session, options, opened)
        except BaseException:
            await let_go(opened.writer)
            raise

    def close(self) -> Awaitable[None]:
        """See ``AgentFactory.close``."""
        self._closed = True
        return self._ended([(life.agent, life.dispose(keep_inbox=True)) for life in reversed(list(self._lives))])

    async def _ended(self, endings: list[tuple[Agent, Ending]]) -> None:
        for agent, ending in endings:
            try:
                await ending
            except BaseExceptionGroup as errors:
                report_failure(agent, errors, "a clean-up")

    # --- one transaction (O1) -----------------------------------------------------------------------------------------

    def _header(self, options: CreateOptions) -> SessionHeader:
        fields = dict(options.meta)
        parent = options.parent_agent
        if parent is not None:
            above = parent.session.header.delegation_depth
            fields.setdefault("delegation_depth", above + 1)
        return new_header(options.session_id, fields.pop("cwd", None) or self._host.cwd, **fields)

    async def _publish(
        self, session: Session, options: CreateOptions | ResumeOptions, opened: Reopened | None = None
    ) -> AgentHandle:
        self._check(session, options.parent_agent)
        life = self._prepare(session, options, opened)
        if opened is not None:
            self._persist(life, opened.writer)
        if opened is None and self._asks_nobody(life, options.setup):
            await self._all_or_nothing(life, None, "startup")
        else:
            with trio.CancelScope() as scope:
                life.begin(scope)
                await self._all_or_nothing(life, options.setup, "startup" if opened is None else "resume")
            if scope.cancelled_caught:
                raise AgentDisposed(f"agent {session.id!r}: its owner ended while it was being created (O1)")
        life.driver.feed(i.Unreserve())
        return AgentHandle(life.agent, life.dispose, opened.recovery if opened is not None else None)

    def _asks_nobody(self, life: Life, setup: Setup | None) -> bool:
        """Whether the creation of a new agent runs no code but treadle's and never waits: nothing can come between then."""
        session, heard = life.agent.session, life.agent.scope.heard
        return (
            setup is None
            and self._host.store is None
            and not len(session)
            and session.header.agent_preset is None
            and not heard[AGENT_CREATED]
            and not heard[SESSION_START]
        )

    async def _all_or_nothing(self, life: Life, setup: Setup | None, source: StartSource) -> None:
        try:
            await self._complete(life, setup, source)
        except BaseException:
            life.created()
            with trio.CancelScope(shield=True):
                await life.dispose(keep_inbox=True).reached()
                if source == "startup" and life.write_path is not None and self._host.store is not None:
                    await remove(self._host.store, life.agent.session.id)
            raise
        life.created()

    def _check(self, session: Session, parent: Agent | None) -> None:
        if self._closed:
            raise NoFactory("the agent factory was unloaded (O14); set another one")
        self._host.agents.check_free(session.id)
        if parent is not None:
            self._host.agents.check_parent(parent)
            _check_going_on(parent)
        limit, depth = self._host.max_delegation_depth, session.header.delegation_depth
        if limit is not None and depth > limit:
            raise DelegationLimit(
                f"agent {session.id!r} would be {depth} levels below its root, and the host allows {limit} (O6): "
                "let an agent higher up do the work, or raise Host(max_delegation_depth=…)"
            )

    async def _complete(self, life: Life, setup: Setup | None, source: StartSource) -> None:
        """Setup, commit, entry, announcement: in this order, and nothing after a failure."""
        before = standing()
        try:
            await self._make(life, setup, source)
        except BaseException:
            await tidy(before)
            raise
        if left_entered(before):
            await check_left(before, "setup or a created listener")

    async def _make(self, life: Life, setup: Setup | None, source: StartSource) -> None:
        agent, agents = life.agent, self._host.agents
        commit = None
        if agent.session.header.agent_preset is not None or len(agent.session):
            await self._host.presets.prepare(agent)
        if setup is not None:
            commit = await setup(agent.scope, agent)
        if source == "startup" and self._host.store is not None:
            self._persist(life, await store_new(self._host.store, agent.session))
        if commit is not None:
            commit()
        await trio.lowlevel.checkpoint_if_cancelled()
        if agent.parent is not None:
            _check_going_on(agent.parent)
        if life.ending is None:
            life.detach = agents.enter(agent, agent.parent)
            await agents.announce(agent, source, life.signal)
        if life.ending is not None:
            raise AgentDisposed(f"agent {agent.id!r} was disposed while it was being created (O1)")

    def _persist(self, life: Life, writer: SessionWriter) -> None:
        life.write_path = persist(life.agent, writer, self._host.spawn, life.driver.outbox.report)

    def _prepare(self, session: Session, options: CreateOptions | ResumeOptions, opened: Reopened | None) -> Life:
        host, given = self._host, options.agent_options or DEFAULT_OPTIONS
        own = host.default_model.fill(given)
        kernel = Kernel(
            max_steps=own.max_steps_per_turn, pool=own.max_parallel_tool_calls, recorded=session.recorded, held=True
        )
        requests = None
        if len(session):
            end = opened.end if opened is not None else end_of_log(session.events)
            kernel.inbox, kernel.turn = end.inbox, end.turn
            explicit = given.config if opened is not None and options.agent_options is not None else None
            requests = restore_requests(end, explicit, opened.snapshots if opened is not None else None)
        scope = Scope(session.id, options.owner)
        agent = scope.subject = Agent(session, own, scope, options.parent_agent)
        agent.engine = driver = Driver(agent, self._shared, kernel, requests)
        session.driven = True
        if host.checks:
            session.checks = SessionChecks(session, opened.monitor if opened is not None else None)
        session.listen(driver.outbox.later)
        return Life(host, driver, options.owner, self._lives)


def _check_going_on(parent: Agent) -> None:
    """Raise where a parent's own code creates a child although it is being cancelled: nothing new starts then (O6)."""
    engine = getattr(parent, "engine", None)
    if isinstance(engine, Driver) and engine.stopping_own:
        raise ParentCancelled(
            f"agent {parent.id!r} was cancelled; its tools and hooks create no more children in that turn (O6)"
        )
