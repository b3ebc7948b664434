"""The page of the figures, and its picture; both are made from the file alone, so that they can be checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from treadle_diagrams import Curve, curves_svg

from ..growth import GROWTH
from ..instructions import WORKS
from ..measure import Row
from ..peers.table import PEERS, WORK
from ..tables import bar, number
from .comparison import MAY_BE
from .figures import ROOT, Figures

PAGE = "docs/performance.md"
PICTURE = "docs/pictures/growth.svg"
NOTES = "benchmarks/landed/notes.md"
"""What no figure says: why, and what was tried. It is the end of the page."""

INTRODUCTION = """\
# What it costs

<!-- made by: python -m benchmarks.landed --write; do not mend it here: benchmarks/landed/ -->

Measured on {date} with {python} and trio {trio} on {system}: {processor}, {processors}; {before:.1f} processes wanted a
processor in the minute before the run and {after:.1f} at its end, this one included. Times are processor time, so that a machine
with other things to do tells nearly the same. Figures of another machine are other figures; **ratios to a floor** travel. A floor is
the least that trio or the interpreter takes for the same shape of work, without any of the work, in the same process, by turns.

Everything on this page is measured, kept and written by one command: `python -m benchmarks.landed --measure --peers`; how:
[CONTRIBUTING.md](../CONTRIBUTING.md#how-figures-are-measured).
"""

HURRIED = """\
**These figures were measured in a hurry, to see the page; but for the counted instructions they say nothing.**
"""

CARRIES_HEAD = """\
## What one process carries

On one core; the agents of a process share it. More cores take more processes: [many-machines.md](many-machines.md).
"""

PEERS_HEAD = """\
## Beside other drivers

    python -m benchmarks --peers

Each in an environment of its own, all in the same run, by turns; the model is scripted and never waits, so what is left is what a
driver itself takes. A unit is the same for all: a *turn* is a question and an answer of one word in a conversation of {turns:,} whose
history is kept; a *step* is a call of a tool, its result and the next request, in one turn of {steps:,}; a *chunk* is a piece of an answer of
{chunks:,}, to which somebody listens. Units per second of processor time; higher is better:
"""

PEERS_TAIL = """
What they do beside it differs. After a turn there is, in this setting:
"""

INSTRUCTIONS_HEAD = """\
## Counted in instructions

    python -m benchmarks.landed --compare

Instructions of the processor, as valgrind counts them, do not depend on what else the machine does. So they are what a change is
held to: a gate counts them anew and fails when a ratio to its floor has grown by more than {may:.0%}. They weigh each instruction alike, so
these ratios are not those of the times above.
"""

SHARES_HEAD = """\
## Where the time goes

    python -m benchmarks.shares

Samples of what runs: whose function it is, not what called it. Rooms of the core: [architecture.md](architecture.md#the-rooms).
"""

GROWTH_HEAD = """\
## What grows, and what does not

    python -m benchmarks.landed --measure

![What a unit costs with more turns, events, agents, tools, chunks and listeners](pictures/growth.svg)
"""


def text(figures: Figures, root: Path = ROOT) -> str:
    """The page."""
    machine = figures.machine
    processors = "1 processor" if machine.processors == 1 else f"{machine.processors} processors"
    parts = [
        INTRODUCTION.format(
            date=machine.date,
            python=machine.python,
            trio=machine.trio,
            system=machine.system,
            processor=machine.processor,
            processors=processors,
            before=machine.load[0],
            after=machine.load[1],
        ),
        *([HURRIED] if figures.hurried else []),
        _carries(figures),
        _rows(figures.rows),
        _growth(figures),
        *([_peers(figures)] if figures.peers else []),
        _shares(figures),
        _instructions(figures),
        (root / NOTES).read_text(encoding="utf-8"),
    ]
    return "\n".join(parts)


def _carries(figures: Figures) -> str:
    """What one process carries: the rows that say so, read the other way round."""
    rows = {row.name: row for row in figures.rows}

    def per_second(name: str) -> str:
        return number(float(f"{1e6 / rows[name].ours:.3g}"))

    said: list[tuple[str, str, Iterable[str]]] = []
    if "turn" in rows:
        said.append(("turns of one step", f"{per_second('turn')} a second", ["turn"]))
    if "tool-step" in rows:
        said.append(("steps with a tool", f"{per_second('tool-step')} a second", ["tool-step"]))
    if "sse-to-chunks" in rows:
        said.append(
            ("deltas read of busy HTTP streams", f"{number(rows['sse-to-chunks'].ours)} a second", ["sse-to-chunks"])
        )
    if "creation" in rows:
        said.append(("agents made", f"{number(rows['creation'].ours)} a second", ["creation"]))
    if "idle-agent" in rows:
        size = rows["idle-agent"].ours
        said.append(
            (
                "agents at rest",
                f"{number(2**30 / size)} in a GiB, {number(size)} bytes each; they own no task",
                ["idle-agent"],
            )
        )
    if "million-held" in rows:
        held = f"{number(rows['million-held'].ours)} MB of a session of 1,000,000 events"
        said.append(("memory of a resumed session", held, ["million-held"]))
    out = [CARRIES_HEAD, "| of | it carries | command |", "| --- | --- | --- |"]
    out += [
        f"| {what} | {much} | `python -m benchmarks {' '.join([f'--only {name}' for name in names])}` |"
        for what, much, names in said
    ]
    for one in figures.carried:
        told = (f"cancel p99 {one.cancel:.1f} ms, lag of the loop p99 {one.lag:.1f} ms, the least served agent gets "
                f"{min(1, one.least):.0%} of its deltas; {one.share:.0%} of the core")  # fmt: skip
        command = f"TREADLE_STREAMS={one.agents} python -m benchmarks --only many-agents-cancel"
        said_of = f"{one.agents:,} agents answered over HTTP at once, 2 deltas a second each, 50 cancels a second"
        out.append(f"| {said_of} | {told} | `{command}` |")
    return "\n".join([*out, ""])


def _rows(rows: Sequence[Row]) -> str:
    out = ["## Against the floors", "", "    python -m benchmarks", "",
           "| row | is | ours | floor | ratio | bar | |", "| --- | --- | ---: | ---: | ---: | ---: | --- |"]  # fmt: skip
    out += [
        f"| `{row.name}` | {row.what}; {row.unit} | {number(row.ours)} | {number(row.floor)} | {number(row.ratio, 2)} "
        f"| {bar(row)} | {'' if row.ok else '**missed**'} |"
        for row in rows
    ]
    missed = [f"`{row.name}`" for row in rows if not row.ok]
    verdict = f"Missed: {', '.join(missed)}; why: [below](#why)." if missed else "All bars are met."
    return "\n".join([*out, "", verdict, ""])


def _growth(figures: Figures) -> str:
    out = [GROWTH_HEAD, "| with more | is | sizes | cost | the last by the first |", "| --- | --- | --- | --- | ---: |"]
    for one in GROWTH:
        points = figures.growth.get(one.name, ())
        if not points:
            continue
        sizes, costs = [
            ", ".join(list(cells))
            for cells in zip(*[(f"{size:,}", f"{cost:.3g}") for size, cost in points], strict=True)
        ]
        grown = f"{points[-1][1] / points[0][1]:.2f}" + (" (does not grow)" if one.flat else " (grows with each)")
        out.append(f"| {one.name} | {one.what}; {one.unit} | {sizes} | {costs} | {grown} |")
    return "\n".join([*out, ""])


def _peers(figures: Figures) -> str:
    known = {peer.name: peer for peer in PEERS}
    out = [
        PEERS_HEAD.format(**WORK),
        f"| driver | version | {' | '.join(WORK)} |",
        "| --- | --- | " + "---: | " * len(WORK),
    ]
    for one in figures.peers:
        rates = " | ".join([number(float(f"{one.rates[kind]:.3g}")) for kind in WORK])
        out.append(f"| {known[one.peer].title} | {one.version} | {rates} |")
    out += [PEERS_TAIL, "| driver | keeps |", "| --- | --- |"]
    out += [f"| {known[one.peer].title} | {known[one.peer].keeps} |" for one in figures.peers]
    out += [
        "",
        "Which rules of a driver each of them keeps when runs are stopped: [conformance.md](conformance.md).",
        "",
    ]
    return "\n".join(out)


def _shares(figures: Figures) -> str:
    names = list(dict.fromkeys([name for one in figures.shares.values() for name in one if name != "others"]))
    out = [SHARES_HEAD, f"| | {' | '.join(figures.shares)} |", "| --- |" + " ---: |" * len(figures.shares)]
    for name in [*names, "others"]:
        parts = [f"{one[name]:.0%}" if name in one else "" for one in figures.shares.values()]
        out.append(
            f"| {name if name in ('others', 'Python', 'the benchmark') else f'`{name}`'} | {' | '.join(parts)} |"
        )
    return "\n".join([*out, ""])


def _instructions(figures: Figures) -> str:
    out = [
        INSTRUCTIONS_HEAD.format(may=MAY_BE),
        "| work | is | ours | floor | ratio |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    out += [
        f"| `{name}` | {WORKS[name].what} | {number(ours)} | {number(floor)} | {ours / floor:.2f} |"
        for name, (ours, floor) in figures.instructions.items()
        if name in WORKS
    ]
    return "\n".join([*out, ""])


def picture(figures: Figures) -> str:
    """The curves, as SVG."""
    return curves_svg([Curve(f"with more {one.name}", one.unit, figures.growth.get(one.name, ())) for one in GROWTH])


def stale(figures: Figures, root: Path = ROOT) -> list[str]:
    """What is missing, or older than the file; sentences."""
    return [
        f"{name} is stale: run python -m benchmarks.landed --write"
        for name, made in ((PAGE, text(figures, root)), (PICTURE, picture(figures)))
        if not (root / name).exists() or (root / name).read_text(encoding="utf-8") != made
    ]


def write(figures: Figures, root: Path = ROOT) -> None:
    """Write the page and its picture."""
    for name, made in ((PAGE, text(figures, root)), (PICTURE, picture(figures))):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(made, encoding="utf-8", newline="\n")
