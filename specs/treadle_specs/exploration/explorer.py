"""``treadle explore``: visit every reachable state of the shipped kernel and check every property there.

    treadle explore --ids 3
    treadle explore --ids 2 --json --save counterexamples/

What is explored is ``treadle.kernel.kernel.Kernel.receive`` itself: every call and every outcome in every state, those that
must be refused among them, with so many messages alive at once. Beside every step goes the model of the contract
(``treadle_specs.model``), and the kernel must do what it says. The profiles together cover the kernel: without a step limit,
with one, with two tool calls whose bodies end in every way, and with three calls in pools of one to three.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

from attrs import define, field, frozen

from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel
from treadle.testing import TABLE, Row

from .alphabet import Alphabet
from .properties import PROPERTIES
from .rig_script import rig_case
from .search import Counterexample, Findings, Search

Json = dict[str, Any]


@frozen
class Profile:
    """One exploration: what may happen, and the step limits and pools to start from."""

    name: str
    alphabet: Alphabet
    max_steps: tuple[int | None, ...] = (None,)
    pools: tuple[int, ...] = (2,)


def profiles(ids: int) -> tuple[Profile, ...]:
    """The explorations that together cover the kernel, with at most ``ids`` messages alive at once."""
    return (
        Profile("kernel", Alphabet(ids, calls=1)),
        Profile("step limit", Alphabet(1, calls=1, inbox=False, strays=False), (2,)),
        Profile("tool calls", Alphabet(1, calls=2, inbox=False, strays=False, endings=True)),
        Profile("pools", Alphabet(1, calls=3, inbox=False, strays=False, alone=True), (None,), (1, 3)),
    )


@define
class Report:
    """What all explorations found together."""

    findings: list[Findings] = field(factory=list[Findings])

    @property
    def counterexample(self) -> Counterexample | None:
        """The first broken rule."""
        return next((found.counterexample for found in self.findings if found.counterexample is not None), None)

    @property
    def complete(self) -> bool:
        """Whether every reachable state was visited."""
        return all(found.complete for found in self.findings)

    @property
    def rows(self) -> dict[tuple[str, str], int]:
        """How often each row of the table was taken."""
        rows: dict[tuple[str, str], int] = {}
        for found in self.findings:
            for row, taken in found.rows.items():
                rows[row] = rows.get(row, 0) + taken
        return rows

    @property
    def unvisited(self) -> list[str]:
        """Rows that were never taken."""
        return [f"{source} {trigger}" for (source, trigger), taken in self.rows.items() if not taken]

    @property
    def inputs(self) -> dict[str, tuple[int, int]]:
        """How often each kind of input was taken, and how often refused."""
        kinds = [kind.__name__ for kind in get_args(i.Input)]
        return {
            kind: (
                sum(found.taken[kind] for found in self.findings),
                sum(found.refused[kind] for found in self.findings),
            )
            for kind in kinds
        }

    @property
    def unexercised(self) -> list[str]:
        """Kinds of inputs that were never taken, so that nothing was learned of what they lead to."""
        return [kind for kind, (taken, _) in self.inputs.items() if not taken]

    @property
    def holds(self) -> bool:
        """Whether everything was visited, every row and every kind of input taken, and every property held."""
        return self.counterexample is None and self.complete and not self.unvisited and not self.unexercised

    def as_json(self) -> Json:
        """The report as plain values."""
        broken = self.counterexample
        return {
            "holds": self.holds,
            "complete": self.complete,
            "states": sum(found.states for found in self.findings),
            "transitions": sum(found.transitions for found in self.findings),
            "seconds": round(sum(found.seconds for found in self.findings), 2),
            "profiles": [
                {
                    "name": found.name,
                    "states": found.states,
                    "transitions": found.transitions,
                    "seconds": round(found.seconds, 2),
                    "complete": found.complete,
                }
                for found in self.findings
            ],
            "rows": {f"{source} {trigger}": taken for (source, trigger), taken in self.rows.items()},
            "unvisited": self.unvisited,
            "inputs": {kind: {"taken": taken, "refused": refused} for kind, (taken, refused) in self.inputs.items()},
            "unexercised": self.unexercised,
            "properties": [
                {"text": known.text, "rules": list(known.rules), "liveness": known.liveness} for known in PROPERTIES
            ],
            "counterexample": None if broken is None else counterexample_json(broken),
        }


def explore(ids: int = 3, *, rows: Iterable[Row] = TABLE, max_seconds: float | None = None, jobs: int = 1) -> Report:
    """Explore the kernel.

    Args:
        ids: messages alive at once; symmetric ids are merged.
        rows: the lifecycle table with its verbs, for exploring a changed one.
        max_seconds: time after which each profile stops, incomplete.
        jobs: processes among which the work is shared out.
    """
    table = tuple(rows)
    report = Report()
    collecting = gc.isenabled()
    gc.disable()
    try:
        for profile in profiles(ids):
            search = Search(
                profile.alphabet, table, max_steps=profile.max_steps, pools=profile.pools, name=profile.name
            )
            report.findings.append(search.run(max_seconds, jobs=jobs))
            if report.counterexample is not None:
                break
    finally:
        if collecting:
            gc.enable()
    return report


# --- telling ----------------------------------------------------------------------------------------------------------


def counterexample_json(broken: Counterexample) -> Json:
    """A broken rule as plain values; ``case`` is the way to it as a script for the rig."""
    start = Kernel(max_steps=broken.max_steps, pool=broken.pool, held=broken.held)
    return {
        "rule": broken.rule,
        "message": broken.message,
        "inputs": [str(given) for given in broken.inputs],
        "case": rig_case(f"{broken.rule}: {broken.message}", [broken.rule], broken.inputs, start),
    }


def report_lines(report: Report) -> list[str]:
    """The report for people."""
    lines = [f"{'profile':<12} {'states':>9} {'transitions':>12} {'seconds':>8}"]
    for found in report.findings:
        end = "" if found.complete else "  (stopped)"
        lines.append(f"{found.name:<12} {found.states:>9,} {found.transitions:>12,} {found.seconds:>8.1f}{end}")
    taken = sum(1 for times in report.rows.values() if times)
    lines.append(f"{taken} of {len(report.rows)} rows of the table taken")
    lines += [f"  never taken: {row}" for row in report.unvisited]
    counts = list(report.inputs.values())
    lines.append(
        f"{len(counts) - len(report.unexercised)} of {len(counts)} kinds of inputs taken, "
        f"{sum(1 for _, refused in counts if refused)} of them refused elsewhere"
    )
    lines += [f"  never taken: {kind}" for kind in report.unexercised]
    broken = report.counterexample
    if broken is None:
        lines.append(
            f"{len(PROPERTIES)} properties hold in every state" if report.complete else "nothing broken so far"
        )
        return lines
    lines.append(f"[{broken.rule}] {broken.message}")
    lines.append(f"  after {len(broken.inputs)} inputs:")
    lines += [f"    {given}" for given in broken.inputs]
    return lines


def save_case(broken: Counterexample, folder: Path) -> Path:
    """Write the counterexample as a case file for ``run_cases`` and ``treadle replay``; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"counterexample-{broken.rule}.json"
    case = counterexample_json(broken)["case"]
    path.write_text(json.dumps([case], indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def explore_command(
    ids: int = 3,
    max_seconds: float | None = None,
    *,
    as_json: bool = False,
    jobs: int = 1,
    save: Path | None = None,
    out: Callable[[str], object] = sys.stdout.write,
) -> int:
    """Explore, tell what was found, and return the exit status: 0 when everything was visited and holds.

    Args:
        ids: messages alive at once.
        max_seconds: time per profile.
        as_json: tell it to programs.
        jobs: processes.
        save: folder for the counterexample's script.
        out: where the report goes.
    """
    report = explore(ids, max_seconds=max_seconds, jobs=jobs)
    if as_json:
        out(json.dumps(report.as_json(), indent=1, ensure_ascii=False) + "\n")
    else:
        out("\n".join(report_lines(report)) + "\n")
    broken = report.counterexample
    if broken is not None and save is not None:
        path = save_case(broken, save)
        if not as_json:
            out(f"saved as {path}\n")
    return 0 if report.holds else 1
