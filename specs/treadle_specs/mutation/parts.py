"""What is mutated, by part, and the layers that have to notice it, the cheapest first."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import frozen

import treadle

from ..conformance.oracle import Oracle
from ..conformance.stateful import Suite, profile, run_suite
from ..exploration.explorer import profiles
from ..exploration.search import Search
from ..machines.budget import chosen, run_machine
from ..machines.writer.machine import WriterMachine

SOURCES = Path(treadle.__file__).resolve().parent
"""The folder of the core."""
ROOT = SOURCES.parents[1]
"""The checkout: the tests are there."""

Layer = Callable[[], str | None]
"""Runs in a changed process; says what it noticed."""


@frozen
class Part:
    """One part of the core that decides.

    Attributes:
        files: its sources, below the folder of the core; a folder stands for all that lie in it.
        rooms: the folders or files of its own tests, below ``tests``.
        others: those of its neighbours, which run when its own notice nothing.
        layers: what is asked when no test notices anything.
        bar: the share of its mutants that has to be noticed, those aside that are equivalent.
    """

    name: str
    files: tuple[str, ...]
    rooms: tuple[str, ...]
    others: tuple[str, ...]
    layers: tuple[tuple[str, Layer], ...]
    bar: float = 0.95

    def sources(self) -> Iterator[str]:
        """Each file by its path below the folder of the core."""
        for name in self.files:
            found = sorted((SOURCES / name).glob("*.py")) if (SOURCES / name).is_dir() else [SOURCES / name]
            yield from [path.relative_to(SOURCES).as_posix() for path in found if path.name != "__init__.py"]


def explorer() -> str | None:
    """Every state with one message alive at once, beside the model of the contract."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        for each in profiles(1):
            broken = (
                Search(each.alphabet, max_steps=each.max_steps, pools=each.pools, name=each.name).run().counterexample
            )
            if broken is not None:
                return f"[{broken.rule}] {broken.message}"
    finally:
        if collecting:
            gc.enable()
    return None


def stateful() -> str | None:
    """The stateful suite over the rig, with the model of the contract as its oracle."""
    logging.disable(logging.CRITICAL)
    oracle = Oracle()
    with oracle.installed():
        run_suite(type("Watched", (Suite,), {"oracle": oracle, "lost": []}), profile(40))
    return None


def writer_machine() -> str | None:
    """The writer over a faulty sink, beside a model of what it may lose."""
    run_machine(WriterMachine, chosen(120, repeat=True, shrink=False))
    return None


PARTS = (
    Part(
        "kernel",
        ("kernel",),
        ("kernel",),
        (
            *(f"loop/test_{name}.py" for name in ("turns", "cancellation", "tool_scheduling", "failures", "requests")),
            *(f"agent/test_{name}.py" for name in ("inbox", "delivery", "lifecycle", "maintenance", "receipts")),
        ),
        (("explorer", explorer),),
        0.99,
    ),
    Part(
        "loop",
        (
            *(f"loop/{name}.py" for name in ("activity", "admission", "attempt", "attempt_frames", "convergence")),
            *(f"loop/{name}.py" for name in ("driver", "durability", "factory", "flushes", "life", "notices")),
            *(
                f"loop/{name}.py"
                for name in ("keeper", "outbox", "prompt", "request", "request_state", "retry", "runner")
            ),
            *(f"loop/{name}.py" for name in ("scheduler", "turn_end")),
        ),
        ("loop", "prompt"),
        ("agent", "reports", "session", "hooks", "host"),
        (("stateful suite", stateful),),
    ),
    Part(
        "writer",
        ("session/writer.py",),
        ("session/test_batch_writer.py", "session/test_durability.py"),
        ("stores/test_jsonl.py",),
        (("writer machine", writer_machine),),
    ),
    Part(
        "repair",
        ("session/repair.py", "checks/stored.py"),
        ("session/test_resume.py", "session/test_repair.py", "session/test_windows.py"),
        (
            "session/test_session_log.py",
            "loop/test_seeds.py",
            "reports/test_session_log_and_resume.py",
            "stores/test_checkpoints.py",
        ),
        (),
    ),
    Part(
        "pipeline",
        ("loop/pipeline.py", "tools"),
        ("tools", "loop/test_tool_pipeline.py", "loop/test_tool_scheduling.py"),
        ("loop", "prompt", "agent", "reports"),
        (("stateful suite", stateful),),
    ),
)
