"""Breadth-first search over the states of kernel and model, so that the first counterexample is a shortest one."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import cast

from attrs import define, field, frozen

from treadle.kernel import inputs as i
from treadle.kernel.lifecycle import Stateful
from treadle.testing import TABLE, Lifecycle, Row, Trigger

from ..model.agent import CONVERGING, DISPOSING, GONE, IDLE
from .alphabet import CALLS, Alphabet
from .comparison import compare_readers
from .laws import check_state
from .liveness import Graph
from .lockstep import Key, Pair, beginning, follow, unchanged
from .teamwork import Harvest, Level, shared_out
from .violation import Violation

CLOCK_EVERY = 64
SHARED_FROM = 500
"""States from which on a level is shared out: a smaller one is expanded sooner than a process is made."""


class CountingLifecycle(Lifecycle):
    """A lifecycle that counts how often each row is taken."""

    def __init__(self, rows: Iterable[Row] = TABLE) -> None:
        super().__init__(rows)
        self.taken: dict[Row, int] = dict.fromkeys(self.rows, 0)

    def fire(self, model: Stateful, trigger: Trigger) -> Row:
        """Move along a row, and count it."""
        row = super().fire(model, trigger)
        self.taken[row] += 1
        return row


@frozen
class Counterexample:
    """A broken rule, and a shortest way to it from the empty agent that had these options."""

    rule: str
    message: str
    inputs: tuple[i.Input, ...]
    held: bool
    max_steps: int | None
    pool: int = 2


@define
class Findings:
    """What an exploration found.

    Attributes:
        name: the profile that was explored.
        states: distinct states, symmetric message ids merged.
        transitions: inputs tried, refused ones included.
        seconds: processor time, or real time where several processes shared the work.
        complete: whether every reachable state was visited.
        rows: how often each (state, trigger) row was taken.
        counterexample: the first broken rule.
    """

    name: str
    states: int = 0
    transitions: int = 0
    seconds: float = 0.0
    complete: bool = False
    rows: dict[tuple[str, str], int] = field(factory=dict[tuple[str, str], int])
    counterexample: Counterexample | None = None


class Search:
    """One exploration from the empty agent.

    Args:
        alphabet: what may happen.
        rows: the lifecycle table, verbs included.
        max_steps: the step limits to start from, ``None`` for no limit (T11).
        pools: how many parallel calls may run at once, to start from (K4).
        name: what the findings are called.
    """

    def __init__(
        self,
        alphabet: Alphabet,
        rows: Iterable[Row] = TABLE,
        *,
        max_steps: Iterable[int | None] = (None,),
        pools: Iterable[int] = (2,),
        name: str = "kernel",
    ) -> None:
        self.alphabet = alphabet
        self.lifecycle = CountingLifecycle(rows)
        self.findings = Findings(name)
        self.graph = Graph()
        self._starts = [(limit, pool, held) for limit in max_steps for pool in pools for held in (False, True)]
        self._index: dict[Key, int] = {}
        self._came: list[tuple[int, i.Input] | Pair] = []
        self._todo: Level = []
        self._at = 0
        self._given: i.Input | None = None

    def run(self, max_seconds: float | None = None, *, jobs: int = 1) -> Findings:
        """Explore until every state is visited, a rule is broken, or the time is over.

        Args:
            max_seconds: time after which the next level is not begun.
            jobs: processes among which large levels are shared out.
        """
        started, real = time.process_time(), time.perf_counter()
        findings = self.findings
        try:
            for limit, pool, held in self._starts:
                start = beginning(limit, pool, held=held, lifecycle=self.lifecycle)
                self._reach(start, start)
            while self._todo and (max_seconds is None or time.perf_counter() - real < max_seconds):
                self._level(jobs, None if max_seconds is None else real + max_seconds)
            findings.complete = not self._todo
            if findings.complete:
                self.graph.check()
        except Violation as broken:
            at = self._at if broken.at is None else broken.at
            findings.counterexample = self._way(at, None if broken.at is not None else self._given, broken)
        findings.states = len(self._came)
        findings.seconds = max(time.process_time() - started, time.perf_counter() - real if jobs > 1 else 0.0)
        findings.rows = {(row.source.name, row.trigger.name): taken for row, taken in self.lifecycle.taken.items()}
        return findings

    # --- one level ----------------------------------------------------------------------------------------------------

    def _level(self, jobs: int, deadline: float | None) -> None:
        """Expand every state of the frontier; what is new is the next frontier."""
        level, self._todo = self._todo, []
        if jobs > 1 and len(level) >= SHARED_FROM:
            nodes = dict(level)
            for harvest in shared_out(level, jobs, self._harvest):
                self._take(harvest, nodes)
            return
        for place, (at, pair) in enumerate(level):
            if deadline is not None and not place % CLOCK_EVERY and time.perf_counter() > deadline:
                self._todo = [*level[place:], *self._todo]
                return
            self._expand(at, pair)

    def _expand(self, at: int, pair: Pair) -> None:
        """Follow every input of one state."""
        given: i.Input | None = None
        inputs = list(self.alphabet.inputs(pair.model, reread=pair.reread))
        self.findings.transitions += len(inputs)
        try:
            for given in inputs:
                after = follow(pair, given)
                if after is not None:
                    to = self._reach(after, (at, given))
                    if to != at and type(given) not in CALLS:
                        self.graph.edge(at, to)
            given = None
            unchanged(pair)
        except Violation:
            self._at, self._given = at, given
            raise

    def _reach(self, pair: Pair, came: tuple[int, i.Input] | Pair) -> int:
        to = self._index.get(pair.key)
        if to is None:
            check_state(pair)
            compare_readers(pair.kernel, pair.model)
            to = self._index[pair.key] = len(self._came)
            self._came.append(came)
            self._todo.append((to, pair))
            state = pair.model.state
            self.graph.state(state in (IDLE, GONE), state in (CONVERGING, DISPOSING))
        return to

    def _harvest(self, part: Level) -> Harvest:
        """Expand a part of a level without keeping anything; runs in a process of its own."""
        found, fresh = Harvest(), dict[Key, int]()
        before = list(self.lifecycle.taken.values())
        at, given = 0, None
        try:
            for at, pair in part:
                for given in self.alphabet.inputs(pair.model, reread=pair.reread):
                    found.tried += 1
                    after = follow(pair, given)
                    if after is None:
                        continue
                    to = self._index.get(after.key)
                    if to is None:
                        to = -1 - fresh.setdefault(after.key, len(fresh))
                        if -to > len(found.fresh):
                            found.fresh.append((after.key, at, given))
                    if to != at and type(given) not in CALLS:
                        found.edges.append((at, to))
                unchanged(pair)
        except Violation as broken:
            found.broken = (broken, at, given)
        taken = self.lifecycle.taken.values()
        found.rows = [now - then for now, then in zip(taken, before, strict=True)]
        return found

    def _take(self, harvest: Harvest, nodes: dict[int, Pair]) -> None:
        """Enter into the book what a process found, and make the new states here."""
        self.findings.transitions += harvest.tried
        numbers: list[int] = []
        taken = dict(self.lifecycle.taken)
        for key, at, given in harvest.fresh:
            to = self._index.get(key)
            numbers.append(to if to is not None else self._reach(cast("Pair", follow(nodes[at], given)), (at, given)))
        for row, times in zip(taken, harvest.rows, strict=True):
            self.lifecycle.taken[row] = taken[row] + times
        for at, to in harvest.edges:
            self.graph.edge(at, to if to >= 0 else numbers[-1 - to])
        if harvest.broken is not None:
            broken, self._at, self._given = harvest.broken
            raise broken

    # --- counterexamples ----------------------------------------------------------------------------------------------

    def _way(self, at: int, last: i.Input | None, broken: Violation) -> Counterexample:
        inputs = [] if last is None else [last]
        while isinstance(came := self._came[at], tuple):
            at, given = came
            inputs.append(given)
        root = came
        start = root.model
        return Counterexample(
            broken.rule, broken.message, tuple(reversed(inputs)), start.held, start.max_steps, start.pool
        )
