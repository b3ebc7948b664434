"""How the cost of one unit of work grows with what there is more and more of: one curve each."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import trio
from attrs import frozen

from treadle import AgentOptions, Host, Tool, ToolRun
from treadle.hooks import ASSISTANT_STREAM
from treadle_adapters.stores.jsonl import JsonlStore

from .measure import SLICES, Meter
from .stores import session_of, without_collector, written
from .subjects import OPTIONS, Pacing, Prebuilt, Stepping, agent_of, text_answer, tool_answer, turns

EVENTS_PER_TURN = 8
"""Of the sessions that are resumed."""


@frozen
class Growth:
    """One curve.

    Attributes:
        name: of what there is more and more.
        what: is measured, in a sentence.
        unit: of the cost.
        sizes: at which it is measured.
        take: the cost at a size, in processor time; the median of several slices.
        flat: whether the contract says that the cost does not grow.
    """

    name: str
    what: str
    unit: str
    sizes: tuple[int, ...]
    take: Callable[[int], Awaitable[float]]
    flat: bool = True


async def _slices(do: Callable[[], Awaitable[None]], units: int, slices: int = SLICES) -> float:
    each: list[float] = []
    for _ in range(slices):
        meter = Meter()
        with meter.time(units):
            await do()
        each.append(meter.each)
    return median(each)


async def _at_turn(number: int) -> float:
    async with agent_of(Prebuilt()) as agent:
        await turns(agent, number)
        return await _slices(lambda: turns(agent, 40), 40)


async def _among_agents(count: int) -> float:
    async with Host() as host:
        host.models.register("bench", Prebuilt())
        for _ in range(count - 1):
            await host.agents.create(agent_options=OPTIONS)
        agent = (await host.agents.create(agent_options=OPTIONS)).agent
        await turns(agent, 20)
        return await _slices(lambda: turns(agent, 40), 40)


async def _of_events(events: int) -> float:
    count = events // EVENTS_PER_TURN
    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as name:
        written(Path(name), session_of("long", count))
        each: list[float] = []
        for _ in range(3):
            (Path(name) / "long.checkpoint").unlink(missing_ok=True)
            meter = Meter()
            async with Host(store=JsonlStore(name)) as host:
                with without_collector(), meter.time(events):
                    handle = await host.agents.resume("long", agent_options=AgentOptions(provider="bench", model="m"))
                await handle.dispose(keep_inbox=True)
            each.append(meter.each)
        return median(each)


async def _with_listeners(count: int) -> float:
    def listen(host: Host) -> None:
        for _ in range(count):
            host.on(ASSISTANT_STREAM, lambda told: None)  # noqa: ARG005 - the interface

    async with agent_of(Pacing([text_answer("word ", 1_000)] * (SLICES + 1)), listen) as agent:
        await turns(agent, 1)
        return await _slices(lambda: turns(agent, 1), 1_000)


async def _with_tools(count: int) -> float:
    def register(host: Host) -> None:
        for number in range(count - 1):
            host.tools.register(Tool(f"other-{number}", "Does something else.", {"type": "object"}, _nothing))

    answers = [tool_answer([f"call-{number}"]) for number in range(50 * (SLICES + 1))]
    model = Stepping(answers)
    async with agent_of(model, register) as agent:
        model.hold(50)
        agent.followup("go")
        await model.held()
        cost = await _slices(partial(model.advance, 40), 40)
        model.release()
        await agent.when_idle()
        return cost


async def _nothing(arguments: dict[str, Any], run: ToolRun) -> str:  # noqa: ARG001 - the interface
    return ""


async def _of_chunks(count: int) -> float:
    each: list[float] = []
    for _ in range(SLICES if count < 50_000 else 3):
        async with agent_of(Prebuilt([text_answer("word ", count)])) as agent:
            meter = Meter()
            with meter.time(count):
                await turns(agent, 1)
            each.append(meter.each)
    return median(each)


TENS = (10, 100, 1_000, 10_000)

GROWTH: tuple[Growth, ...] = (
    Growth("turns", "a turn after so many turns of its session", "µs/turn", TENS, _at_turn),
    Growth("events", "an event of a log of so many that is resumed, without a checkpoint", "µs/event",
           (1_000, 10_000, 100_000), _of_events),
    Growth("agents", "a turn in a host of so many agents", "µs/turn", TENS, _among_agents),
    Growth("tools", "a step of a tool turn with so many tools", "µs/step", (1, 10, 100, 1_000), _with_tools),
    Growth("chunks", "a chunk of an answer of so many, its turn included", "µs/chunk", (1_000, 10_000, 100_000), _of_chunks),
    Growth("listeners", "a chunk that so many listeners hear, from a model that checkpoints before each", "µs/chunk",
           (1, 2, 4, 8, 16), _with_listeners, flat=False),
)  # fmt: skip
"""All curves."""


def measure(growth: Growth, most: int | None = None, rounds: int = 2) -> list[tuple[int, float]]:
    """The points of a curve: sizes, up to ``most``, with what a unit costs; the least of some rounds over all sizes."""
    sizes = [size for size in growth.sizes if most is None or size <= most]
    taken = [[trio.run(growth.take, size) for size in sizes] for _ in range(rounds)]
    return [(size, min(costs)) for size, *costs in zip(sizes, *taken, strict=True)]
