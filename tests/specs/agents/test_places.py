"""No place is missed: what a check counts equals a count that is made without it."""

from __future__ import annotations

import math

import pytest
import trio
import trio.testing

from treadle import AgentOptions, Answer, Call, Host, MemoryStore, Retries, State, subagent, tool
from treadle_specs.agents import Scenario, Turn, check_agent
from treadle_specs.agents.answers import PlayedModels
from treadle_specs.agents.faults import Faults

SCENARIOS = {
    "text": Scenario([Turn("One.", "First."), Turn("Two.", "Second.")]),
    "tools": Scenario(
        [Turn("Go.", Answer(calls=[Call("wait", {"seconds": 1}), Call("wait", {"seconds": 2})]), "It is done.")]
    ),
    "a sub-agent": Scenario(
        [Turn("Go.", Answer(calls=[Call("delegate", {"prompt": "it"})]), "It is done.")],
        children={"it": [Answer(calls=[Call("wait", {"seconds": 3})]), "Done it."]},
    ),
}


def make_agent(host: Host) -> AgentOptions:
    async def wait(seconds: float) -> str:
        """Wait."""
        await trio.sleep(seconds)
        return "waited"

    host.tools.register(tool(wait, parallel=True))
    host.tools.register(subagent("delegate", "Delegate."))
    return AgentOptions("scripted", "scripted")


class Batches(trio.abc.Instrument):
    """Counts the batches in which another task than the main one runs."""

    def __init__(self) -> None:
        self.count = 0
        self.main: trio.lowlevel.Task | None = None
        self.counted = True

    def after_io_wait(self, timeout: float) -> None:
        self.counted = False

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        root = task.parent_nursery is None or task is self.main
        if not self.counted and not root:
            self.counted = True
            self.count += 1


async def counted(scenario: Scenario, clock: trio.testing.MockClock) -> int:
    """Batches, and moments at which all wait, while the turns run."""
    rests, batches = 0, Batches()
    async with Host(store=MemoryStore(), checks=True, retries=Retries(lambda: 0.5)) as host:
        host.models = PlayedModels(scenario.answers, Faults())
        agent = (await host.agents.create(agent_options=make_agent(host))).agent
        await trio.testing.wait_all_tasks_blocked()
        batches.main = trio.lowlevel.current_task()
        trio.lowlevel.add_instrument(batches)
        for turn in scenario.turns:
            agent.followup(turn.prompt)
            while True:
                await trio.testing.wait_all_tasks_blocked()
                rests += 1
                if agent.state is State.IDLE:
                    break
                ahead = trio.lowlevel.current_statistics().seconds_to_next_deadline
                assert not math.isinf(ahead)
                clock.jump(ahead)
        trio.lowlevel.remove_instrument(batches)
    return batches.count + rests


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_places_are_all_batches_and_all_rests(name: str) -> None:
    scenario, clock = SCENARIOS[name], trio.testing.MockClock()
    report = check_agent(make_agent, scenario, sweeps=[])
    assert report.places == trio.run(counted, scenario, clock, clock=clock)


@pytest.mark.slow
def test_each_place_is_swept_by_each_deed() -> None:
    report = check_agent(make_agent, SCENARIOS["text"], sweeps=["cancel", "dispose", "steer", "followup", "die"])
    assert {report.swept[deed] for deed in ("cancel", "dispose", "steer", "followup")} == {report.places}
    assert report.swept["die"] == report.deaths > report.places
    assert report.unreached == 0


@pytest.mark.slow
def test_each_number_of_events_is_left_by_some_death() -> None:
    lengths: set[int] = set()

    def invariant(world) -> None:
        if world.life == 2:
            lengths.add(next((e.seq for e in world.events if e.type == "end-seed"), len(world.events)))

    check_agent(make_agent, SCENARIOS["text"], sweeps=["die"], invariant=invariant)
    assert len(lengths) > 10
