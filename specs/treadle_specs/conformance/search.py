"""The search: runs are drawn until the time is over, and what each of them shows is recorded (§7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import Phase, Verbosity, seed, settings
from hypothesis.errors import Flaky, FlakyStrategyDefinition

from .fair.runs import search_fair
from .findings import Enough, Findings
from .ledger import Json
from .local import MakeRig, Rig
from .plan import Plan
from .player import replay
from .stateful import Suite, profile, run_suite
from .survey import Survey

MANY = 1_000_000
"""So many runs are never made: other bounds end a search."""
SEARCHING = 0.8
"""The share of the time that the search may take; the rest is for shortening what it finds."""
Told = Callable[[Findings], None]


def search(make_rig: MakeRig, plan: Plan, known: Survey, tell: Told | None = None) -> Findings:
    """Draw runs against a driver.

    Args:
        make_rig: starts a fresh driver for each run.
        plan: what is asked for.
        known: what the driver has.
        tell: told after each run.
    """
    seconds = plan.seconds * SEARCHING if plan.seconds is not None else None
    found = Findings(seconds, plan.examples, plan.rounds, plan.rules, tell)
    if plan.profile == "fair":
        search_fair(make_rig, plan, known, found)
        return found
    chosen = settings(
        profile(plan.examples or MANY, plan.steps, derandomize=False),
        phases=(Phase.generate,),
        verbosity=Verbosity.quiet,
    )
    drawn = plan.seed
    while not found.over:
        members: dict[str, Any] = {"make_rig": staticmethod(make_rig), "lost": [], "core": plan.core,
                                   "lacks": known.lacks, "record": found}  # fmt: skip
        suite: type[Suite] = type("Driver", (Suite,), members)
        try:
            run_suite(seed(drawn)(suite), chosen)
        except Enough:
            break
        except (Flaky, FlakyStrategyDefinition):
            pass  # the driver did something else the second time: the next drawing begins elsewhere
        else:
            break
        drawn += 1
    return found


def play_again(make_rig: MakeRig, scripts: Sequence[list[Json]], found: Findings) -> None:
    """Play scripts that once broke a rule, and record what they show now."""
    for steps in scripts:
        rig: Rig | None = None
        if found.over:
            return
        try:
            rig = make_rig()
            player = replay(rig, steps)
            rig.stop()
            found.end(player.monitor.stakes)
        except Exception as error:
            drop: Any = getattr(rig, "drop", None)
            if drop is not None:
                drop()
            if not found.takes(error, steps):
                raise
