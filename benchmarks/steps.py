"""Steps of long tool turns, and many calls in one step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack

from treadle.models import Chunk

from .floors import tool_loop
from .measure import SLICES, Benchmark, Meter, Pair, Sample
from .subjects import Stepping, agent_of, tool_answer, turns

STEPS, EARLY, LATE, WINDOW, CALLS = 200, 50, 2_000, 60, 500


async def tool_turn() -> Sample:
    """A tool turn, against the bare loop."""
    pair = Pair()
    async with AsyncExitStack() as stack:
        for _ in range(SLICES):
            agent = await stack.enter_async_context(agent_of(Stepping(_calls(STEPS - 1))))
            with pair.ours.time(STEPS):
                await turns(agent, 1)
            with pair.floor.time(STEPS * 8):
                await tool_loop(STEPS * 8)
    return pair.sample()


async def late_steps() -> Sample:
    """A window of steps late in one turn, against one of an early one."""
    pair = Pair()
    late, early = Stepping(_calls(LATE + WINDOW)), Stepping(_calls(EARLY + WINDOW))
    late.hold(LATE - WINDOW // 2)
    early.hold(EARLY - WINDOW // 2)
    async with agent_of(late) as one, agent_of(early) as other:
        one.followup("go")
        await late.held()
        other.followup("go")
        await early.held()
        count = WINDOW // SLICES
        for _ in range(SLICES):
            with pair.ours.time(count):
                await late.advance(count)
            with pair.floor.time(count):
                await early.advance(count)
        late.release()
        early.release()
        await one.when_idle()
        await other.when_idle()
    return pair.sample()


async def many_calls() -> Sample:
    """Parallel calls of one answer."""
    meter = Meter()
    ids = [f"call-{number}" for number in range(CALLS)]
    async with AsyncExitStack() as stack:
        for _ in range(SLICES):
            agent = await stack.enter_async_context(agent_of(Stepping([tool_answer(ids)])))
            with meter.time(CALLS):
                await turns(agent, 1)
    return Sample(meter.rate)


def _calls(count: int) -> Iterator[list[Chunk]]:
    """Answers of one call each, made beforehand."""
    return iter([tool_answer([f"call-{number}"]) for number in range(count)])


BENCHMARKS: list[Benchmark] = [
    Benchmark(
        "tool-step",
        "a step of a 200-step tool turn; floor: a bare loop over a model and a tool coroutine, one checkpoint each",
        "µs/step",
        13.0,
        tool_turn,
    ),
    Benchmark(
        "late-step",
        "steps around the 2,000th of one turn; floor: steps around the 50th",
        "µs/step",
        1.1,
        late_steps,
        warm_up=False,
    ),
    Benchmark(
        "many-calls",
        "500 parallel-safe calls in one step, each with one checkpoint",
        "calls/CPU s",
        15_000.0,
        many_calls,
        "at-least",
    ),
]
"""The benchmarks of this module."""
