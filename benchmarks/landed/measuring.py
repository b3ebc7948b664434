"""One run that measures everything."""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

import trio
from attrs import frozen

from .. import growth, instructions, shares
from ..load import carry
from ..measure import measure
from ..peers.table import PEERS, WORK, compare
from ..rows import collect
from .figures import Figures, Machine


@frozen
class Effort:
    """How much is spent.

    Attributes:
        rounds: samples per row.
        patience: seconds after which a row gets no further sample.
        most: the largest size of a curve; ``None`` for all.
        agents: of each host under load.
        peer_rounds: rounds of the peers.
        peer_work: what each round of the peers has.
        left_out: rows that are not measured.
        sampled: of the work whose time is shared out, the part that is done; one such of it.
        hurried: whether it is too little for the figures to say anything.
    """

    rounds: int = 3
    patience: float = 3.0
    most: int | None = None
    agents: tuple[int, ...] = (1_000, 2_000)
    peer_rounds: int = 2
    peer_work: Mapping[str, int] = WORK
    left_out: str = "$^"
    sampled: int = 1
    hurried: bool = False


WHOLE = Effort()
QUICK = Effort(
    1,
    1.0,
    1_000,
    (20,),
    1,
    {"turns": 20, "steps": 20, "chunks": 500},
    r"million|page|show-end|thousand|pg-|many-[as]|resume",
    10,
    hurried=True,
)
"""To look at the page: its figures say nothing."""


def take(effort: Effort, tell: Callable[[str], object] = print) -> Figures:
    """Measure everything; whatever is measured next is told first.

    Raises:
        FileNotFoundError: there is no valgrind.
        RuntimeError: a peer did not do what it was to do.
    """
    begun, load = time.monotonic(), os.getloadavg()[0]

    def now(what: str) -> None:
        tell(f"{time.monotonic() - begun:6.0f} s  {what}")

    now("instructions")
    counted = instructions.count()
    rows = [
        (now(benchmark.name), measure(benchmark, effort.rounds, effort.patience))[1]
        for benchmark in collect()
        if not re.match(effort.left_out, benchmark.name)
    ]
    curves = {
        one.name: (now(f"growth: {one.name}"), tuple(growth.measure(one, effort.most)))[1] for one in growth.GROWTH
    }
    spent = {
        kind: (now(f"shares: {kind}"), shares.sample(kind, usual // effort.sampled))[1]
        for kind, (_, usual) in shares.KINDS.items()
    }
    carried = tuple([(now(f"{agents} agents"), trio.run(carry, agents))[1] for agents in effort.agents])
    now("peers")
    here = [peer for peer in PEERS if peer.installed]
    standings = compare(here, effort.peer_rounds, effort.peer_work) if len(here) > 1 else []
    now("done")
    return Figures(machine(load), tuple(rows), curves, counted, spent, carried, tuple(standings), effort.hurried)


def machine(load_before: float) -> Machine:
    """This machine, now."""
    return Machine(
        dt.datetime.now(dt.UTC).date().isoformat(),
        f"{platform.python_implementation()} {platform.python_version()}",
        version("trio"),
        f"{platform.system()} {platform.release()}, {platform.machine()}",
        _processor(),
        len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1,
        (load_before, os.getloadavg()[0]),
    )


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    found = (
        re.search(r"^model name\s*: (.+)$", told.read_text(encoding="utf-8"), re.MULTILINE) if told.exists() else None
    )
    return found[1] if found else platform.processor()
