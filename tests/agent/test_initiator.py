"""Which agent started this: carried through tasks, threads and nurseries; attribution only (O7, O16)."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.hosts import create, hosted
from treadle import Agent, Answer, Call, Host, MisuseError, tool
from treadle.agent import current_initiator
from treadle.hooks import AGENT_STATUS, PRE_STEP, Scope


@pytest.mark.rule("O7")
async def test_the_initiator_reaches_tools_their_tasks_and_their_threads() -> None:
    seen: dict[str, Agent | None] = {}

    @tool
    def in_thread() -> str:
        seen["thread"] = current_initiator()
        return "x"

    @tool
    async def in_tasks() -> str:
        seen["tool"] = current_initiator()

        async def child() -> None:
            await trio.lowlevel.checkpoint()
            seen["task"] = current_initiator()
            seen["from thread"] = await trio.to_thread.run_sync(current_initiator)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
        return "x"

    async with hosted(Answer(calls=[Call("in_thread"), Call("in_tasks")]), "done") as host:
        host.tools.register(in_thread)
        host.tools.register(in_tasks)
        handle = await create(host)

        async def hook(payload: Any, proceed: Any) -> Any:
            seen["hook"] = host.agents.require_initiator()
            return await proceed()

        host.on(PRE_STEP, hook)
        assert host.agents.current_initiator() is None
        handle.agent.followup("go")
        assert current_initiator() is None
        await handle.agent.when_idle()
        assert set(seen) == {"thread", "tool", "task", "from thread", "hook"}
        assert all(agent is handle.agent for agent in seen.values())


@pytest.mark.rule("O7")
async def test_the_driver_runs_in_the_hosts_context_and_not_in_the_senders() -> None:
    async with hosted(Answer(calls=[Call("send")]), "done", "done") as host:
        first, second = await create(host, "a"), await create(host, "b")
        seen: list[Agent | None] = []

        @tool
        async def send() -> str:
            second.agent.followup("from a")
            return "x"

        async def hook(payload: Any, proceed: Any) -> Any:
            if payload.agent is second.agent:
                seen.append(current_initiator())
            return await proceed()

        host.tools.register(send)
        host.on(PRE_STEP, hook)
        first.agent.followup("go")
        await first.agent.when_idle()
        await second.agent.when_idle()
        assert seen == [second.agent]


@pytest.mark.rule("O7", "O16")
async def test_boundaries_set_and_hide_the_initiator_and_give_back_exact_values() -> None:
    async with hosted() as host:
        agent = (await create(host)).agent
        agents, value = host.agents, object()
        assert agents.with_initiator(agent, lambda: value) is value
        assert agents.with_initiator(agent, current_initiator) is agent
        assert agents.with_initiator(agent, lambda: agents.without_initiator(current_initiator)) is None

        async def operation() -> tuple[object, Agent | None]:
            await trio.lowlevel.checkpoint()
            return value, current_initiator()

        assert await agents.with_initiator(agent, operation) == (value, agent)
        assert await agents.without_initiator(operation) == (value, None)
        assert current_initiator() is None
        with pytest.raises(ZeroDivisionError):
            agents.with_initiator(agent, lambda: 1 // 0)
        with pytest.raises(MisuseError, match="no agent started this"):
            agents.require_initiator()


@pytest.mark.rule("O7")
async def test_shared_background_work_does_not_bear_the_name_of_whoever_started_it() -> None:
    async with hosted() as host, trio.open_nursery() as nursery:
        agent = (await create(host)).agent
        seen: list[Agent | None] = []

        async def pump() -> None:
            seen.append(current_initiator())

        host.agents.with_initiator(agent, lambda: host.agents.without_initiator(lambda: nursery.start_soon(pump)))
        host.agents.with_initiator(agent, lambda: nursery.start_soon(pump))
        await wait_all_tasks_blocked()
        assert sorted(seen, key=lambda one: one is None) == [agent, None]


@pytest.mark.rule("O16")
async def test_in_setup_the_initiator_is_the_causal_parent() -> None:
    seen: list[Any] = []

    async def setup(scope: Scope, agent: Agent) -> None:
        seen.append((current_initiator(), agent))

    async with hosted(Answer(calls=[Call("spawn")]), "done") as host:
        parent = (await create(host, "p")).agent

        @tool
        async def spawn() -> str:
            await create(host, "c", parent_agent=parent, setup=setup)
            return "x"

        host.tools.register(spawn)
        parent.followup("go")
        await parent.when_idle()
        assert seen == [(parent, host.agents.get("c"))]


@pytest.mark.rule("O16")
async def test_teardown_drains_open_boundaries_and_refuses_new_ones(autojump_clock: MockClock) -> None:
    told: list[str] = []

    async def work(host: Host, agent: Agent) -> None:
        await trio.sleep(10)
        told.append("work done")
        for attempt in (lambda: host.agents.with_initiator(agent, int), lambda: host.agents.without_initiator(int)):
            try:
                attempt()
            except MisuseError:
                told.append("refused")
        assert host.agents.current_initiator() is agent

    async with trio.open_nursery() as nursery:
        async with hosted() as host:
            agent = (await create(host)).agent

            async def run() -> None:
                await host.agents.with_initiator(agent, lambda: work(host, agent))

            nursery.start_soon(run)
            await wait_all_tasks_blocked()
        told.append("closed")
        with pytest.raises(MisuseError, match="disposed"):
            host.agents.current_initiator()
        with pytest.raises(MisuseError, match="disposed"):
            host.agents.require_initiator()
    assert told == ["work done", "refused", "refused", "closed"]


@pytest.mark.rule("O16")
async def test_the_lineage_that_started_the_teardown_is_not_waited_for(autojump_clock: MockClock) -> None:
    async with hosted() as host:
        agent = (await create(host)).agent

        async def inner() -> None:
            with trio.fail_after(5):
                await host.agents.drained()

        await host.agents.with_initiator(agent, lambda: host.agents.without_initiator(inner))
        with pytest.raises(MisuseError, match="disposed"):
            host.agents.current_initiator()


@pytest.mark.rule("O7", "D4")
async def test_notices_of_a_delivery_run_in_the_senders_context() -> None:
    async with hosted("done") as host:
        agent = (await create(host)).agent
        seen: list[Agent | None] = []
        host.on(AGENT_STATUS, lambda told: seen.append(current_initiator()))
        agent.followup("go")
        await agent.when_idle()
        assert seen[0] is None


@pytest.mark.rule("O16")
async def test_an_awaitable_that_is_under_way_already_is_given_back_as_it_is() -> None:
    async with hosted() as host:
        handle = await create(host)
        ending = host.agents.with_initiator(handle.agent, handle.dispose)
        assert ending is handle.dispose()
        await ending
