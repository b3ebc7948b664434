"""Runs of the fair profile: drawn ones, and scripts that are played again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...exploration.violation import Violation, require
from ...run_cases import compact_gate
from ..findings import Enough, Findings
from ..ledger import NEXT_TURN, Json
from ..local import MakeRig, Rig
from ..plan import Plan
from ..profiles import inapplicable
from ..survey import Survey
from .drawing import Drawer
from .judge import Judge

ROUNDS = 80
"""How often a run that is brought to its end may need the tester."""
TOOLS: tuple[Json, ...] = ({"name": "t", "mode": "exclusive"}, {"name": "p", "mode": "parallel"})
OPENING: Json = {"do": "open", "session": "s1", "gates": ["tool"], "tools": [*TOOLS], "options": {}}
LAST = "the last one"
"""A message at the end of every run, whose request shows what became of all before it."""


class FairRun:
    """One run on one rig; every rule that it breaks is noted with the requests that were made until then.

    Args:
        rig: the driver.
        until: a rule at whose break the run is over.
    """

    def __init__(self, rig: Rig, until: str = "") -> None:
        self.judge = Judge()
        self.steps: list[Json] = []
        self.scripts: dict[str, list[Json]] = {}
        self._rig, self._until, self._count = rig, until, 0
        hello = self._ask({"do": "hello"})
        require(hello.get("protocol") == 1, "hello", "the rig answers hello with {}", hello)

    def play(self, step: Json) -> None:
        """Make one request; what must not happen in one breath with the one before is kept apart by a settle.

        Raises:
            Violation: the rule is broken at which the run is over.
        """
        before = self.steps[-1]["do"] if self.steps else ""
        if step["do"] != "settle" and (before == "cancel" or (before == "pass" and step["do"] != "pass")):
            self.play({"do": "settle"})
        self.steps.append(step)
        gate = next((one for one in self.judge.gates if compact_gate(one) == step.get("gate")), None)
        reply = self._ask({**step, "gate": gate["gate"]} if gate is not None else step)
        if step["do"] == "settle":
            require(reply.get("ok"), "F10", "the driver broke: {}", reply.get("error"))
            self.judge.reported(reply)
        else:
            self.judge.asked(step, reply, gate)
        for rule, message in self.judge.broken.items():
            if rule not in self.scripts:
                self.scripts[rule] = [*self.steps]
                if rule == self._until:
                    raise Violation(rule, message)

    def _ask(self, request: Json) -> Json:
        self._count += 1
        return self._rig.ask({"id": self._count, **request})

    def finish(self) -> None:
        """Bring the run to its end, and send one more message."""
        self._run_out()
        self.play({"do": "deliver", "message": {"id": LAST, "text": LAST}, "target": NEXT_TURN, "wakeup": True})
        self._run_out()
        self.play({"do": "settle"})

    def _run_out(self) -> None:
        self.play({"do": "settle"})
        for _ in range(ROUNDS):
            if not self.judge.gates:
                return
            gate = self.judge.gates[0]
            plain: Json = {"chunks": [{"text": "done"}], "end": "stop"} if gate["kind"] == "model" else {"text": "done"}
            self.play({"do": "pass", "gate": compact_gate(gate), **plain})
            self.play({"do": "settle"})
        raise Violation("F10", f"the run does not end after {ROUNDS} rounds")


def search_fair(make_rig: MakeRig, plan: Plan, known: Survey, found: Findings) -> None:
    """Draw runs until there were enough, and record what each of them shows.

    Args:
        make_rig: starts a fresh driver for each run.
        plan: what is asked for.
        known: what the driver has.
        found: where it is recorded.
    """
    number, spared = plan.seed, frozenset(inapplicable(plan.profile, known.features, known.lacks))
    while not found.over:
        drawer = Drawer(number, known.lacks)
        number += 1

        def drawn(run: FairRun, drawer: Drawer = drawer) -> None:
            run.play(OPENING)
            for _ in range(drawer.steps(plan.steps)):
                for step in drawer.next(run.judge.gates, running=run.judge.running):
                    run.play(step)

        recorded(make_rig, drawn, found, spared)


def play_fair_again(make_rig: MakeRig, scripts: Sequence[list[Json]], found: Findings, known: Survey) -> None:
    """Play scripts that once broke a rule, and record what they show now."""
    spared = frozenset(inapplicable("fair", known.features, known.lacks))
    for steps in scripts:
        if not found.over:
            recorded(make_rig, lambda run, steps=steps: [run.play(step) for step in steps], found, spared)


def recorded(
    make_rig: MakeRig, play: Callable[[FairRun], object], found: Findings, spared: frozenset[str] = frozenset()
) -> None:
    """Play one run to its end and record what it shows; what ends it early hides the rest, and is recorded too.

    Args:
        make_rig: starts the driver.
        play: makes the requests.
        found: where it is recorded.
        spared: rules that the driver is not held to.
    """
    rig: Rig | None = None
    run: FairRun | None = None
    try:
        found.begin()
        rig = make_rig()
        run = FairRun(rig)
        play(run)
        run.finish()
        rig.stop()
    except Exception as error:
        drop: Callable[[], None] | None = getattr(rig, "drop", None)
        if drop is not None:
            drop()
        if not found.takes(error, run.steps if run is not None else []):
            if isinstance(error, Enough):
                return
            raise
    if run is not None:
        for rule, steps in run.scripts.items():
            if rule not in spared:
                found.note(rule, run.judge.broken[rule], steps)
        found.masked += sum([times for rule, times in run.judge.masked.items() if rule not in spared])
        found.end(run.judge.stakes)


def replay_fair(rig: Rig, steps: Sequence[Json], rule: str = "") -> FairRun:
    """Play the steps of a script, up to where a rule breaks or to the end.

    Args:
        rig: the driver.
        steps: requests; the opening first.
        rule: the one that is looked for.

    Raises:
        Violation: that rule is broken, or, at the end, another one.
    """
    run = FairRun(rig, rule)
    for step in steps:
        run.play(step)
    run.finish()
    for broken, message in run.judge.broken.items():
        raise Violation(broken, message)
    return run
