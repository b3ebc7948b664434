"""Breadth-first search over the kernel's states, so that the first counterexample is a shortest one (§2)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

from attrs import define, field, frozen

from treadle import effects as fx
from treadle import inputs as i
from treadle.kernel import Kernel
from treadle.lifecycle import DISPOSED, IDLE, TABLE, Lifecycle, Row, State, Stateful, Trigger

from .alphabet import CALLS, Alphabet
from .fold import Fold
from .laws import CONVERGING, check_commit
from .liveness import Graph
from .node import ASKED, ATTEMPTED, NO_REQUEST, PREPARED, Key, Node, View, canonical
from .refusals import check_refusal
from .violation import Violation, require

CLOCK_EVERY = 256


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
        seconds: processor time.
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
        self._todo: deque[tuple[int, Node]] = deque()

    def run(self, max_seconds: float | None = None) -> Findings:
        """Explore until every state is visited, a rule is broken, or the time is over."""
        started = time.process_time()
        deadline = None if max_seconds is None else started + max_seconds
        at, given = 0, None
        try:
            for limit in self._limits:
                for held in (False, True):
                    kernel = Kernel(max_steps=limit, pool=2, lifecycle=self.lifecycle, held=held)
                    self._reach(Node(kernel), View(kernel), kernel)
            while self._todo:
                if deadline is not None and not len(self._came) % CLOCK_EVERY and time.process_time() > deadline:
                    break
                at, node = self._todo.popleft()
                for given in self.alphabet.inputs(node):
                    self._try(at, node, given)
            self.findings.complete = not self._todo
            if self.findings.complete:
                given = None
                at = self.graph.check()
        except Violation as broken:
            at = at if broken.at is None else broken.at
            self.findings.counterexample = self._way(at, given, broken)
        self.findings.states = len(self._came)
        self.findings.seconds = time.process_time() - started
        self.findings.rows = {(row.source.name, row.trigger.name): taken for row, taken in self.lifecycle.taken.items()}
        return self.findings

    # --- one step -----------------------------------------------------------------------------------------------------

    def _try(self, at: int, node: Node, given: i.Input) -> None:
        before = node.kernel
        kernel = before.copy()
        self.findings.transitions += 1
        error: Exception | None = None
        effects: tuple[fx.Effect, ...] = ()
        try:
            effects = kernel.receive(given)
        except Exception as raised:
            error = raised
        check_refusal(node, given, error)
        if error is not None:
            require(canonical(kernel, node.reread, node.phase) == node.key, "L9", "a refused call changes something")
            return
        fold, view = check_commit(before, node.view, given, effects, kernel, reread=node.reread)
        forget(kernel, fold, view)
        reread = fold.reread or (node.reread and type(given) is not i.Replayed)
        to = self._reach(Node(kernel, reread, _phase(node.phase, given, kernel, fold)), view, (at, given))
        if type(given) not in CALLS:
            self.graph.edge(at, to)

    def _reach(self, node: Node, view: View, came: tuple[int, i.Input] | Kernel) -> int:
        to = self._index.get(node.key)
        if to is None:
            node.view = view
            to = self._index[node.key] = len(self._came)
            self._came.append(came)
            self._todo.append((to, node))
            self.graph.state(_settled(node.kernel.state), node.kernel.state in CONVERGING)
        return to

    # --- counterexamples ----------------------------------------------------------------------------------------------

    def _way(self, at: int, last: i.Input | None, broken: Violation) -> Counterexample:
        inputs = [] if last is None else [last]
        while isinstance(came := self._came[at], tuple):
            at, given = came
            inputs.append(given)
        root = came
        return Counterexample(broken.rule, broken.message, tuple(reversed(inputs)), root.held, root.max_steps)


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
