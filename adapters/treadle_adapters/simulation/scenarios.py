"""What befalls a fleet, and the figures of each."""

from __future__ import annotations

import trio
from attrs import evolve, frozen

from .fleet import Fleet, Plan, simulated

RACK = 25
"""One of so many replicas dies with a rack; at least one."""
AT_ONCE = 20
"""One of so many is replaced at once in a deploy; at least one."""
WATCHED = 1
"""Waves of a deploy that are simulated: the others are like them."""
LEASES = 1
"""How many leases a quiet fleet is watched."""


@frozen
class Steady:
    """A fleet to which nothing happens.

    Attributes:
        statements: a second.
        load: part of the server's processors that they take.
        beat_p99: seconds; of a hundred beats, one takes as long.
        lost: replicas that lost their lease.
    """

    statements: float
    load: float
    beat_p99: float
    lost: int


def steady(plan: Plan) -> Steady:
    """Watch a quiet fleet."""

    async def scenario(fleet: Fleet) -> Steady:
        watch = _Watch(fleet)
        await trio.sleep(LEASES * plan.lease)
        return Steady(watch.statements, watch.load, watch.beat_p99, fleet.lost)

    return simulated(plan, scenario)


@frozen
class Rack:
    """A rack's death.

    Attributes:
        died: replicas.
        sessions: that had been theirs.
        found: seconds until the first of them was claimed.
        claims: sessions claimed in a second, from the first claim to the last.
        median: seconds until a session went on, of half of them.
        recovered: seconds until the last one did.
        most: how many times the mean the replica got that got most.
        statements: sent for each session that was claimed, beats and looks included.
        load: part of the server's processors that was taken meanwhile.
        beat_p99: seconds, meanwhile.
        lost: other replicas that lost their lease.
    """

    died: int
    sessions: int
    found: float
    claims: float
    median: float
    recovered: float
    most: float
    statements: float
    load: float
    beat_p99: float
    lost: int


def rack(plan: Plan) -> Rack:
    """Have a rack die."""

    async def scenario(fleet: Fleet) -> Rack:
        dying = sorted(fleet.living)[: max(1, plan.replicas // RACK)]
        began = trio.current_time()
        watch = _Watch(fleet)
        for name in dying:
            fleet.kill(name)
        await fleet.all_resumed()
        return _recovery(fleet, watch, began, len(dying))

    return simulated(plan, scenario)


def _recovery(fleet: Fleet, watch: _Watch, began: float, died: int) -> Rack:
    waited = sorted(fleet.waited)
    claimed = fleet.database.claimed
    got = [life.replica.resumed for life in fleet.living.values()]
    span = claimed[-1][0] - claimed[0][0]
    return Rack(
        died=died,
        sessions=len(waited),
        found=claimed[0][0] - began,
        claims=len(waited) / span if span else float(len(waited)),
        median=_share(waited, 0.5),
        recovered=waited[-1],
        most=max(got) / (sum(got) / len(got)),
        statements=watch.sent / len(waited),
        load=watch.load,
        beat_p99=watch.beat_p99,
        lost=fleet.lost,
    )


@frozen
class Deploy:
    """A rolling deploy: some at once begin, as many leave, until all are new.

    Attributes:
        waves: how many there are; the first ones were watched.
        seconds: of a wave, from the start of the new ones until every session goes on.
        median: seconds without an owner, of half of the sessions that moved.
        longest: seconds without an owner, at most.
        lost: replicas that lost their lease.
    """

    waves: int
    seconds: float
    median: float
    longest: float
    lost: int


def deploy(plan: Plan) -> Deploy:
    """Replace replicas, wave by wave; as many waves are watched as ``WATCHED`` says."""

    async def scenario(fleet: Fleet) -> Deploy:
        at_once = max(1, plan.replicas // AT_ONCE)
        waves = -(-plan.replicas // at_once)
        watched = min(waves, WATCHED)
        began = trio.current_time()
        for _ in range(watched):
            leaving = sorted(fleet.living)[:at_once]
            for _ in leaving:
                fleet.start(plan.restart)
            await trio.sleep(plan.restart + 1)
            for name in leaving:
                fleet.living[name].leave.set()
                await trio.sleep(1 / at_once)
            await fleet.all_resumed()
        waited = sorted(fleet.waited)
        seconds = (trio.current_time() - began) / watched
        return Deploy(waves, seconds, _share(waited, 0.5), waited[-1], fleet.lost)

    return simulated(plan, scenario)


@frozen
class Stall:
    """A database that answers nobody for a while.

    Attributes:
        lost: replicas that lost their lease.
        recovered: seconds from the end of the stall until every session goes on.
        most: see ``Rack``.
    """

    lost: int
    recovered: float
    most: float


def stall(plan: Plan, seconds: float) -> Stall:
    """Have the database stand still."""

    async def scenario(fleet: Fleet) -> Stall:
        fleet.database.stall(seconds)
        await trio.sleep(seconds + plan.lease)
        ended = trio.current_time() - plan.lease
        if not fleet.lost:
            return Stall(0, 0.0, 1.0)
        await fleet.all_resumed()
        got = [life.replica.resumed for life in fleet.living.values()]
        return Stall(fleet.lost, max(0.0, fleet.last - ended), max(got) / (sum(got) / len(got)))

    return simulated(plan, scenario)


def longest_stall(plan: Plan, step: float = 0.05) -> float:
    """Seconds that the database may stand still without a replica losing its lease, to a part of a lease."""
    few = evolve(plan, sessions=1)
    borne = 0.0
    while not stall(few, borne + step * plan.lease).lost:
        borne += step * plan.lease
    return borne


class _Watch:
    """What the database is asked from now on."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._since = fleet, trio.current_time()
        fleet.database.asked.clear()
        fleet.database.used.clear()
        for life in fleet.living.values():
            life.replica.heart.took.clear()

    @property
    def sent(self) -> int:
        return sum(self._fleet.database.asked.values())

    @property
    def statements(self) -> float:
        return self.sent / (trio.current_time() - self._since)

    @property
    def load(self) -> float:
        seconds = (trio.current_time() - self._since) * self._fleet.plan.processors
        return sum(self._fleet.database.used.values()) / seconds

    @property
    def beat_p99(self) -> float:
        took = [each for life in self._fleet.living.values() for each in life.replica.heart.took]
        return _share(sorted(took), 0.99)


def _share(values: list[float], share: float) -> float:
    """The value below which that share of sorted values lies."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0
