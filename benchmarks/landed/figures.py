"""The file of the figures: what it holds, how it is read and written."""

from __future__ import annotations

from pathlib import Path

import msgspec
from attrs import frozen

from ..load import Carried
from ..measure import Row
from ..peers.table import Standing

ROOT = Path(__file__).parents[2]
FILE = "benchmarks/landed/figures.json"


@frozen
class Machine:
    """Where and when figures were measured.

    Attributes:
        date: of the run, as ISO writes it.
        python: the interpreter, with its version.
        trio: its version.
        system: kernel and architecture.
        processor: its model.
        processors: how many the process may use.
        load: how many processes wanted a processor in the minute before, and in the minute at the end; these included.
    """

    date: str
    python: str
    trio: str
    system: str
    processor: str
    processors: int
    load: tuple[float, float]


@frozen
class Figures:
    """Everything that the page states.

    Attributes:
        machine: where they come from.
        rows: of all benchmarks.
        growth: points of each curve, by name: size and cost.
        instructions: of each work, by name: ours and the floor's.
        shares: of rooms and libraries, by what was sampled.
        carried: hosts under load.
        peers: other drivers; none when they were not measured.
        hurried: they were measured to look at the page, and say nothing, but for the instructions.
    """

    machine: Machine
    rows: tuple[Row, ...]
    growth: dict[str, tuple[tuple[int, float], ...]]
    instructions: dict[str, tuple[float, float]]
    shares: dict[str, dict[str, float]]
    carried: tuple[Carried, ...]
    peers: tuple[Standing, ...]
    hurried: bool = False


def read(root: Path = ROOT) -> Figures:
    """The figures that landed.

    Raises:
        FileNotFoundError: there are none yet.
        msgspec.ValidationError: the file is of another version; measure anew.
    """
    return msgspec.json.decode((root / FILE).read_bytes(), type=Figures)


def write(figures: Figures, root: Path = ROOT) -> None:
    """Keep the figures, numbers cut to four digits, so that a diff shows what changed."""
    text = msgspec.json.format(msgspec.json.encode(_cut(msgspec.to_builtins(figures))), indent=1)
    (root / FILE).write_bytes(text + b"\n")


def _cut(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _cut(one) for key, one in value.items()}
    return [_cut(one) for one in value] if isinstance(value, list | tuple) else value
