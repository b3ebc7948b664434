"""What extensions add to a step late in a long session."""

from __future__ import annotations

from statistics import quantiles

from treadle import Host
from treadle.extensions.compaction import Compaction

from .measure import Benchmark, Pair, Sample
from .subjects import Prebuilt, agent_of, turns

MESSAGES, COUNT, PAIRS = 10_000, 10, 100


async def compaction_steps() -> Sample:
    """Steps after 10,000 messages with a compaction that watches, less those of the same session without one.

    The two are close to each other, and a busy machine adds more than lies between them: of many short slices the
    quietest tenth of each counts.
    """
    ours, floor = [list[float]() for _ in range(2)]

    def install(host: Host) -> None:
        Compaction(window=1_000_000_000).install(host)

    async with agent_of(Prebuilt(), install) as watched, agent_of(Prebuilt()) as plain:
        for agent in (watched, plain):
            await turns(agent, MESSAGES // 2)
        for _ in range(PAIRS):
            pair = Pair()
            with pair.ours.time(COUNT):
                await turns(watched, COUNT)
            with pair.floor.time(COUNT):
                await turns(plain, COUNT)
            ours.append(pair.ours.each)
            floor.append(pair.floor.each)
    return Sample(quantiles(ours, n=10)[0] - quantiles(floor, n=10)[0])


BENCHMARKS: list[Benchmark] = [
    Benchmark(
        "compaction-step",
        "what compaction adds to a turn of one step after 10,000 messages, where nothing is to be compacted",
        "µs/step",
        50.0,
        compaction_steps,
        "at-most",
        warm_up=False,
    ),
]
"""The benchmarks of this module."""
