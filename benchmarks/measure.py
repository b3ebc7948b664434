"""How a benchmark is described and measured: ours and its floor in turns, in one process, by CPU time.

The machine that measures is never quiet. So ours and the floor run in short slices, one after the other, and what
is compared is the ratio of the two; a figure is the median over several rounds.
"""

from __future__ import annotations

import gc
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Literal

import trio
from attrs import define, field, frozen

ROUNDS = 5
"""Samples per benchmark; the median counts."""
SLICES = 5
"""Alternations of ours and the floor within one sample."""

Rule = Literal["ratio", "at-most", "at-least"]


@define
class Meter:
    """Adds up the time of slices of one kind of work."""

    cpu: float = 0.0
    wall: float = 0.0
    units: int = 0

    @contextmanager
    def time(self, units: int) -> Iterator[None]:
        """Time a block that does ``units`` of the work, all tasks and threads of the process included."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.cpu += time.process_time() - cpu
        self.wall += time.perf_counter() - wall
        self.units += units

    @property
    def each(self) -> float:
        """CPU microseconds per unit."""
        return self.cpu / self.units * 1e6

    @property
    def each_wall(self) -> float:
        """Microseconds per unit, by the clock on the wall."""
        return self.wall / self.units * 1e6

    @property
    def rate(self) -> float:
        """Units per CPU second."""
        return self.units / self.cpu


@frozen
class Sample:
    """One round of one benchmark.

    Attributes:
        ours: what treadle costs, in the benchmark's unit.
        floor: what it is compared with, in the same unit; ``None`` where the bar is for ``ours`` itself.
        wall: the ratio by wall time, for comparison; the ratio that counts is by CPU time.
    """

    ours: float
    floor: float | None = None
    wall: float | None = None


@define
class Pair:
    """Ours and the floor of one sample."""

    ours: Meter = field(factory=Meter)
    floor: Meter = field(factory=Meter)

    def sample(self) -> Sample:
        """The sample, in CPU microseconds per unit."""
        return Sample(self.ours.each, self.floor.each, self.ours.each_wall / self.floor.each_wall)


@frozen
class Benchmark:
    """One figure and its bar.

    Attributes:
        name: how it is called in the table and by ``--only``.
        what: one sentence: what is measured, and what the floor is.
        unit: of ours and the floor, such as ``µs/turn``.
        bar: what the figure is held to.
        take: takes one sample; called once per round, an async one under a ``trio.run`` of its own.
        rule: ``ratio``: ours by floor is at most the bar. ``at-most``, ``at-least``: the same for ours itself.
        warm_up: whether a first sample is thrown away.
    """

    name: str
    what: str
    unit: str
    bar: float
    take: Callable[[], Sample | Awaitable[Sample]]
    rule: Rule = "ratio"
    warm_up: bool = True


@frozen
class Row:
    """One line of the table."""

    name: str
    what: str
    unit: str
    ours: float
    floor: float | None
    ratio: float | None
    wall: float | None
    bar: float
    rule: Rule
    ok: bool


def measure(benchmark: Benchmark, rounds: int = ROUNDS, patience: float = math.inf) -> Row:
    """Take the samples of one benchmark; the medians are judged.

    Args:
        benchmark: what to measure.
        rounds: samples.
        patience: seconds by the clock on the wall after which no further sample is taken; one is taken in any case.
    """
    begun = time.monotonic()
    if benchmark.warm_up:
        _take(benchmark)
    samples = [_take(benchmark)]
    while len(samples) < rounds and time.monotonic() - begun < patience:
        samples.append(_take(benchmark))
    ours = median([sample.ours for sample in samples])
    floors = [sample.floor for sample in samples if sample.floor is not None]
    ratios = [sample.ours / sample.floor for sample in samples if sample.floor is not None]
    walls = [sample.wall for sample in samples if sample.wall is not None]
    figure = median(ratios) if benchmark.rule == "ratio" else ours
    ok = figure >= benchmark.bar if benchmark.rule == "at-least" else figure <= benchmark.bar
    return Row(
        benchmark.name,
        benchmark.what,
        benchmark.unit,
        ours,
        median(floors) if floors else None,
        median(ratios) if ratios else None,
        median(walls) if walls else None,
        benchmark.bar,
        benchmark.rule,
        ok,
    )


def _take(benchmark: Benchmark) -> Sample:
    gc.collect()
    if not inspect.iscoroutinefunction(benchmark.take):
        taken = benchmark.take()
        assert isinstance(taken, Sample)
        return taken
    return trio.run(benchmark.take)
