"""One-step turns: their cost, at the start and late in a session, among neighbours, and with listeners."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import cycle
from typing import Any, cast

import trio

from treadle import Agent, Host
from treadle.hooks import POINTS, Mode

from .floors import TurnFloor
from .measure import SLICES, Benchmark, Pair, Sample
from .subjects import OPTIONS, Pacing, Prebuilt, agent_of, text_answer, tool_answer, turns

EARLY, LATE, WINDOW, NEIGHBOURS = 100, 5_000, 100, 2_000


async def one_step_turns() -> Sample:
    """Followup and when_idle, against the floor."""
    pair, floor = Pair(), TurnFloor()
    async with agent_of(Prebuilt()) as agent, trio.open_nursery() as nursery:
        nursery.start_soon(floor.serve)
        await turns(agent, 20)
        await floor.turns(100)
        for _ in range(SLICES):
            with pair.ours.time(100):
                await turns(agent, 100)
            with pair.floor.time(400):
                await floor.turns(400)
        floor.stop()
    return pair.sample()


async def late_turns() -> Sample:
    """A window of turns late in a session, against one of an early one."""
    pair = Pair()
    async with agent_of(Prebuilt()) as late, agent_of(Prebuilt()) as early:
        await turns(late, LATE - WINDOW // 2)
        await turns(early, EARLY - WINDOW // 2)
        await _alternate(pair, late, early, WINDOW // SLICES)
    return pair.sample()


async def among_neighbours() -> Sample:
    """A turn in a host of idle agents, against a turn alone."""
    pair = Pair()
    async with agent_of(Prebuilt()) as alone, Host() as host:
        host.models.register("bench", Prebuilt())
        for _ in range(NEIGHBOURS):
            await host.agents.create(agent_options=OPTIONS)
        crowded = (await host.agents.create(agent_options=OPTIONS)).agent
        await turns(alone, 20)
        await turns(crowded, 20)
        await _alternate(pair, crowded, alone, 100)
    return pair.sample()


async def with_listeners() -> Sample:
    """A turn of two streamed answers and a tool call with three listeners on every hook point, against one without."""
    pair = Pair()
    async with agent_of(_calling(), listen_everywhere) as heard, agent_of(_calling()) as unheard:
        await turns(heard, 20)
        await turns(unheard, 20)
        await _alternate(pair, heard, unheard, 60)
    return pair.sample()


def _calling() -> Prebuilt:
    """A model that says ten words, and asks for one call in every other answer; repeated call ids are made unique."""
    said = text_answer("word ", 10)
    return Pacing(cycle([[*said[:-1], *tool_answer(["call"], start=1)], said]))


def listen_everywhere(host: Host) -> None:
    """Three listeners on every hook point, each the least that takes part."""
    for point in POINTS:
        for _ in range(3):
            host.on(cast("Any", point), _LISTENERS[point.mode])


def _hear(payload: Any) -> None:  # noqa: ARG001 - the interface
    return


async def _await(payload: Any) -> None:  # noqa: ARG001 - the interface
    return


async def _pass_on(payload: Any, next: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ARG001 - the interface
    return await next()


_LISTENERS: dict[Mode, Callable[..., Any]] = {Mode.EMIT: _hear, Mode.SERIAL: _await, Mode.WATERFALL: _pass_on}


async def _alternate(pair: Pair, ours: Agent, floor: Agent, count: int) -> None:
    for _ in range(SLICES):
        with pair.ours.time(count):
            await turns(ours, count)
        with pair.floor.time(count):
            await turns(floor, count)


BENCHMARKS: list[Benchmark] = [
    Benchmark(
        "turn",
        "a one-step turn (followup, when_idle); floor: park on an event, wake, open a cancel scope, iterate an async "
        "generator of one chunk, signal done",
        "µs/turn",
        8.0,
        one_step_turns,
    ),
    Benchmark(
        "late-turn",
        "turns around the 5,000th of a session; floor: turns around the 100th",
        "µs/turn",
        1.1,
        late_turns,
        warm_up=False,
    ),
    Benchmark(
        "neighbours",
        "a one-step turn with 2,000 idle agents in the host; floor: the same turn alone",
        "µs/turn",
        1.1,
        among_neighbours,
        warm_up=False,
    ),
    Benchmark(
        "listeners",
        "a turn of two answers of ten words, one with a tool call, from a model with a checkpoint per chunk, with three "
        "listeners on every hook point; floor: the same without",
        "µs/turn",
        1.6,
        with_listeners,
    ),
]
"""The benchmarks of this module."""
