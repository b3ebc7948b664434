"""How agents of a world come to be: created and resumed, watched while it happens, stopped at any moment, or failing (O1, O13)."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, Literal

import msgspec
import trio

from treadle import Agent, AgentDisposed, AgentHandle, AgentOptions
from treadle.agent import message
from treadle.errors import DelegationLimit, DuplicateSession, MisuseError, SessionNotFound
from treadle.hooks import SESSION_EVENT, TURN_STOPPING
from treadle.session import Event, event

from ...exploration.violation import require
from ...logs.checker import check_events
from .acts import Extra
from .planned import Planned
from .revisions import NAMES
from .surroundings import Surroundings

Where = Literal["setup", "commit", "created", "orphan", "other"]
"""Where a creation fails: in setup, in what setup returned, in a listener of ``agent/created``, for want of a live parent;
or in the store, where a session is to be made that is there, or resumed that is not."""


MOST = 2
"""How many agents may live below a root (O6)."""


@event("machine/farewell")
class Farewell(msgspec.Struct, frozen=True, rename="camel"):
    """What a clean-up of an agent's scope records: the last event of its session."""

    of: str


class Births:
    """Creations of one world.

    Attributes:
        failing: by id, where the creation under way is to fail.
    """

    def __init__(self, world: Surroundings) -> None:
        self.world = world
        self.failing: dict[str, Where | None] = {}

    def announced(self, agent: Agent) -> None:
        """``agent/created`` is told; fails if that is planned."""
        self._fail(agent.id, "created")

    def _fail(self, id: str, where: Where) -> None:
        if self.failing.get(id) == where:
            raise Planned(where)

    # --- as it should go ----------------------------------------------------------------------------------------------

    async def create(
        self, id: str, *, parent: Any, preset: str | None, warning: float, pool: int, model: str, early: int = 0
    ) -> None:
        """Create an agent; ``early`` batches after its setup something is recorded in it, created or not."""
        host, revisions = self.world.host, self.world.revisions
        options = AgentOptions(
            "machine", model, convergence_warning=warning, max_parallel_tool_calls=pool, max_steps_per_turn=6
        )

        async def setup(scope: Any, agent: Agent) -> Any:
            if preset == "parent" and parent is not None:
                host.presets.compose_from(scope, parent.agent.scope)
                revisions.bound(agent, revisions.of.get(parent.agent))
            elif preset in NAMES:
                await host.presets.mount(scope, preset)
                revisions.bound(agent, revisions.current[preset])
            return self._set_up(scope, agent, early)

        below = self._below(parent) if parent is not None else 0
        try:
            handle = await host.agents.create(
                session_id=id,
                parent_agent=parent.agent if parent is not None else None,
                agent_options=options,
                setup=setup,
            )
        except DelegationLimit:
            require(below >= MOST, "O6", "{} live below the root of the parent of {}, and no more may", below, id)
            return
        require(below < MOST, "O6", "{} live below a root, and {} is made besides", below, id)
        self._entered(handle)

    def _below(self, parent: Any) -> int:
        """How many agents live below the root of one."""
        root = parent
        while root.parent is not None and not root.parent.witness.gone:
            root = root.parent
        return len([one for one in self.world.actors.values() if one in root.lineage()]) - 1

    async def resume(self, id: str, parent: Any = None) -> None:
        """Resume a session; its preset's present revision is bound."""
        host, revisions = self.world.host, self.world.revisions

        async def setup(scope: Any, agent: Agent) -> Any:
            name = host.presets.composed_preset(agent.scope)
            revisions.bound(agent, revisions.current[name] if name is not None else None)
            return self._set_up(scope, agent, 0)

        before = await self.world.store.inspect(id)
        handle = await host.agents.resume(id, setup=setup, parent_agent=parent.agent if parent is not None else None)
        self._entered(handle)
        self._resumed(handle, before)

    def _set_up(self, scope: Any, agent: Agent, early: int) -> Any:
        if early:
            self.world.host.spawn(partial(self._early, agent, early))
        self._fail(agent.id, "setup")
        tidied: list[str] = []
        scope.defer(partial(self._tidied, tidied, "first", 2))
        scope.defer(partial(self._tidied, tidied, "second", 1))
        scope.defer(partial(self._farewell, agent))
        return partial(self._fail, agent.id, "commit")

    async def _early(self, agent: Agent, ticks: int) -> None:
        """Something is handed to an agent that is not published yet: it belongs to its session all the same (O0, O13)."""
        for _ in range(ticks):
            await trio.lowlevel.checkpoint()
        with contextlib.suppress(AgentDisposed):
            agent.inject(message("early", id=self.world.name()))

    def _tidied(self, tidied: list[str], name: str, place: int) -> None:
        """Clean-ups run last to first (O5)."""
        tidied.append(name)
        with self.world.noting():
            require(len(tidied) == place, "O5", "the {} clean-up is number {}", name, len(tidied))

    def _farewell(self, agent: Agent) -> None:
        """A clean-up; what it records is stored as well (O4)."""
        if agent.id not in self.failing:
            agent.session.append(Farewell(agent.id))

    def _entered(self, handle: AgentHandle) -> None:
        actor = self.world.actors[handle.agent.id]
        actor.handle = handle
        self.overhear(handle.agent)

    def overhear(self, agent: Agent) -> None:
        """A listener of the agent's own, behind all others, that may be taken out again."""
        extra = Extra(self.world, len(agent.session))
        extra.disposers = [agent.hooks.on(SESSION_EVENT, extra), agent.hooks.on(TURN_STOPPING, extra)]
        self.world.extras.append(extra)

    def _resumed(self, handle: AgentHandle, before: Any) -> None:
        """What was stored is there again, its turn is closed, and nothing runs (P4, I8, N5)."""
        session = handle.agent.session
        stored = [entry.seq for entry in before.events]
        require([e.data for e in session.events[: len(stored)]] == [e.data for e in before.events], "P4",
                "{} resumes with other events than were stored", session.id)  # fmt: skip
        require(handle.recovery is not None, "P4", "a resumed agent says nothing of its recovery")
        past = self.world.past.get(session.id)
        if past is not None and past.events:
            closed = check_events(session.events, session.id, header=session.header)
            require(closed.sound, "P4", "{} is not sound after a resume: {}", session.id, closed.findings)
            clean = past.safe >= len(past.events)
            require(not clean or len(session) >= len(past.events), "P8", "{} lost events", session.id)

    # --- as it may go -------------------------------------------------------------------------------------------------

    async def fail(self, id: str, where: Where | None, orphan: Any, *, anew: bool) -> None:
        """A creation that fails there, or is cancelled: nothing of it stays, and the next one succeeds (O1, O13)."""
        self.failing[id] = where
        try:
            await self.attempt(id, orphan if where == "orphan" else None, anew=anew != (where == "other"))
        except (Planned, MisuseError, AgentDisposed, DelegationLimit, DuplicateSession, SessionNotFound) as error:
            planned = isinstance(error, Planned) and f"{error}" == where
            stored = isinstance(error, SessionNotFound if anew else DuplicateSession) == (where == "other")
            require(planned or (stored and where in ("orphan", "other")), "O1", "a creation that fails in {} raises {!r}", where,
                    error)  # fmt: skip
        else:
            require(False, "O1", "a creation that fails in {} succeeds", where)
        finally:
            del self.failing[id]
        await self.undone(id, anew=anew)

    async def attempt(self, id: str, parent: Any = None, *, anew: bool) -> None:
        """Create an agent on a new session, or resume one."""
        if anew:
            await self.create(id, parent=parent, preset=None, warning=5.0, pool=2, model="big")
        else:
            await self.resume(id, parent)

    async def undone(self, id: str, *, anew: bool) -> None:
        """Nobody is live under the id, nothing waits for it, and the store holds what it held."""
        world = self.world
        actor = world.actors.pop(id, None)
        if actor is not None:
            require(actor.witness.gone == actor.witness.created, "O15", "{} is gone {} times", id, actor.witness.gone)
            actor.disposing = True
        for agent in [one for one in world.revisions.of if one.id == id]:
            world.revisions.bound(agent, None)
        require(world.host.agents.get(id) is None, "O1", "{} is live, and its creation failed", id)
        try:
            left: Any = list((await world.store.inspect(id)).events)
        except SessionNotFound:
            left = None
        require((left is None) == anew, "O13", "a creation of {} that failed leaves {}", id, left)
        if not anew:
            self._left_as_it_was(id, left)

    def _left_as_it_was(self, id: str, left: list[Event]) -> None:
        """What was stored is there, and behind it at most what opening mended and what the clean-ups said (O4, O13, P4)."""
        past = self.world.past[id]
        known = [e.data for e in past.events]
        same = [e.data for e in left[: len(known)]] == known[: len(left)]
        require(same and len(left) >= past.safe, "O13", "{} lost events", id)
        added = [e.type for e in left[len(known) :] if not isinstance(e.data, Farewell)]
        require(not (past.closed and added), "P4", "a resume of {} that failed added {}", id, added)
        if len(left) > len(known):
            whole = past.safe >= len(known)
            past.events, past.closed = left, True
            past.safe = len(left) if whole and not self.world.failures else past.safe
