"""``docs/operations.md``: which settings for how many machines, and the figures that say so."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from attrs import evolve

from ..cluster import BEATS, LEASE
from ..cluster.lease import MARGIN
from .costs import RESUMING, STATEMENTS
from .fleet import Plan
from .scenarios import AT_ONCE, RACK, deploy, longest_stall, rack, stall, steady

FLEETS = (
    Plan(replicas=3),
    Plan(replicas=30),
    Plan(replicas=300, lease=15.0, processors=8),
    Plan(replicas=1_000, lease=20.0, processors=16),
)
"""What the page tells of: the settings that it advises, for so many replicas."""
FEW = 20
"""Sessions of each replica where all of them move: what more would take, the other rows tell."""
STALLED = 300
"""Replicas up to which that is simulated: each asks for what every dead one left, so the time it takes grows with the square."""
CHECKED = 1
"""How many of these a test simulates again: the smallest."""


def lease_for(restart: float) -> float:
    """The shortest lease, in whole seconds, that bears a database which is away for so many seconds.

    A lease is to be acted on for all but its margin, and the last beat on record may be one interval old.
    """
    return float(math.ceil(round(restart / (1 - MARGIN - 1 / BEATS), 6)))


ROWS: dict[str, str] = {
    "replicas": "replicas",
    "sessions": "sessions open, together",
    "processors": "processors of the server, for this alone",
    "lease": "lease, s",
    "stall": "stall of the database that six of them bore, s",
    "statements": "quiet: statements a second",
    "load": "quiet: of the processors",
    "beat": "quiet: a beat, p99, ms",
    "died": "rack: replicas that die",
    "moved": "rack: sessions that move",
    "found": "rack: until the first is claimed, s",
    "median": "rack: until half go on, s",
    "recovered": "rack: until all go on, s",
    "claims": "rack: sessions a second, from the first claim to the last",
    "most": "rack: most that one replica got, times the mean",
    "rack load": "rack: of the processors, meanwhile",
    "rack beat": "rack: a beat, p99, ms",
    "lost": "rack: other leases lost",
    "waves": "deploy: waves",
    "wave": "deploy: a wave, s",
    "without": "deploy: without an owner, half of the sessions, s",
    "longest": "deploy: without an owner, at most, s",
    "stalled": f"stall of a whole lease, {FEW} sessions each: leases lost",
    "again": f"stall of a whole lease, {FEW} sessions each: until all go on after its end, s",
}
"""The rows of the table, and what each says."""


def column(plan: Plan, told: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """The figures of one fleet, by the names of ``ROWS``; ``told`` is called with each scenario before it is run."""
    told(f"{plan.replicas} replicas: quiet")
    quiet = steady(plan)
    told("a rack")
    dead = rack(plan)
    told("a deploy")
    rolled = deploy(plan)
    told("stalls")
    borne = longest_stall(evolve(plan, replicas=min(plan.replicas, 6), sessions=1))
    stood = stall(evolve(plan, sessions=min(plan.sessions, FEW)), plan.lease) if plan.replicas <= STALLED else None
    return {
        "replicas": f"{plan.replicas:,}",
        "sessions": f"{plan.replicas * plan.sessions:,}",
        "processors": str(plan.processors),
        "lease": f"{plan.lease:g}",
        "stall": f"{borne:.1f}",
        "statements": f"{quiet.statements:,.0f}",
        "load": f"{quiet.load:.1%}",
        "beat": f"{quiet.beat_p99 * 1000:.1f}",
        "died": str(dead.died),
        "moved": f"{dead.sessions:,}",
        "found": f"{dead.found:.1f}",
        "median": f"{dead.median:.1f}",
        "recovered": f"{dead.recovered:.1f}",
        "claims": f"{dead.claims:,.0f}",
        "most": f"{dead.most:.1f}",
        "rack load": f"{dead.load:.0%}",
        "rack beat": f"{dead.beat_p99 * 1000:.1f}",
        "lost": str(dead.lost + quiet.lost + rolled.lost),
        "waves": str(rolled.waves),
        "wave": f"{rolled.seconds:.1f}",
        "without": f"{rolled.median:.1f}",
        "longest": f"{rolled.longest:.1f}",
        "stalled": f"{stood.lost:,}" if stood is not None else "–",
        "again": f"{stood.recovered:.1f}" if stood is not None else "–",
    }


def table(columns: Sequence[dict[str, str]]) -> str:
    """Figures of fleets, beside each other, as Markdown."""
    head = f"| | {' | '.join(each['replicas'] for each in columns)} |\n| --- |{' ---: |' * len(columns)}\n"
    rest = [name for name in ROWS if name != "replicas"]
    return head + "".join(f"| {ROWS[name]} | {' | '.join(each[name] for each in columns)} |\n" for name in rest)


MOVING = ("open a session", "write an event")
"""The statements that each session takes which moves; claims are shared by many."""


def costs() -> str:
    """What the model takes each statement to cost, as Markdown."""
    lines = [
        "| statement | processor, ms | for each row | beside it, ms | for each row |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {each.name} | {each.processor:g} | {each.row or '–'} | {each.waits:g} | {each.row_waits or '–'} |"
        for each in STATEMENTS
    ]
    return "\n".join(lines) + "\n"


def page(columns: Iterable[dict[str, str]]) -> str:
    """Write the page."""
    each = sum(each.processor + each.row for each in STATEMENTS if each.name in MOVING)
    leases = " | ".join(f"{lease_for(restart):g}" for restart in (3, 6, 9, 12, 18, 36))
    return PAGE.format(
        table=table(list(columns)),
        costs=costs(),
        leases=leases,
        each=each,
        second=1000 / each,
        lease=LEASE,
        beats=BEATS,
        margin=MARGIN,
        rack=RACK,
        at_once=AT_ONCE,
        resuming=RESUMING * 1000,
    )


PAGE = """\
# Operating many machines

<!-- made by: python -m treadle_adapters.simulation --write docs/operations.md -->

Which settings for how many replicas of [many-machines.md](many-machines.md), and what to expect of them. The figures come from
a simulation: the replicas that ship, on virtual time, against a model of the database.

## How long a lease

A lease is as long as the longest time for which the database may be away, a restart for example, and a beat and the margin beside it.
A replica beats {beats} times in a lease and acts no more in its last {margin:.0%}, so three fifths of it are left for the database:

| the database is away for at most, s | 3 | 6 | 9 | 12 | 18 | 36 |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| so the lease is, s | {leases} |

`Replica(url, lease=…)`, {lease:g} s unless given; the same for all replicas. A longer one bears more and takes over later: sessions of a
machine that died wait for a lease and a look at the others. In a rolling deploy nobody waits for a lease: who leaves says so.

## For so many machines

Sessions are those that are open on a replica, 1,000 each. A rack is every {rack}th replica, at least one; a deploy replaces every {at_once}th
at once, at least one, and a new one takes 5 s to stand. Seconds count from the moment at which a session lost its owner.

{table}
What follows from it:

- **What a takeover costs is resuming, not claiming.** Each session is opened, read and written once: some {each:.2f} ms of a processor of the
  database, so that {second:,.0f} sessions a second go on for each processor that it has left for them. Size the server by how many
  sessions may move at once and how soon they are to go on. Replicas claim only as fast as they resume, so the rest is for others.
- **Quiet replicas cost little up to some hundreds**: four statements a second each. Each look reads one row of every replica, so looks
  grow with the square of the number; the lease sets their pace, and a longer one for many replicas is cheaper by as much.
- **A database that is away for longer ends every lease**, and all sessions move at once. Replicas begin again by themselves only if what
  runs them starts them again, and each then asks for what every dead one has left. It is the dearest of all, so choose the lease by the longest restart that you have seen, not by the mean.
- **Connections**: a replica has nine, so some hundred replicas need a server that is set up for as many, or a pool that keeps sessions
  apart. A program that only talks to agents (`Post`) has three and those of its store.
- Replicas may have other leases than the table's; `python -m treadle_adapters.simulation --replicas 60 --lease 15` simulates yours.

## What is simulated

`treadle_adapters.simulation` runs `cluster.Replica` itself: when it beats and looks, whom it buries, how much it claims and when it stops is
the code that ships. Modelled is what it talks to: the rows that it changes, and how long each statement takes. Processors of the
server take statements in the order of asking; each time is drawn around the table's by a seed, so that the slowest of a hundred takes twice the
median, as was measured. A replica's own processor takes {resuming:g} ms to resume a session, one after the other.

{costs}
Processor times are what the server's process used, by the kernel's count, on PostgreSQL 15 with 1,000 replicas and 240,000 sessions;
whole times are those of a quiet machine of two processors, where a commit took 0.4 ms and 14,000 sessions a second were claimed by hundreds.

Not modelled: what the sessions write themselves (give the server processors for that beside these), a network that loses packets,
vacuuming, and a database that fails over to another machine, which is a stall as long as that takes. What some replicas bore by chance, by where in
their beats it began, is more than what the first table promises to all.
"""
