"""Many agents in one host: cheap when idle, sound when all work at once and are stopped at random."""

import gc
import random
import time
import tracemalloc
from collections import Counter
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.hosts import OPTIONS, create, hosted
from tests.invariants import check_invariants
from tests.stage import reason
from treadle import AgentHandle, Answer, Call, Host, ModelRequest, ScriptedModel, tool
from treadle.hooks import AGENT_CREATED, AGENT_DISPOSED
from treadle.session import TurnEnd

pytestmark = pytest.mark.slow

AGENTS = 500
SECONDS = 60.0


@pytest.mark.rule("L7", "O1")
async def test_two_thousand_idle_agents_are_cheap() -> None:
    count, costs = 2_000, []
    async with hosted() as host:
        await create(host)
        gc.collect()
        for _ in range(4):
            begun = time.process_time()
            for _ in range(count // 4):
                await create(host)
            created = time.process_time()
            for _ in range(count // 4):
                await trio.lowlevel.checkpoint()
            costs.append((created - begun) / (time.process_time() - created))
        assert len(host.agents) == count + 1
        assert min(costs) <= 30, f"in checkpoints of trio, each some 3.4 µs on an idle machine: {costs}"
    async with hosted() as host:
        await create(host)
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(count):
                await create(host)
            gc.collect()
            each = (tracemalloc.get_traced_memory()[0] - before) / count
        finally:
            tracemalloc.stop()
        assert each <= 5 * 1024, each


class Crowd:
    """Agents that are created, asked, steered, cancelled and disposed at random for a while."""

    def __init__(self, host: Host, seed: int) -> None:
        self.host = host
        self.random = random.Random(seed)
        self.handles: list[AgentHandle] = []
        self.everybody: list[Any] = []
        self.made = self.gone = 0
        host.on(AGENT_CREATED, self._count_made)
        host.on(AGENT_DISPOSED, self._count_gone)
        host.tools.register(self._tool())

    def _count_made(self, _: object) -> None:
        self.made += 1

    def _count_gone(self, _: object) -> None:
        self.gone += 1

    def _tool(self) -> Any:
        chance = self.random

        @tool(parallel=True)
        async def work(run: Any) -> str:
            """Sleep, delegate, or clean up slowly."""
            await trio.sleep(chance.random())
            depth = run.agent.session.header.delegation_depth
            if depth < 2 and chance.random() < 0.1:
                async with await self.host.agents.create(agent_options=OPTIONS, parent_agent=run.agent) as child:
                    self.everybody.append(child)
                    child.followup("task")
                    await child.when_idle()
            if chance.random() < 0.2:
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.2)
            return "x"

        return work

    async def add(self) -> None:
        handle = await create(self.host)
        self.handles.append(handle)
        self.everybody.append(handle.agent)

    async def disturb(self) -> None:
        """One random act on one random agent."""
        handle = self.random.choice(self.handles)
        agent = handle.agent
        act = self.random.choices(("followup", "steer", "inject", "cancel", "keep", "dispose"), (8, 3, 3, 4, 2, 1))[0]
        if act == "cancel":
            agent.cancel("user")
        elif act == "keep":
            agent.cancel("user", keep_inbox=True)
        elif act == "dispose":
            self.handles.remove(handle)
            handle.dispose(keep_inbox=self.random.random() < 0.5)
            await self.add()
        else:
            getattr(agent, act)("more")

    async def run(self) -> None:
        for _ in range(AGENTS):
            await self.add()
        for handle in self.handles:
            handle.agent.followup("go")
        end = trio.current_time() + SECONDS
        while trio.current_time() < end:
            for _ in range(self.random.randrange(40)):
                await self.disturb()
            await trio.sleep(self.random.random())


def play(request: ModelRequest) -> Any:
    chance = random.Random(len(request.messages) * 7919 + len(request.session_id))
    if len(request.messages) % 3 and chance.random() < 0.7:
        return Answer("thinking", calls=[Call("work")] * chance.randrange(1, 4))
    return "done with that"


@pytest.mark.rule("N1", "N2", "N3", "N6", "N7", "O4", "O6")
async def test_five_hundred_agents_at_once_survive_random_cancels_and_disposals(
    autojump_clock: MockClock,
) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    model = ScriptedModel(default=play, pace=0.05)
    async with hosted(model=model) as host:
        crowd = Crowd(host, seed=1)
        await crowd.run()
        assert len(host.agents) >= AGENTS
    assert trio.lowlevel.current_statistics().tasks_living == before
    assert host.agents.list() == []
    assert crowd.made == crowd.gone == len(crowd.everybody)
    requests: dict[str, list[ModelRequest]] = {}
    for request in model.requests:
        requests.setdefault(request.session_id, []).append(request)
    for agent in crowd.everybody:
        check_invariants(agent.session, requests.get(agent.id, ())[-3:])
    ends = Counter(
        [
            reason(entry.data.reason)
            for one in crowd.everybody
            for entry in one.session.events
            if isinstance(entry.data, TurnEnd)
        ]
    )
    assert {"completed", "aborted user", "aborted disposed", "aborted parent"} <= set(ends)
    assert set(ends) <= {"completed", "aborted user", "aborted disposed", "aborted parent"}
    assert ends["completed"] > 1_000
    assert ends["aborted user"] > 100
