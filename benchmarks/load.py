"""A host of agents whose answers all come in at once: how long a cancel takes, how late the loop is, and whether each agent is served.

Beside ``streams``, which loads an adapter alone, this loads all of it: agents with their turns, logs and a listener, over HTTP. Times
are processor time of the loop's thread, the server runs in the same loop, and the load is paced, as told there.
"""

from __future__ import annotations

import time
from collections import Counter, deque

import trio
from attrs import define, field, frozen

from treadle import Agent, AgentOptions, Host
from treadle.hooks import ASSISTANT_STREAM, AssistantStream, FrameChunk
from treadle.models import TextDelta
from treadle_adapters.models.openai_chat import OpenAIChat

from .measure import Benchmark, Sample
from .streams import EVERY, STREAMS, Server, allow_files, high, own_time

CANCELS, PAUSE = 200, 0.02
"""Turns that are cancelled, and seconds from one to the next; each agent is given another turn at once."""

OPTIONS = AgentOptions(provider="bench", model="m")


@frozen
class Carried:
    """What a process carried.

    Attributes:
        agents: as many, each with an answer that comes in.
        cancel: 99th percentile from a cancel until the agent is idle, in milliseconds of processor time.
        lag: 99th percentile of what a task waits for its next turn, in the same.
        least: the share of its deltas that the agent got which got the fewest, of those that nobody cancelled.
        share: of the processor's time, how much the process took.
    """

    agents: int
    cancel: float
    lag: float
    least: float
    share: float


@define
class _Load:
    host: Host
    nursery: trio.Nursery
    agents: list[Agent] = field(factory=list[Agent])
    heard: Counter[str] = field(factory=Counter[str])
    cancels: list[float] = field(factory=list[float])
    late: list[float] = field(factory=list[float])
    _silent: set[str] = field(factory=set[str])
    _all_heard: trio.Event = field(factory=trio.Event)

    def hear(self, told: AssistantStream) -> None:
        """Count the deltas of each agent."""
        frame = told.frame
        if type(frame) is FrameChunk and type(frame.chunk) is TextDelta:
            self.heard[told.agent.id] += 1
            if told.agent.id in self._silent:
                self._silent.remove(told.agent.id)
                if not self._silent:
                    self._all_heard.set()

    async def fill(self, count: int) -> None:
        """Give agents a turn, a few at a time, and wait until each brings something."""
        while len(self.agents) < count:
            fresh = [(await self.host.agents.create(agent_options=OPTIONS)).agent for _ in range(min(50, count))]
            self._silent, self._all_heard = {agent.id for agent in fresh}, trio.Event()
            for agent in fresh:
                agent.followup("go")
            await self._all_heard.wait()
            self.agents += fresh

    async def replace(self, agent: Agent) -> None:
        """Cancel an agent's turn, and give it another when it is idle."""
        before = time.thread_time()
        agent.cancel()
        await agent.when_idle()
        self.cancels.append(1_000 * (time.thread_time() - before))
        agent.followup("go")

    async def beat(self) -> None:
        """Note how long everybody else takes between two turns of one task."""
        while True:
            before = time.thread_time()
            await trio.lowlevel.checkpoint()
            self.late.append(1_000 * (time.thread_time() - before))
            await trio.sleep(0.002)

    async def cancel_some(self) -> None:
        """Cancel agents one after the other, paced by the loop's own time, and wait until all of these are idle."""
        begun = own_time()
        async with trio.open_nursery() as nursery:
            for number in range(CANCELS):
                nursery.start_soon(self.replace, self.agents[number % (len(self.agents) // 2)])
                while own_time() < begun + (number + 1) * PAUSE:  # noqa: ASYNC110 - it is no event that is waited for
                    await trio.sleep(PAUSE)


async def carry(agents: int) -> Carried:
    """Load a host with so many agents, and measure while some are cancelled."""
    allow_files(agents)
    async with trio.open_nursery() as nursery, Host() as host:
        server = Server()
        port = await nursery.start(server.serve)
        async with OpenAIChat(f"http://127.0.0.1:{port}") as model:
            host.models.register("bench", model)
            load = _Load(host, nursery)
            host.on(ASSISTANT_STREAM, load.hear)
            nursery.start_soon(server.pace)
            await load.fill(agents)
            await trio.sleep(2 * EVERY)  # what the burst of requests heaped up is over
            nursery.start_soon(load.beat)
            begun, worked, before = own_time(), time.thread_time(), Counter(load.heard)
            await load.cancel_some()
            took = own_time() - begun
            least = min([load.heard[agent.id] - before[agent.id] for agent in load.agents[agents // 2 :]])
            share = (time.thread_time() - worked) / took
            for agent in load.agents:
                agent.cancel()
            for agent in load.agents:
                await agent.when_idle()
        nursery.cancel_scope.cancel()
    return Carried(agents, high(load.cancels), high(load.late), least * EVERY / took, share)


_waiting: dict[str, deque[Carried]] = {name: deque() for name in ("cancel", "lag", "least")}
"""Of each load, what the rows have not asked for yet: a round has one load for all of them."""


async def _asked(name: str) -> Sample:
    if not _waiting[name]:
        carried = await carry(STREAMS)
        for each in _waiting.values():
            each.append(carried)
    return Sample(getattr(_waiting[name].popleft(), name))


async def cancel() -> Sample:
    """From the cancel of an agent until it is idle."""
    return await _asked("cancel")


async def lag() -> Sample:
    """How long a task waits for its next turn."""
    return await _asked("lag")


async def least() -> Sample:
    """The share of its deltas that the agent got which got the fewest."""
    return await _asked("least")


BENCHMARKS = [
    Benchmark(
        "many-agents-cancel",
        f"p99 of a cancel, until the agent is idle, among {STREAMS} agents that are answered by {1 / EVERY:g} deltas a second each",
        "CPU ms",
        300.0,
        cancel,
        "at-most",
        warm_up=False,
    ),
    Benchmark(
        "many-agents-lag", "p99 of the loop's lag under that load", "CPU ms", 100.0, lag, "at-most", warm_up=False
    ),
    Benchmark(
        "many-agents-served",
        "share of its deltas that the agent gets which gets the fewest under that load",
        "of 1",
        0.9,
        least,
        "at-least",
        warm_up=False,
    ),
]
"""The benchmarks of this module; ``TREADLE_STREAMS=2000`` for as many agents."""
