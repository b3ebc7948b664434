"""Which rules of the fair profile drivers of other projects keep, made from saved reports.

Run it as a module:

    python -m treadle_specs.reports.conformance_table --write      # docs/conformance.md
    python -m treadle_specs.reports.conformance_table --check      # exit status 1 when the page is stale

The reports are made by ``examples/rigs/run.py``; what a user sees of a broken rule is told in ``examples/rigs/broken.toml``.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from ..conformance.fair_rules import FAIR
from .generated import Made, cell, serve

PAGE = "docs/conformance.md"
RIGS = "examples/rigs"
INTRODUCTION = """\
Drivers of other projects, and two toys, held to the fair profile of the rig protocol: what a driver shows of itself in its
model requests, its tool starts and its status. Each rule is *held* (so many times it was at stake), *broken*,
*not exercised* (at stake less than three times) or *not applicable*: the driver has not what the rule is about, or its
documentation does not promise it. A rule that a rig found broken is *not judged* until a script against the framework's
public API alone shows it.

A column is made anew by `python examples/rigs/run.py NAME`, which installs the version into an environment of its own,
runs the rig, runs the scripts of what it found, and keeps the report; this page is made from the reports by
`python -m treadle_specs.reports.conformance_table --write`. A run is cancelled the way the rig says in its first lines.
Models that fail are not drawn."""


@frozen
class Column:
    """One driver.

    Attributes:
        name: of its report.
        report: as ``treadle conform`` made it, with date, options, drawings and what was confirmed.
        told: what there is to say of each broken rule: ``seen`` and ``documented``.
    """

    name: str
    report: dict[str, Any]
    told: Mapping[str, Mapping[str, str]]

    def judged(self, rule: str) -> str:
        """What became of a rule, as the table has it."""
        found = self.report["rules"][rule]
        word, _, why = found["verdict"].partition(": ")
        if word == "broken" and (rule not in self.report["confirmed"] or rule not in self.told):
            return "not judged"
        if word == "broken":
            return "**broken**"
        return f"held ×{found['times']}" if word == "held" else f"{word} ({why})" if why else word

    @property
    def broken(self) -> list[dict[str, Any]]:
        """The findings that are confirmed."""
        return [one for one in self.report["broken"] if self.judged(one["rule"]) == "**broken**"]


def columns(root: Path) -> list[Column]:
    """The drivers, by name."""
    told = tomllib.loads((root / RIGS / "broken.toml").read_text(encoding="utf-8"))
    return [
        Column(path.stem, json.loads(path.read_text(encoding="utf-8")), told.get(path.stem, {}))
        for path in sorted((root / RIGS / "reports").glob("*.json"))
    ]


def page(drivers: list[Column]) -> str:
    """Write the page."""
    lines = ["# Conformance of drivers", "", INTRODUCTION]
    lines += ["", "| rule | " + " | ".join([cell(one.report["driver"]) for one in drivers]) + " |"]
    lines += ["| --- |" + " --- |" * len(drivers)]
    for rule, says in FAIR.items():
        lines.append(f"| {rule}: {says} | " + " | ".join([one.judged(rule) for one in drivers]) + " |")
    lines += ["", "| driver | verdict | runs | seed | date | command |", "| --- | --- | --- | --- | --- | --- |"]
    for one in drivers:
        report = one.report
        lines.append(f"| {report['driver']} | {report['verdict']} | {report['runs']} | {report['seed']} | {report['date']} | "
                     f"`python examples/rigs/run.py {one.name}` |")  # fmt: skip
    for one in drivers:
        lines += _findings(one)
    return "\n".join([*lines, ""])


def _findings(one: Column) -> list[str]:
    lines: list[str] = []
    for found in one.broken:
        rule = found["rule"]
        told = one.told[rule]
        plain = f"{RIGS}/plain/plain_{one.name}.py"
        lines += ["", f"## {one.report['driver']}: {rule}", "", told["seen"]]
        lines += [
            "",
            f"Found in {found['runs']} of {one.report['runs']} runs: {found['message']}. Documentation: {told['documented']}.",
        ]
        lines += [f"Public API alone: `.rigs/{one.name}/bin/python {plain} {rule}` (exit status 0 when it shows)."]
        lines += ["", "```mermaid", found["drawing"].rstrip(), "```"]
    return lines


def make(root: Path) -> Made:
    """The page; what is told of a rule that is not broken is amiss, and what is not judged is named."""
    drivers = columns(root)
    unjudged = [f"{one.name}: {rule} is not judged: no script shows it, or broken.toml tells nothing of it"
                for one in drivers for rule in one.report["rules"] if one.judged(rule) == "not judged"]  # fmt: skip
    stale = [f"{one.name}: broken.toml tells of {rule}, and the report does not"
             for one in drivers for rule in one.told if one.report["rules"][rule]["verdict"] != "broken"]  # fmt: skip
    return Made(page(drivers), stale, unjudged)


def main(arguments: list[str] | None = None) -> int:
    """Write or check the page; returns the exit status."""
    return serve("treadle_specs.reports.conformance_table", PAGE, make, arguments)


if __name__ == "__main__":
    sys.exit(main())
