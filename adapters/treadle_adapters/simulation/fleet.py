"""A fleet: replicas that run, die, leave and begin again, on one model of the database."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, LiteralString, TypeVar

import trio
from attrs import define, field, frozen
from trio.testing import MockClock

from treadle import Host
from treadle.errors import LeaseLost

from ..cluster import BEATS, LEASE, Replica
from ..cluster.mailbox import Carrier, Post
from ..stores.postgres import Connection, Link
from .costs import RESUMING
from .database import Database, ModelLink

T = TypeVar("T")


@frozen
class Plan:
    """What is simulated.

    Attributes:
        replicas: how many there are.
        sessions: how many each owns in the beginning.
        lease: seconds.
        processors: how many of the server's are left for these statements.
        restart: seconds until another replica stands where one ended.
        seed: what all chance is drawn from.
    """

    replicas: int
    sessions: int = 1_000
    lease: float = LEASE
    processors: int = 2
    restart: float = 5.0
    seed: int = 1


def _say(conn: Connection, statement: LiteralString) -> None:
    conn.execute(statement)


class _Deaf(Post):
    """Hears nothing, so that its replica looks for letters by itself, each second."""

    async def run(self) -> None:
        """Sleep."""
        await trio.sleep_forever()


class ModelReplica(Replica):
    """The shipped replica, connected to the model."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.fleet = fleet
        self._name = name
        self.links: list[ModelLink] = []
        self.resumed = 0
        super().__init__("postgres://model/model", lease=fleet.plan.lease, resume=self.go_on)
        self.lease.owner = name
        self.lease.clock = trio.current_time
        self.post = _Deaf(self.store, name)
        self._carrier = Carrier(self.store, self.lease, self.post, self._bounded())
        self._carrier.host = Host()
        self._resume_by(self.go_on)
        self._control = self._bounded()
        self._processor = trio.Lock()
        self._pace = self._drawn()

    def _drawn(self) -> random.Random:
        """Chance for one purpose: what else happens in the same instant takes nothing from it."""
        return random.Random(f"{self.fleet.plan.seed} {self._name} {len(self.links)}")  # noqa: S311 (no secret)

    def _bounded(self) -> ModelLink:
        link = ModelLink(self.fleet.database, self._drawn(), self.fleet.plan.lease / BEATS)
        self.links.append(link)
        return link

    @property
    def heart(self) -> ModelLink:
        """The connection on which it beats."""
        assert isinstance(self._heart, ModelLink)
        return self._heart

    async def _ask(self, link: Link, function: Callable[..., T], *args: Any) -> T:
        return await link.run(function, *args)

    async def go_on(self, session_id: str) -> None:
        """Resume one session: it is opened and read, made ready, and says so in its log."""
        await self._control.run(_say, "open")
        async with self._processor:
            await trio.sleep(RESUMING * self._pace.uniform(0.5, 1.5))
        await self._control.run(_say, "append")
        self.resumed += 1
        self.fleet.resumed(session_id)


@define(eq=False)
class Life:
    """One replica while it runs.

    Attributes:
        replica: it.
        scope: ends it as a crash does.
        leave: set to have it leave in order.
    """

    replica: ModelReplica
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    leave: trio.Event = field(factory=trio.Event)


@define(eq=False)
class Fleet:
    """Replicas on one database, and what became of their sessions.

    Attributes:
        plan: what is simulated.
        nursery: where the replicas run.
        living: those that run, by id.
        lost: how many have lost their leases.
        last: when a session was resumed last.
        waited: of each session that was resumed, seconds since it had an owner that lived.
    """

    plan: Plan
    nursery: trio.Nursery
    database: Database = field(init=False)
    living: dict[str, Life] = field(factory=dict[str, Life])
    lost: int = 0
    last: float = 0.0
    waited: list[float] = field(factory=list[float])
    _since: dict[str, float] = field(factory=dict[str, float])
    _all_resumed: trio.Event = field(factory=trio.Event)
    _chance: random.Random = field(init=False)
    _born: int = 0

    def __attrs_post_init__(self) -> None:
        self.database = Database(self.plan.processors)
        self._chance = random.Random(self.plan.seed)  # noqa: S311 (no secret)

    async def begin(self) -> None:
        """Start as many as are planned, with their sessions, and let a lease pass: all know each other then."""
        for number in range(self.plan.replicas):
            name = self.start(self._chance.random())
            first = number * self.plan.sessions
            self.database.sessions[name] = list(range(first, first + self.plan.sessions))
        await trio.sleep(self.plan.lease + 1)

    def start(self, after: float) -> str:
        """Start another one in some seconds; returns its id."""
        self._born += 1
        name = f"replica-{self._born:05}"
        self.nursery.start_soon(self._live, name, after)
        return name

    async def _live(self, name: str, after: float) -> None:
        await trio.sleep(after)
        life = Life(ModelReplica(self, name))
        try:
            with life.scope:
                async with life.replica:
                    self.living[name] = life
                    await life.leave.wait()
                    self._homeless(name)
        except LeaseLost:
            self.lost += 1
            self._homeless(name)
            self.start(self.plan.restart * self._chance.uniform(0.8, 1.2))
        finally:
            del self.living[name]

    def kill(self, name: str) -> None:
        """End one as a crash does: it says nothing more."""
        life = self.living[name]
        for link in life.replica.links:
            link.cut = True
        self._homeless(name)
        life.scope.cancel()

    def _homeless(self, name: str) -> None:
        now = trio.current_time()
        for session in self.database.sessions.get(name, ()):
            self._since.setdefault(str(session), now)

    def resumed(self, session_id: str) -> None:
        """Note that a session goes on."""
        since = self._since.pop(session_id, None)
        if since is not None:
            self.last = trio.current_time()
            self.waited.append(self.last - since)
        if not self._since:
            self._all_resumed.set()

    async def all_resumed(self) -> None:
        """Wait until every session has an owner that lives and goes on with it."""
        while self._since:
            self._all_resumed = trio.Event()
            await self._all_resumed.wait()


def simulated(plan: Plan, scenario: Callable[[Fleet], Awaitable[T]]) -> T:
    """Run a scenario on a fleet, on virtual time; what chance there is comes from the plan's seed."""

    async def run() -> T:
        async with trio.open_nursery() as nursery:
            fleet = Fleet(plan, nursery)
            await fleet.begin()
            found = await scenario(fleet)
            for life in fleet.living.values():
                for link in life.replica.links:
                    link.cut = True
            nursery.cancel_scope.cancel()
        return found

    log = logging.getLogger("treadle")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        return trio.run(run, clock=MockClock(autojump_threshold=0))
    finally:
        log.setLevel(level)
