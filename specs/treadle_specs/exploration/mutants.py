"""Every small change of the lifecycle table, and which layer of the specification notices it.

    python -m treadle_specs.exploration.mutants
    python -m treadle_specs.exploration.mutants --markdown  # as a table

A mutant lacks one verb, leads elsewhere, or lacks a row. One that no layer kills is either equivalent, which is said with
its reason, or a hole in the specification.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from attrs import define, field, frozen

from treadle import State
from treadle.testing import TABLE, Lifecycle, Row

from .alphabet import Alphabet
from .search import Search

EQUIVALENT: dict[str, str] = {
    "MAINTENANCE RELEASE without drop_latch": (
        "RELEASE is fired only when no latched wake finds work, and a latch that finds none is dropped at once (D5): "
        "there is never a latch to drop"
    ),
}
"""Mutants that no behaviour tells apart from the table, with the reason."""


@frozen
class Mutant:
    """A changed table; ``name`` says what was changed."""

    name: str
    kind: str
    rows: tuple[Row, ...]


@define
class Grade:
    """Who noticed a mutant: for each layer that did, what it said."""

    name: str
    kind: str
    killed: dict[str, str] = field(factory=dict[str, str])
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """``killed``, ``equivalent`` or ``survived``."""
        if self.killed:
            return "killed"
        return "equivalent" if self.name in EQUIVALENT else "survived"


def mutants(rows: Sequence[Row] = TABLE) -> Iterator[Mutant]:
    """Every row deletion, single-verb deletion and target swap of a table."""
    for at, row in enumerate(rows):
        where = f"{row.source.name} {row.trigger.name}"
        before, after = tuple(rows[:at]), tuple(rows[at + 1 :])
        yield Mutant(f"{where} deleted", "row", (*before, *after))
        for place, verb in enumerate(row.verbs):
            less = (*row.verbs[:place], *row.verbs[place + 1 :])
            changed = Row(row.source, row.trigger, row.dest, less)
            yield Mutant(f"{where} without {verb.__name__}", "verb", (*before, changed, *after))
        for state in State:
            if state is not row.dest:
                changed = Row(row.source, row.trigger, state, row.verbs)
                yield Mutant(f"{where} to {state.name}", "target", (*before, changed, *after))


# --- layers -----------------------------------------------------------------------------------------------------------


def kill_by_table(mutant: Mutant) -> str | None:
    """The table's own check at import."""
    try:
        Lifecycle(mutant.rows)
    except ValueError as error:
        return str(error)
    return None


def kill_by_explorer(mutant: Mutant) -> str | None:
    """Exploration with one message, then with two."""
    for ids in (1, 2):
        broken = Search(Alphabet(ids, calls=1), mutant.rows).run().counterexample
        if broken is not None:
            return f"[{broken.rule}] {broken.message}"
    return None


Layer = Callable[[Mutant], str | None]


def grade(mutant: Mutant, *, extra: Iterable[tuple[str, Layer]] = ()) -> Grade:
    """Run a mutant against every layer. A table that its own check refuses never reaches the others.

    Args:
        mutant: the changed table.
        extra: further layers by name, such as a suite of tests.
    """
    started = _processor_time()
    result = Grade(mutant.name, mutant.kind)
    refused = kill_by_table(mutant)
    if refused is not None:
        result.killed["table"] = refused
    else:
        layers: list[tuple[str, Layer]] = [("explorer", kill_by_explorer)]
        for name, layer in [*layers, *extra]:
            said = layer(mutant)
            if said is not None:
                result.killed[name] = said
    result.seconds = _processor_time() - started
    return result


def _processor_time() -> float:
    """Seconds that this process and the programs it waited for have computed."""
    return sum(os.times()[:4])


def grade_all(chosen: Iterable[Mutant], *, jobs: int = 1) -> list[Grade]:
    """Grade mutants, in several processes if asked."""
    tasks = list(chosen)
    if jobs <= 1:
        return [_grade(task) for task in tasks]
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        return list(pool.map(_grade, tasks, chunksize=4))


def _grade(mutant: Mutant) -> Grade:
    collecting = gc.isenabled()
    gc.disable()
    try:
        return grade(mutant)
    finally:
        gc.collect()
        if collecting:
            gc.enable()


# --- telling ----------------------------------------------------------------------------------------------------------


def summary(grades: Sequence[Grade]) -> dict[str, Any]:
    """The score as plain values."""
    layers: Counter[str] = Counter()
    for graded in grades:
        layers.update(list(graded.killed))
    return {
        "mutants": len(grades),
        "killed": sum(graded.verdict == "killed" for graded in grades),
        "equivalent": {graded.name: EQUIVALENT[graded.name] for graded in grades if graded.verdict == "equivalent"},
        "survived": [graded.name for graded in grades if graded.verdict == "survived"],
        "killed_by": dict(layers),
        "seconds": round(sum(graded.seconds for graded in grades), 1),
    }


def as_json(grades: Sequence[Grade]) -> str:
    """Score and every mutant, for programs."""
    every = [{"name": g.name, "kind": g.kind, "verdict": g.verdict, "killed": g.killed} for g in grades]
    return json.dumps({**summary(grades), "grades": every}, indent=1, ensure_ascii=False)


def as_markdown(grades: Sequence[Grade]) -> str:
    """Score by kind and layer, with every mutant that was not killed."""
    layers = list(dict.fromkeys(name for graded in grades for name in graded.killed))
    lines = [f"| mutants | all | killed | {' | '.join(layers)} |", "| --- " * (3 + len(layers)) + "|"]
    for kind, words in (("row", "row deleted"), ("verb", "verb deleted"), ("target", "target swapped")):
        some = [graded for graded in grades if graded.kind == kind]
        by = [str(sum(layer in graded.killed for graded in some)) for layer in layers]
        killed = sum(graded.verdict == "killed" for graded in some)
        lines.append(f"| {words} | {len(some)} | {killed} | {' | '.join(by)} |")
    for graded in grades:
        if graded.verdict != "killed":
            reason = EQUIVALENT.get(graded.name, "no layer noticed")
            lines += ["", f"- {graded.verdict}: `{graded.name}`: {reason}"]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m treadle_specs.exploration.mutants``; the exit status is 1 when one survived."""
    parser = argparse.ArgumentParser(
        prog="treadle_specs.exploration.mutants", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth mutant")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--json", action="store_true", help="score and every mutant, for programs")
    parser.add_argument("--markdown", action="store_true", help="the score as a table")
    given = parser.parse_args(arguments)
    grades = grade_all(list(mutants())[:: given.every], jobs=given.jobs)
    told = as_json(grades) if given.json else as_markdown(grades) if given.markdown else _plain(grades)
    sys.stdout.write(told + "\n")
    return 1 if summary(grades)["survived"] else 0


def _plain(grades: Sequence[Grade]) -> str:
    score = summary(grades)
    score["others"] = f"{len(score['equivalent'])} equivalent, {len(score['survived'])} survived"
    lines = [
        f"{score['mutants']} mutants, {score['killed']} killed, {score['others']} in {score['seconds']} s",
        "killed by " + ", ".join(f"{layer} {count}" for layer, count in score["killed_by"].items()),
    ]
    lines += [f"equivalent: {name}: {reason}" for name, reason in score["equivalent"].items()]
    lines += [f"survived: {name}" for name in score["survived"]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
