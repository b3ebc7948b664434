"""``python -m benchmarks [--only NAME] [--json]``: measure, print the table, fail when a bar is missed."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
from collections.abc import Iterable

from attrs import asdict

from .measure import ROUNDS, Benchmark, Row, measure

MODULES = (
    "turns",
    "steps",
    "extensions",
    "chunks",
    "agents",
    "adapters",
    "streams",
    "stores",
    "postgres",
    "million",
    "telemetry",
    "servers",
    "web.figures",
)
"""Each has a list ``BENCHMARKS``; one that is not there, or whose library is not, is left out."""

_SIGNS = {"ratio": "≤", "at-most": "≤", "at-least": "≥"}


def collect() -> list[Benchmark]:
    """All benchmarks whose modules can be imported here."""
    found: list[Benchmark] = []
    for name in MODULES:
        full = f"{__package__}.{name}"
        if importlib.util.find_spec(full) is None:
            continue
        try:
            module = importlib.import_module(full)
        except ModuleNotFoundError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        found += module.BENCHMARKS
    return found


def table(rows: Iterable[Row]) -> str:
    """The rows as aligned text."""
    lines = [("name", "ours", "floor", "unit", "ratio", "by wall", "bar", "ok?")]
    for row in rows:
        bar = f"{_SIGNS[row.rule]} {_number(row.bar)}{' ×' if row.rule == 'ratio' else ''}"
        lines.append(
            (
                row.name,
                _number(row.ours),
                _number(row.floor),
                row.unit,
                _number(row.ratio, 2),
                _number(row.wall, 2),
                bar,
                "yes" if row.ok else "NO",
            )
        )
    widths = [max([len(line[column]) for line in lines]) for column in range(len(lines[0]))]
    left = {0, 3}
    return "\n".join(
        [
            "  ".join(
                [
                    cell.ljust(width) if column in left else cell.rjust(width)
                    for column, (cell, width) in enumerate(zip(line, widths, strict=True))
                ]
            )
            for line in lines
        ]
    )


def _number(value: float | None, digits: int | None = None) -> str:
    if value is None:
        return "–"
    if digits is None:
        digits = 0 if value >= 1_000 else 1 if value >= 10 or value == int(value) else 3
    return f"{value:,.{digits}f}"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status, 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="run this benchmark only; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="samples per benchmark (default %(default)s)")
    given = parser.parse_args(arguments)
    benchmarks = collect()
    unknown = sorted(set(given.only or ()) - {benchmark.name for benchmark in benchmarks})
    if unknown:
        parser.error(
            f"no benchmark is named {', '.join(unknown)}; there are "
            + ", ".join([benchmark.name for benchmark in benchmarks])
        )
    rows = [
        measure(benchmark, given.rounds) for benchmark in benchmarks if not given.only or benchmark.name in given.only
    ]
    if given.json:
        print(json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=2))
    else:
        print(table(rows))
    return 0 if all([row.ok for row in rows]) else 1


if __name__ == "__main__":
    sys.exit(main())
