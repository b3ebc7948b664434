"""What runs came to, by part and layer: kept in a file, and told as tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .judging import Verdict
from .ledger import equivalent, survivors
from .warming import Run

Json = dict[str, Any]
FILE = Path(__file__).with_name("figures.json")
"""The figures of the last runs that were kept: what the page tells."""


def told(verdict: Verdict) -> str:
    """A verdict in one line."""
    by = "; ".join([f"{layer}: {what}" for layer, what in verdict.killed.items()])
    state = f"killed by {by}" if by else "equivalent" if equivalent(verdict.mutant) else "SURVIVES"
    return f"{verdict.seconds:6.2f} s  {verdict.mutant}: {state}"


def figures(run: Run) -> Json:
    """The figures of one run."""
    first: Counter[str] = Counter([next(iter(verdict.killed)) for verdict in run.verdicts if verdict.killed])
    seen: Counter[str] = Counter([layer for verdict in run.verdicts for layer in verdict.killed])
    asked: Counter[str] = Counter([layer for each in run.verdicts if each.killed for layer in each.tried])
    return {
        "part": run.task.part.name,
        "mutants": run.possible,
        "tried": len(run.verdicts),
        "seed": run.task.seed,
        "every": run.task.every,
        "killed": sum(1 for verdict in run.verdicts if verdict.killed),
        "equivalent": sum(1 for each in run.verdicts if not each.killed and equivalent(each.mutant)),
        "survivors": [str(mutant) for mutant in survivors(run.verdicts)],
        "hanging": sum(1 for each in run.verdicts if any("hangs in" in what for what in each.killed.values())),
        "asked": list(dict.fromkeys([layer for each in run.verdicts for layer in each.tried if layer != "swap"])),
        "first": dict(first.most_common()),
        "seen": {layer: [seen[layer], asked[layer]] for layer in asked if layer != "swap"},
        "seconds": round(sum(verdict.seconds for verdict in run.verdicts), 1),
    }


def score(figured: Json) -> float:
    """The share that was noticed of what is no equivalent."""
    counted = figured["tried"] - figured["equivalent"]
    return figured["killed"] / counted if counted else 1.0


def merged(path: Path, runs: Iterable[Run]) -> dict[str, Json]:
    """The figures of these runs beside those that a file has, by part and by how they were asked."""
    kept: dict[str, Json] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for run in runs:
        kept[f"{run.task.part.name}{', every layer' if run.task.every else ''}"] = figures(run)
    return kept


def saved(path: Path, kept: dict[str, Json]) -> None:
    """Write figures to a file."""
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def table(all_of: Sequence[Json]) -> str:
    """The figures as a table in Markdown: by part, who noticed first."""
    lines = [
        "| part | mutants | tried | killed | of them by hanging | equivalent | survive | score | asked | first noticed by | seconds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- | ---: |",
    ]
    for each in all_of:
        by = ", ".join([f"{layer} {count}" for layer, count in each["first"].items()])
        counts = (each["killed"], each["hanging"], each["equivalent"], len(each["survivors"]))
        whole = "all" if each["tried"] == each["mutants"] else f"{each['tried']:,}"
        cells = (
            each["part"],
            f"{each['mutants']:,}",
            whole,
            *counts,
            f"{score(each):.1%}",
            by,
            f"{each['seconds']:,.0f}",
        )
        lines.append("| " + " | ".join([str(one) for one in cells]) + " |")
    return "\n".join(lines)


def sight(all_of: Sequence[Json]) -> str:
    """What each layer notices, of what it was asked about."""
    lines = ["| part | layer | notices | of | asked |", "| --- | --- | ---: | ---: | --- |"]
    for each in all_of:
        asked = "about each" if each["every"] else "in turn"
        lines += [
            f"| {each['part']} | {layer} | {seen} | {of} | {asked} |"
            for layer, (seen, of) in each["seen"].items()
            if of
        ]
    return "\n".join(lines)
