"""Breadth-first search over the kernel's states, so that the first counterexample is a shortest one."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import cast

from attrs import define, field, frozen

from treadle import State, TreadleError
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel
from treadle.kernel.lifecycle import DISPOSED, IDLE, Stateful
from treadle.testing import TABLE, Lifecycle, Row, Trigger

from .alphabet import CALLS, Alphabet
from .fold import Fold
from .laws import CONVERGING, check_commit
from .liveness import Graph
from .node import ASKED, ATTEMPTED, NO_REQUEST, PREPARED, Key, Node, View, canonical
from .refusals import check_refusal
from .teamwork import Harvest, Level, shared_out
from .violation import Violation, require

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
    """A broken rule, and a shortest way to it from the empty agent."""

    rule: str
    message: str
    inputs: tuple[i.Input, ...]
    held: bool
    max_steps: int | None


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
        name: what the findings are called.
    """

    def __init__(
        self,
        alphabet: Alphabet,
        rows: Iterable[Row] = TABLE,
        *,
        max_steps: Iterable[int | None] = (None,),
        name: str = "kernel",
    ) -> None:
        self.alphabet = alphabet
        self.lifecycle = CountingLifecycle(rows)
        self.findings = Findings(name)
        self.graph = Graph()
        self._limits = tuple(max_steps)
        self._index: dict[Key, int] = {}
        self._came: list[tuple[int, i.Input] | Kernel] = []
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
            for limit in self._limits:
                for held in (False, True):
                    kernel = Kernel(max_steps=limit, pool=2, lifecycle=self.lifecycle, held=held)
                    self._reach(Node(kernel), kernel)
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
        for place, (at, node) in enumerate(level):
            if deadline is not None and not place % CLOCK_EVERY and time.perf_counter() > deadline:
                self._todo = [*level[place:], *self._todo]
                return
            for given in self.alphabet.inputs(node):
                self._at, self._given = at, given
                self.findings.transitions += 1
                after = follow(node, given)
                if after is not None:
                    to = self._reach(after, (at, given))
                    if type(given) not in CALLS:
                        self.graph.edge(at, to)

    def _reach(self, node: Node, came: tuple[int, i.Input] | Kernel) -> int:
        to = self._index.get(node.key)
        if to is None:
            to = self._index[node.key] = len(self._came)
            self._came.append(came)
            self._todo.append((to, node))
            self.graph.state(_settled(node.kernel.state), node.kernel.state in CONVERGING)
        return to

    def _harvest(self, part: Level) -> Harvest:
        """Expand a part of a level without keeping anything; runs in a process of its own."""
        found, fresh = Harvest(), dict[Key, int]()
        before = list(self.lifecycle.taken.values())
        at, given = 0, None
        try:
            for at, node in part:
                for given in self.alphabet.inputs(node):
                    found.tried += 1
                    after = follow(node, given)
                    if after is None:
                        continue
                    to = self._index.get(after.key)
                    if to is None:
                        to = -1 - fresh.setdefault(after.key, len(fresh))
                        if -to > len(found.fresh):
                            found.fresh.append((after.key, at, given))
                    if type(given) not in CALLS:
                        found.edges.append((at, to))
        except Violation as broken:
            found.broken = (broken, at, given)
        taken = self.lifecycle.taken.values()
        found.rows = [now - then for now, then in zip(taken, before, strict=True)]
        return found

    def _take(self, harvest: Harvest, nodes: dict[int, Node]) -> None:
        """Enter into the book what a process found, and make the new states here."""
        self.findings.transitions += harvest.tried
        numbers: list[int] = []
        taken = dict(self.lifecycle.taken)
        for key, at, given in harvest.fresh:
            to = self._index.get(key)
            numbers.append(to if to is not None else self._reach(cast("Node", follow(nodes[at], given)), (at, given)))
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
        return Counterexample(broken.rule, broken.message, tuple(reversed(inputs)), root.held, root.max_steps)


def follow(node: Node, given: i.Input) -> Node | None:
    """Feed one input, check everything, and return the state it leads to; ``None`` when it was rightly refused.

    Raises:
        Violation: a rule is broken.
    """
    before = node.kernel
    kernel = before.copy()
    error: Exception | None = None
    effects: tuple[fx.Effect, ...] = ()
    try:
        effects = kernel.receive(given)
    except TreadleError as refused:
        error = refused.with_traceback(None)  # a refusal that held its frames would hold the kernel
    except Exception as raised:
        error = raised
    check_refusal(node, given, error)
    if error is not None:
        require(canonical(kernel, node.reread, node.phase) == node.key, "L9", "a refused call changes something")
        return None
    fold, view = check_commit(before, node.view, given, effects, kernel, reread=node.reread)
    forget(kernel, fold, view)
    reread = fold.reread or (node.reread and type(given) is not i.Replayed)
    return Node(kernel, reread, _phase(node.phase, given, kernel, fold), view)


def _settled(state: State) -> bool:
    return state is IDLE or state is DISPOSED


def _phase(phase: int, given: i.Input, kernel: Kernel, fold: Fold) -> int:
    """How far the request is; one that is prepared under a cancel is never made (C9)."""
    if not isinstance(kernel.owed, fx.Request):
        return NO_REQUEST
    if fold.begun:
        return ASKED
    if isinstance(given, i.Prepared):
        return PREPARED if kernel.cause is None else NO_REQUEST
    return ATTEMPTED if isinstance(given, i.AttemptRecorded) else phase


def forget(kernel: Kernel, fold: Fold, view: View) -> None:
    """Check which ids are taken (I1), then let those that met their fate be used again, as if they were fresh.

    A real session never sees an id twice; to the kernel one fresh id is like another, so that bounded ids stand for
    unbounded runs.
    """
    for message_id, fate in fold.fates.items():
        taken = type(fate) is fx.Admitted or (fate == _LEFT_OUT and not fold.ended)
        require(kernel.taken(message_id) is taken, "I1", "{} met {}; its id is taken: {}", message_id, fate, not taken)
        kernel.recorded.discard(message_id)
        kernel.turn_ids.discard(message_id)
    held = len(view.claimed) + len(view.accepted)
    whole = len(kernel.turn_ids) == held and kernel.turn_ids.issuperset(view.claimed + view.accepted)
    require(whole, "I1", "the open turn holds {} {}, and refuses {}", view.claimed, view.accepted, kernel.turn_ids)


_LEFT_OUT = fx.Rejected("left-out")
