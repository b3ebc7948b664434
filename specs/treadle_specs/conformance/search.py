"""The search: runs are drawn until the time is over, and what each of them shows is recorded (§7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import Phase, Verbosity, seed, settings
from hypothesis.errors import Flaky, FlakyStrategyDefinition

from .fair.runs import search_fair
from .findings import Enough, Findings
from .ledger import Json
from .local import MakeRig
from .plan import Plan
from .profiles import STORES
from .shrinking import played
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
                                   "lacks": known.lacks, "record": found, "store": _store(plan, known)}  # fmt: skip
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


def _store(plan: Plan, known: Survey) -> str | None:
    """The kind of store that sessions are kept in; none where they need not be, or cannot."""
    return next((kind for kind in STORES if kind in known.features), None) if plan.durable else None


def play_again(make_rig: MakeRig, scripts: Sequence[list[Json]], found: Findings) -> None:
    """Play scripts that once broke a rule, and record what they show now."""
    for steps in scripts:
        if found.over:
            return
        try:
            found.end(played(make_rig, steps))
        except Exception as error:
            if not found.takes(error, steps):
                raise
