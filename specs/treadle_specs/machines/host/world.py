"""A host with everything that belongs to it, watched from all sides; it ends in order, or is killed and opened anew."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import trio
from attrs import define

from treadle import (
    Agent,
    AgentOptions,
    Event,
    Host,
    ModelFailure,
    Retries,
    Signal,
    State,
    StoreFailure,
    subagent,
)
from treadle.errors import CompactionFailed, SessionLocked, TreadleError
from treadle.hooks import (
    AGENT_CREATED,
    AGENT_DISPOSED,
    AGENT_ERROR,
    AGENT_STATUS,
    ASSISTANT_STREAM,
    CANCEL_REQUESTED,
    INBOX_CLAIMED,
    SESSION_EVENT,
    SESSION_START,
    TOOLS_EXECUTE,
    TOOLS_POST_EXECUTE,
    TOOLS_PRE_EXECUTE,
    TOOLS_RESULT,
)

from ...exploration.violation import Violation, require
from ..bench import Bench
from .actor import Actor
from .acts import Acts, Extra
from .answers import Model
from .births import MOST, Births
from .compactions import Compactions
from .crew import Crew
from .planned import UNSEEN, Planned
from .revisions import NAMES, Revisions
from .storage import Storage
from .witness import Witness

T = TypeVar("T")
WARNED = "has been cancelled for"


@define(eq=False)
class Past:
    """What is known of a session that is not live.

    Attributes:
        events: its events.
        safe: how many of them nobody may lose.
        closed: whether its turn was ended in order, so that a resume has nothing to add.
    """

    events: list[Event]
    safe: int = 0
    closed: bool = True


class World:
    """One host on one storage, on a bench.

    Attributes:
        actors: the live agents, and those that are ending, by id.
        past: the sessions of the storage that were live here.
        broken: what was found inside code of the driver's, which would contain it.
        fired: how often a listener or hook has acted.
        depth: how many listeners are acting now.
        interrupts: how often a listener raised ``KeyboardInterrupt`` in a task of the host's.
        interrupted: the agents whose own task that was.
        braced: whether a listener's ``KeyboardInterrupt`` is awaited by the machine's own call.
    """

    def __init__(self, storage: Storage, bench: Bench, names: Iterator[str]) -> None:
        self.storage = storage
        self.bench = bench
        self.names = names
        self.actors: dict[str, Actor] = {}
        self.everyone: list[Actor] = []
        self.past: dict[str, Past] = {}
        self.broken: list[Violation] = []
        self.fired = self.depth = self.interrupts = self.failures = 0
        self.extras: list[Extra] = []
        self.interrupted: set[str] = set()
        self.braced = False
        self.crew = Crew(self)
        self.model = Model(self)
        self.revisions = Revisions(self)
        self.acts = Acts(self)
        self.compactions = Compactions(self)
        self.births = Births(self)
        self.leaving = False
        self.log = _Listening(self)
        self._leave = trio.Event()
        self.store = storage.store()
        self.host = Host(store=self.store, retries=Retries(lambda: 0.5), cwd="/work", approver=self.crew.approve,
                         max_live_children=MOST)  # fmt: skip
        self.over = False
        self._job = bench.stepper.start(self._live)
        bench.settle()

    async def _live(self) -> None:
        try:
            async with self.store, self.host:
                self._furnish()
                for name in NAMES:
                    await self.revisions.declare(name)
                await self._leave.wait()
        except KeyboardInterrupt:
            require(self.interrupts, "H5", "the host was interrupted, and nobody did")
        except BaseExceptionGroup as several:  # what could not be stored on the way out is told beside it
            interrupted, others = several.split(KeyboardInterrupt)
            if interrupted is None or (others is not None and others.split(StoreFailure)[1] is not None):
                raise
            require(self.interrupts, "H5", "the host was interrupted, and nobody did")
        finally:
            self.over = True

    def _furnish(self) -> None:
        host = self.host
        self.model.connect()
        for tool in self.crew.tools():
            host.tools.register(tool)
        host.tools.register(subagent("delegate", "a child", options=AgentOptions("machine", "big"), parallel=True))
        host.tools.guard(self.crew.guard)
        host.on(TOOLS_PRE_EXECUTE, self.crew.pre_execute)
        host.on(TOOLS_EXECUTE, self.crew.wrap)
        host.on(TOOLS_POST_EXECUTE, self.crew.post_execute)
        host.on(TOOLS_RESULT, self.crew.result_told)
        host.presets.component("brand", self.revisions.brand)
        on: Any = host.on
        self.compactions.furnish(host, on)
        on(AGENT_CREATED, self._created)
        watch = self._watch
        on(SESSION_START, watch(lambda seen, _: setattr(seen, "started", seen.started + 1)))
        on(SESSION_EVENT, watch(lambda seen, told: seen.event(told.event)))
        on(AGENT_STATUS, watch(lambda seen, told: seen.notice_status(told.status)))
        on(ASSISTANT_STREAM, watch(lambda seen, told: seen.frame(told.frame)))
        on(INBOX_CLAIMED, watch(lambda seen, _: setattr(seen, "told_claimed", seen.told_claimed + 1)))
        on(CANCEL_REQUESTED, watch(lambda seen, _: setattr(seen, "cancels", seen.cancels + 1)))
        on(AGENT_ERROR, watch(self._failed))
        on(AGENT_DISPOSED, watch(self._gone))
        self.acts.listen(on)

    # --- what is told -------------------------------------------------------------------------------------------------

    async def _created(self, told: Any) -> None:
        with self.noting():
            self._met(told.agent, len(told.agent.session)).witness.created += 1
        self.births.announced(told.agent)

    def _met(self, agent: Agent, heard: int) -> Actor:
        """What is known of an agent; from its first event or its creation on, whichever is told first."""
        known = self.actors.get(agent.id)
        if known is not None and known.agent is agent:
            return known
        require(known is None or known.witness.gone, "O2", "{} is created while it is live", agent.id)
        parent = self.actors.get(agent.parent.id) if agent.parent is not None else None
        made = Actor(self, agent, None, parent, Witness(self, agent, heard))
        made.witness.begin()
        self.actors[agent.id] = made
        self.everyone.append(made)
        return made

    def _watch(self, see: Callable[[Witness, Any], object]) -> Callable[[Any], None]:
        def listener(told: Any) -> None:
            with self.noting():
                event = getattr(told, "event", None)
                see(self._met(told.agent, event.seq if event is not None else len(told.agent.session)).witness, told)

        return listener

    def _failed(self, seen: Witness, told: Any) -> None:
        error: BaseException = told.error
        seen.errors.append(error)
        wanted = _wanted(error)
        limit = getattr(error, "code", None) == "STEP_LIMIT"
        shown = "".join(traceback.format_exception(error)) if not wanted else ""
        require(wanted or limit, "L8", "{} reports {!r}\n{}", seen.agent.id, error, shown)

    def _gone(self, seen: Witness, told: Any) -> None:
        actor = self.actors[told.agent.id]
        seen.gone += 1
        require(
            actor.disposing or actor.own_child or self.leaving or self.interrupts or actor.id in self.births.failing,
            "O4",
            "{} is gone unasked",
            actor.id,
        )
        require(
            not [one for one in actor.children if not one.witness.gone],
            "O6",
            "{} is gone before its children",
            actor.id,
        )
        actor.disposing = True

    # --- for others ---------------------------------------------------------------------------------------------------

    @property
    def ending(self) -> bool:
        """Whether the host has ended, or will: it was interrupted."""
        return self.over or self.interrupts > 0

    @property
    def telling(self) -> bool:
        """Whether a listener is acting now."""
        return self.depth > 0

    def name(self) -> str:
        """A message id that was not used before."""
        return next(self.names)

    def actor_of(self, agent: Agent) -> Actor:
        """What is known of an agent."""
        return self.actors[agent.id]

    def live(self) -> list[Actor]:
        """The agents that were not disposed."""
        return [one for one in self.actors.values() if not one.disposing]

    @contextmanager
    def noting(self, actor: Actor | None = None) -> Generator[None]:
        """Keep what is found: code of the driver's contains whatever its listeners raise."""
        try:
            if actor is not None:
                actor.refresh()
            yield
            if actor is not None:
                actor.refresh()
        except Violation as found:
            self.broken.append(found)
        except Exception as error:
            self.broken.append(Violation("L8", f"unexpected: {error!r}\n{''.join(traceback.format_exception(error))}"))

    def errand(self, actor: Actor, how: str, seconds: float) -> Callable[[Signal], Awaitable[str]]:
        """A maintenance task."""

        async def run(_signal: Signal) -> str:
            try:
                if how == "shield":
                    with trio.CancelScope(shield=True):
                        await trio.sleep(seconds)
                else:
                    await trio.sleep(seconds)
                if how == "unseen":
                    actor.unseen += 1
                    raise Planned(UNSEEN)
                if how == "raise":
                    raise Planned("a task")
                return "done"
            finally:
                if actor.agent.state in (State.CANCEL_CONVERGENCE, State.DISPOSAL):
                    actor.errand_ended = self.bench.now

        return run

    # --- the end ------------------------------------------------------------------------------------------------------

    def log_warnings(self) -> dict[str, list[float]]:
        """When the convergence of each agent was warned of."""
        return self.log.warned

    def leave(self) -> None:
        """Leave the host: every agent ends in order, and nothing is left (O4, N7)."""
        self.leaving = True
        for actor in list(self.actors.values()):
            with self.noting():
                actor.doomed()
        self._leave.set()
        for _ in range(40):
            self.bench.settle()
            if self._job.done:
                break
            self.bench.advance(5.0)
        require(self._job.done, "N7", "the host does not end\n{}", self.bench.dump())
        try:
            self._job.result()
        except (TreadleError, BaseExceptionGroup) as error:
            require(self.storage.mood == "full" or self.failures, "N7", "leaving the host raised {!r}", error)
        self.log.end()

    def settle_warnings(self) -> None:
        """Every long convergence was warned of once, in time, and no other (C10)."""
        due: dict[str, list[tuple[float, bool]]] = {}
        known: dict[str, bool] = {}
        for actor in self.everyone:
            due.setdefault(actor.id, []).extend(actor.due_warnings)
            known[actor.id] = known.get(actor.id, True) and not actor.own_child
        for name, whole in known.items():
            if not whole:
                continue
            told = self.log.warned.get(name, [])
            for at, must in due[name]:
                near = [one for one in told if abs(one - at) < 1e-6]
                require(
                    near or not must, "C10", "{} converged beyond {} s, and no warning was logged: {}", name, at, told
                )
                require(len(near) <= 1, "C10", "{} was warned of {} times", name, len(near))
            for at in told:
                require(
                    [one for one, _ in due[name] if abs(one - at) < 1e-6],
                    "C10",
                    "a warning of {} at {}: {}",
                    name,
                    at,
                    due[name],
                )


class _Listening(logging.Handler):
    """Hears what treadle logs: warnings about convergence, with the moment."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self.world = world
        self.warned: dict[str, list[float]] = {}
        self.logger = logging.getLogger("treadle")
        self.before = self.logger.propagate
        self.logger.addHandler(self)
        self.logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Note a warning."""
        if WARNED in str(record.msg) and record.args:
            name = str(record.args[0])  # type: ignore[index]  # a tuple, as it is logged
            self.warned.setdefault(name, []).append(self.world.bench.now)

    def end(self) -> None:
        """Hear no more."""
        self.logger.removeHandler(self)
        self.logger.propagate = self.before


def _wanted(error: BaseException) -> bool:
    """Whether it comes of what was drawn, also where several are told together: by clean-ups, or beside an interrupt."""
    if isinstance(error, BaseExceptionGroup):
        wanted = [_wanted(inner) for inner in error.exceptions]  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType, reportUnknownVariableType]
        return all(wanted) or error.subgroup(KeyboardInterrupt) is not None  # pyright: ignore[reportUnknownMemberType]
    return isinstance(error, (Planned, ModelFailure, CompactionFailed, StoreFailure, SessionLocked, KeyboardInterrupt))
