"""What an agent costs that does nothing, and what it takes to have treadle at all."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc

from treadle import Host

from .measure import Benchmark, Meter, Sample
from .subjects import OPTIONS, Prebuilt, turns

IDLE, CREATED = 1_000, 2_000

_IMPORT = "import time; begun = time.process_time(); import treadle; print(time.process_time() - begun)"


async def idle_memory() -> Sample:
    """Traced bytes of an idle agent, its session and its driver included."""
    return await _memory(0)


async def turned_memory() -> Sample:
    """The same of one that has had a turn, the events of that included."""
    return await _memory(1)


async def _memory(had: int) -> Sample:
    async with Host() as host:
        host.models.register("bench", Prebuilt())
        await turns((await host.agents.create(agent_options=OPTIONS)).agent, had)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(IDLE):
            await turns((await host.agents.create(agent_options=OPTIONS)).agent, had)
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    return Sample(used / IDLE)


async def creations() -> Sample:
    """Agents created per CPU second; their disposal is not counted."""
    meter = Meter()
    async with Host() as host:
        host.models.register("bench", Prebuilt())
        with meter.time(CREATED):
            for _ in range(CREATED):
                await host.agents.create(agent_options=OPTIONS)
    return Sample(meter.rate)


def import_time() -> Sample:
    """CPU seconds of ``import treadle`` in a fresh interpreter."""
    child = subprocess.run([sys.executable, "-c", _IMPORT], check=True, capture_output=True, text=True)
    return Sample(float(child.stdout))


BENCHMARKS: list[Benchmark] = [
    Benchmark(
        "idle-agent",
        "memory of an idle agent, as traced by tracemalloc",
        "bytes",
        2560.0,
        idle_memory,
        "at-most",
        False,
    ),
    Benchmark(
        "turned-agent", "the same after a turn, its events included", "bytes", 6656.0, turned_memory, "at-most", False
    ),
    Benchmark("creation", "agents created", "per CPU s", 30_000.0, creations, "at-least"),
    Benchmark("import", "import treadle in a fresh interpreter", "CPU s", 0.3, import_time, "at-most"),
]
"""The benchmarks of this module."""
