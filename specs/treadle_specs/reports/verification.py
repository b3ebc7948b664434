"""Measures everything that ``docs/verification.md`` states, and writes the page.

    python -m treadle_specs.reports.verification --write docs/verification.md
    python -m treadle_specs.reports.verification --quick

Each section names the command that reproduces its figures. The full page takes some minutes; ``--quick`` explores less and
samples faults and mutants.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import field, frozen

from ..conformance.faults import FAULTS, Fault, planted
from ..conformance.kernel_faults import KERNEL_FAULTS
from ..exploration.explorer import Report, explore
from ..exploration.mutants import Grade, as_markdown, grade_all, mutants, summary
from ..exploration.promela import LTL, SpinMissing, Verdict, count, space, verify
from ..exploration.properties import PROPERTIES
from ..exploration.search import Counterexample
from ..exploration.statespace import Space
from ..logs.checker import check_events
from ..logs.forgeries import Tally, tally
from ..mutation.figures import FILE as FIGURES
from ..mutation.figures import sight, table
from ..rig.scripts import SCRIPTS, record
from . import machines

INTRODUCTION = """\
# What is verified, and how to check that it is

<!-- made by: python -m treadle_specs.reports.verification --write docs/verification.md -->

The kernel of treadle is a pure function: it is fed inputs and returns effects. So what is explored here is the shipped
code itself, beside a model that was written from the contract and knows nothing of it: every step of the one must be a step
of the other. The model's graph is given to an independent engine; a checker derives everything a second time from the log
alone; faults and mutants show whether any of this would notice.

The figures were measured with Python {python} on {machine}; seconds are processor time.
"""


@frozen
class Caught:
    """How exploration met a planted fault."""

    fault: Fault
    broken: Counterexample | None
    seconds: float


@frozen
class Figures:
    """Everything that the page states.

    Attributes:
        report: of the exploration.
        ids: messages alive at once.
        graph: of the contract's model, as spin is given it.
        verdicts: spin's; empty when it is missing.
        caught: the planted faults.
        grades: of the mutants.
        logs: how many recorded sessions were checked, and their events.
        microseconds: per event of a log.
        changes: of those logs, as they were written and numbered anew.
    """

    report: Report
    ids: int
    graph: Space
    verdicts: list[Verdict]
    caught: list[Caught]
    grades: list[Grade]
    logs: tuple[int, int]
    microseconds: float
    changes: tuple[Tally, Tally]
    missing: str = field(default="")


# --- measuring --------------------------------------------------------------------------------------------------------


def measure(*, quick: bool = False, jobs: int = 1) -> Figures:
    """Run every layer and keep its figures.

    Args:
        quick: explore with one message, and take every fortieth mutant.
        jobs: processes for the mutants.
    """
    ids = 1 if quick else 3
    report = explore(ids)
    verdicts, missing, graph = list[Verdict](), "", space()
    try:
        verdicts = verify(graph)
    except SpinMissing as error:
        missing = str(error)
    caught = [_plant(fault) for fault in (*FAULTS, *KERNEL_FAULTS)[:: 9 if quick else 1]]
    chosen = list(mutants())[:: 40 if quick else 1]
    grades = grade_all(chosen, jobs=jobs)
    with _silent():
        logs = [record(script)[1] for script in SCRIPTS.values()]
    started = time.process_time()
    checked = [check_events(events) for events in logs]
    seconds = time.process_time() - started
    events = sum(found.events for found in checked)
    changes = (tally(logs, renumber=False), tally(logs, renumber=True))
    microseconds = seconds / events * 1e6
    return Figures(report, ids, graph, verdicts, caught, grades, (len(logs), events), microseconds, changes, missing)


def _plant(fault: Fault) -> Caught:
    started = time.process_time()
    broken: Counterexample | None = None
    with planted(fault):
        for ids in (1, 2):
            broken = broken or explore(ids, rows=fault.table).counterexample
    return Caught(fault, broken, time.process_time() - started)


@contextmanager
def _silent() -> Generator[None]:
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


# --- writing ----------------------------------------------------------------------------------------------------------


def page(figures: Figures) -> str:
    """The whole page."""
    machine = f"{platform.system()} ({platform.machine()})"
    parts = [
        INTRODUCTION.format(python=platform.python_version(), machine=machine),
        _properties(),
        _exploration(figures),
        _spin(figures),
        _faults(figures),
        _mutants(figures),
        _mutation(),
        _logs(figures),
    ]
    return "\n".join(parts)


def _properties() -> str:
    lines = [
        "## The properties",
        "",
        "Safety is checked at every step, in every state; liveness over the whole graph.",
        "",
    ]
    for kind, words in ((False, "Safety"), (True, "Liveness")):
        lines += [f"**{words}**", ""]
        lines += [f"- {known.text} ({', '.join(known.rules)})" for known in PROPERTIES if known.liveness is kind]
        lines.append("")
    return "\n".join(lines)


def _exploration(figures: Figures) -> str:
    report = figures.report
    rows = "\n".join([f"| {f.name} | {f.states:,} | {f.transitions:,} | {f.seconds:.1f} |" for f in report.findings])
    holds = "Every property holds in every state." if report.counterexample is None else "A property is broken."
    return f"""\
## Exploration of the shipped kernel

    treadle explore --ids {figures.ids}

Every state that can be reached with up to {figures.ids} messages alive at once: all calls, one of each outcome in every
state, whatever is owed, and calls between two commits, as a listener makes them. The inputs are drawn from the model alone,
which also says what each leads to, which of them are refused, and that a refused one changes nothing. States are told apart
by the model's state and by all that the kernel holds besides; ids that no rule tells apart are merged, and an id is used
again once its message has met its fate, so that turns may go on for ever.

| profile | states | transitions | seconds |
| --- | ---: | ---: | ---: |
{rows}

{len(report.rows) - len(report.unvisited)} of {len(report.rows)} rows of the lifecycle table were taken. {holds}
"""


def _spin(figures: Figures) -> str:
    lines = [
        "## The model, verified by spin",
        "",
        "    treadle export promela            # the model",
        "    treadle export promela --check    # spin's verdict; needs spin and a C compiler",
        "",
        f"The graph of the contract's model: {figures.graph.walked[0]:,} states and {figures.graph.walked[1]:,} steps, the same that",
        f"exploration visits with the kernel beside it, in {len(figures.graph.seen):,} classes which no claim can tell apart. With callers",
        f"that may fall silent these are {count(figures.graph):,} states; spin has to find as many.",
        "",
    ]
    if figures.missing:
        return "\n".join([*lines, f"Not measured: {figures.missing}.", ""])
    lines += ["| claim | states | seconds | says |", "| --- | ---: | ---: | --- |"]
    for verdict in figures.verdicts:
        says = LTL[verdict.name][1] if verdict.name in LTL else "no idle agent holds a wake, in any state (L2)"
        says = says if not verdict.errors else f"**fails**: {says}"
        lines.append(f"| {verdict.name} | {verdict.states:,} | {verdict.seconds:.2f} | {says} |")
    agree = figures.verdicts[0].states == count(figures.graph)
    return "\n".join([*lines, "", "Graph and spin agree." if agree else "**Graph and spin differ.**", ""])


def _faults(figures: Figures) -> str:
    lines = [
        "## Planted faults",
        "",
        "    pytest tests/specs/conformance/test_planted_faults.py",
        "    pytest tests/specs/conformance/test_kernel_faults.py",
        "",
        f"Each is planted into the shipped driver. The first {len(FAULTS)} the stateful suite has to catch, and one more layer;",
        "those of the kernel alone exploration has to catch. What it says of each is in the table.",
        "",
        "| fault | breaks | exploration | inputs | seconds |",
        "| --- | --- | --- | ---: | ---: |",
    ]
    for caught in figures.caught:
        broken, fault = caught.broken, caught.fault
        said = (
            f"{broken.rule} | {len(broken.inputs)}" if broken is not None else f"outside the kernel: {fault.seen_by} | "
        )
        lines.append(f"| {fault.name} | {', '.join(fault.rules)} | {said} | {caught.seconds:.1f} |")
    return "\n".join([*lines, ""])


def _mutants(figures: Figures) -> str:
    score = summary(figures.grades)
    return f"""\
## Mutants of the lifecycle table

    python -m treadle_specs.exploration.mutants --markdown

Every deletion of a row or of a single verb, and every other target of a row.

{as_markdown(figures.grades)}

{score["killed"]} of {score["mutants"]} are killed, {len(score["equivalent"])} are equivalent, {len(score["survived"])} \
survive; {score["seconds"]:,} s.
"""


def _mutation() -> str:
    """From the figures that runs of mutation have kept: a whole one is no matter of minutes."""
    kept = list(json.loads(FIGURES.read_text(encoding="utf-8")).values())
    first = [each for each in kept if not each["every"]]
    left = [f"- {each['part']}: `{name}`" for each in first for name in each["survivors"]]
    return f"""\
## Mutants of the code that decides

    python -m treadle_specs.mutation --part writer                        # each mutant of one part
    python -m treadle_specs.mutation --part kernel --quick --sample 12    # some of it, as the gate does
    bash .ci/mutation                                                     # everything, and these figures: an hour or more

A comparison turned round, an operand, a `not`, a statement or an argument's place changed, a branch never or always
taken, a constant altered, nothing returned: each in one function, in a process forked for it. The layers are asked from the
cheapest on until one notices; where not all mutants were tried, the sample is drawn by a seed. A hang counts as noticed.

{table(first)}

Equivalent ones are listed with their reasons in `specs/treadle_specs/mutation/equivalent.json`. Not tried is code that runs at
import: tables and what arguments are by default; of those, the lifecycle table has the mutants above.

{"Noticed by none of the layers that were asked:" if left else "None survives of those that were tried."}
{chr(10).join(["", *left, ""]) if left else ""}
What each layer notices of what it was asked about, of those that any layer notices; unless every layer was asked, a later one
gets what the earlier ones missed:

{sight(kept)}

What a layer cannot see: the own tests of the kernel state decisions one by one and leave whole turns to those of the loop; the
explorer sees nothing outside the kernel and, with one message alive, no order among several; the stateful suite knows the
protocol's reach only, so neither wordings nor limits of time and size; the machine of the writer draws its
programs, so an edge of one byte or one tick is seen by the tests that name it. No layer judges the wording of an error.
"""


def _logs(figures: Figures) -> str:
    count, events = figures.logs
    written, anew = figures.changes
    return f"""\
## Session logs

    treadle check LOG…

{count} recorded sessions with {events} events are sound; {figures.microseconds:.1f} µs per event. Each single
deletion, duplication and swap of their events was tried: of {written.tried:,} changed logs
{written.tried - len(written.unnoticed):,} are reported. Not reported is the lack of a last event outside a turn:
without it the log is what it was a moment before.

The numbers of the events give most of that away, so each changed log was also numbered anew. Then \
{anew.tried - len(anew.unnoticed):,} of
{anew.tried:,} are reported. The others are logs that the contract permits as well, such as a delivery that came
a little later or a parallel tool that started sooner.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m treadle_specs.reports.verification``."""
    parser = argparse.ArgumentParser(prog="verification_report", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", metavar="FILE", help="write the page there instead of printing it")
    parser.add_argument("--quick", action="store_true", help="explore less and sample the mutants")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    given = parser.parse_args(arguments)
    text = page(measure(quick=given.quick, jobs=given.jobs))
    text += "\n" + machines.section(machines.FAULTS[::10] if given.quick else machines.FAULTS)
    if given.write:
        Path(given.write).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
