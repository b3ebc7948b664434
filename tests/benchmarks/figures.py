"""Figures that were never measured."""

from __future__ import annotations

import platform

from benchmarks.landed.figures import Figures, Machine
from benchmarks.load import Carried
from benchmarks.measure import Row
from benchmarks.peers.table import Standing

HERE = f"{platform.python_implementation()} {platform.python_version()}"

ROWS = (
    Row("turn", "a turn", "µs/turn", 100.0, 25.0, 4.0, 4.1, 5.0, "ratio", True),
    Row("idle-agent", "an agent", "bytes", 5_000.0, None, None, None, 4_096.0, "at-most", False),
)


def figures(python: str = HERE, peers: tuple[Standing, ...] = ()) -> Figures:
    """Some."""
    machine = Machine("2026-01-02", python, "0.35.0", "Linux", "A processor", 2, (0.5, 1.5))
    growth = {"turns": ((10, 1.0), (100, 1.1))}
    shares = {"turn": {"trio": 0.5, "treadle/loop": 0.3, "others": 0.2}, "tool-step": {"Python": 1.0}}
    return Figures(
        machine, ROWS, growth, {"turn": (400.0, 100.0)}, shares, (Carried(1_000, 12.34, 5.0, 0.98, 0.6),), peers
    )
