"""A model of the database: the rows that replicas look at and change, and what that takes."""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import trio
from attrs import define, field

from treadle import StoreFailure

from ..stores.postgres import Connection, Link
from .costs import SPREAD, STATEMENTS, Statement

T = TypeVar("T")
Row = tuple[Any, ...]
WAY = 0.00003
"""Seconds from a replica to the server."""


@define
class Peer:
    """A row of the table of replicas."""

    id: str
    lease: float
    beat: int = 0
    dead: bool = False
    row: Row = ()

    def __attrs_post_init__(self) -> None:
        self.row = (self.id, self.beat, self.lease)


@define(eq=False)
class Database:
    """What is stored, and who waits for a processor of the server.

    Statements get a processor in the order of asking, and are answered after what they wait beside. Nothing is answered
    while the server is stalled. What a statement does it does when it is asked, so that order is kept as well.

    Attributes:
        processors: how many the server has for these statements; what else the sessions write is not counted here.
        replicas: by id.
        sessions: of each owner, those that it owns.
        asked: how often each statement was sent.
        used: seconds of processors that each took.
        epoch: the newest that was given out.
        claimed: when sessions were claimed, and how many.
        stalled_until: until when nobody is answered.
    """

    processors: int
    replicas: dict[str, Peer] = field(factory=dict[str, Peer])
    sessions: dict[str, list[int]] = field(factory=dict[str, list[int]])
    asked: Counter[str] = field(factory=Counter[str])
    used: defaultdict[str, float] = field(factory=lambda: defaultdict[str, float](float))
    epoch: int = 0
    claimed: list[tuple[float, int]] = field(factory=list[tuple[float, int]])
    stalled_until: float = -math.inf
    _free: list[float] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._free = [0.0] * self.processors

    async def run(self, chance: random.Random, patience: float, function: Callable[..., T], *args: Any) -> T:
        """Send a function of statements, as ``Link.run`` does.

        Raises:
            StoreFailure: the server would answer later than is waited for; nothing was done.
        """
        await trio.sleep(WAY * chance.uniform(0.5, 1.5))  # so that no two arrive in the same instant
        now = trio.current_time()
        begins = max(now, self._free[0], self._awake(now, chance))
        if begins - now > patience:
            await trio.sleep(patience)
            raise StoreFailure(f"no answer within {patience:g} s")
        said = _Said(self)
        answer = function(cast("Connection", said), *args)
        held = said.processor * chance.lognormvariate(0, SPREAD)
        heapq.heapreplace(self._free, begins + held)
        for name, seconds in said.each.items():
            self.asked[name] += 1
            self.used[name] += held * seconds / said.processor
        await trio.sleep_until(begins + held + said.waits * chance.lognormvariate(0, SPREAD))
        now = trio.current_time()
        if self.stalled_until > now:
            await trio.sleep_until(self._awake(now, chance))
        return answer

    def _awake(self, now: float, chance: random.Random) -> float:
        """When the server says something again: not to all in the same instant."""
        return self.stalled_until + chance.uniform(0, 0.05) if self.stalled_until > now else now

    def stall(self, seconds: float) -> None:
        """Answer nobody for so long."""
        self.stalled_until = trio.current_time() + seconds


class _Answer(list[Row]):
    """Rows, as a cursor gives them."""

    def fetchone(self) -> Row | None:
        return self[0] if self else None

    def fetchall(self) -> list[Row]:
        return self


@define(eq=False)
class _Said:
    """A connection in the hands of a function: does what is asked, and sums up what it costs."""

    database: Database
    processor: float = 0.0
    waits: float = 0.0
    each: dict[str, float] = field(factory=dict[str, float])

    def execute(self, text: str, params: Any = (), **_: Any) -> _Answer:
        statement = _known(text)
        rows = _Answer(_DOES[statement.name](self.database, params))
        processor, waits = statement.seconds(len(rows))
        self.processor += processor
        self.waits += waits
        self.each[statement.name] = self.each.get(statement.name, 0.0) + processor
        return rows


_KNOWN: dict[str, Statement] = {}


def _known(text: str) -> Statement:
    found = _KNOWN.get(text)
    if found is None:
        plain = " ".join(text.split())
        fitting = [each for each in STATEMENTS if plain.startswith(each.begins)]
        if not fitting:
            raise AssertionError(
                f"the model of the database knows no such statement; give it a row in costs.py: {plain}"
            )
        found = _KNOWN[text] = fitting[0]
    return found


# --- what each statement does -----------------------------------------------------------------------------------------


def _enter(database: Database, params: Any) -> Iterator[Row]:
    me, lease = params
    database.replicas.setdefault(me, Peer(me, lease))
    yield from ()


def _beat(database: Database, params: Any) -> Iterator[Row]:
    peer = database.replicas.get(params[0])
    if peer is not None and not peer.dead:
        peer.beat += 1
        peer.row = (peer.id, peer.beat, peer.lease)
        yield (1,)


def _seen(database: Database, _: Any) -> Iterator[Row]:
    return iter([peer.row for peer in database.replicas.values() if not peer.dead])


def _bury(database: Database, params: Any) -> Iterator[Row]:
    peer = database.replicas.get(params[0])
    if peer is not None and peer.beat == params[1]:
        peer.dead = True
    yield from ()


def _is_dead(database: Database, params: Any) -> Iterator[Row]:
    peer = database.replicas.get(params[0])
    if peer is not None:
        yield (peer.dead,)


def _leave(database: Database, params: Any) -> Iterator[Row]:
    peer = database.replicas.get(params[0])
    if peer is not None:
        peer.dead = True
    yield from ()


def _forget(database: Database, _: Any) -> Iterator[Row]:
    gone = [name for name, peer in database.replicas.items() if peer.dead and not database.sessions.get(name)]
    for name in gone:
        del database.replicas[name]
        database.sessions.pop(name, None)
        yield (name,)


def _left_behind(database: Database, _: Any) -> Iterator[Row]:
    for name in sorted(name for name, peer in database.replicas.items() if peer.dead):
        yield (name,)


def _claim(database: Database, params: Any) -> Iterator[Row]:
    me, dead = params["me"], params["dead"]
    mine, theirs = database.replicas.get(me), database.replicas.get(dead)
    if mine is None or mine.dead or theirs is None or not theirs.dead:
        return
    left = database.sessions.get(dead, [])
    taken = left[-params["count"] :]
    del left[-params["count"] :]
    database.sessions.setdefault(me, []).extend(taken)
    if taken:
        database.claimed.append((trio.current_time(), len(taken)))
    for session in taken:
        database.epoch += 1
        yield str(session), database.epoch


def _nothing(_: Database, __: Any) -> Iterator[Row]:
    yield from ()


_DOES: dict[str, Callable[[Database, Any], Iterator[Row]]] = {
    "enter a replica": _enter,
    "beat": _beat,
    "look at all beats": _seen,
    "bury": _bury,
    "is it buried?": _is_dead,
    "leave": _leave,
    "forget who owns nothing": _forget,
    "who has left sessions behind?": _left_behind,
    "claim": _claim,
    "let go of a session": _nothing,
    "look for letters": _nothing,
    "look for letters to nobody's sessions": _nothing,
    "open a session": _nothing,
    "write an event": _nothing,
}


# --- connections ------------------------------------------------------------------------------------------------------


class ModelLink(Link):
    """A connection to the model: one statement at a time, given up after its patience as the real one is."""

    def __init__(self, database: Database, chance: random.Random, patience: float) -> None:  # no server is reached
        self.database = database
        self.chance = chance
        self.patience = patience
        self.cut = False
        self.took: list[float] = []
        self._one = trio.Lock()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """See ``Link``.

        Raises:
            StoreFailure: there was no answer in time, or the replica is dead.
        """
        began = trio.current_time()
        async with self._one:
            if self.cut:
                raise StoreFailure("the replica is dead")
            answer = await self.database.run(self.chance, self.patience + 1, function, *args)
            self.took.append(trio.current_time() - began)
            return answer

    async def close(self) -> None:
        """See ``Link``."""
        await trio.lowlevel.checkpoint()
