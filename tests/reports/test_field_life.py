"""Faults of the field in what tools, hooks and children do to the life of an agent: each test is named after one."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.hosts import OPTIONS, create, hosted
from tests.stage import Gate, note, settled, stage, talk
from treadle import Answer, Call, Host, MisuseError, ScriptedModel, Signal, StoreFailure, Tool, subagent, tool
from treadle.errors import DelegationLimit, ParentCancelled
from treadle.hooks import AGENT_CREATED, AGENT_STATUS, LLM_STREAM, PRE_STEP, SESSION_FLUSH
from treadle_adapters.stores import open_store

# --- children of a cancelled parent (A7) ------------------------------------------------------------------------------


@pytest.mark.rule("O6", "C9")
@pytest.mark.parametrize("begun", ["after the cancel", "before it"])
async def test_a_shielded_tool_of_a_cancelled_turn_creates_no_child(begun: str) -> None:
    gate, told = Gate(), []

    async def setup(scope: Any, agent: Any) -> None:
        if begun == "before it":
            await gate.wait()

    @tool
    async def delegate() -> None:
        with trio.CancelScope(shield=True):
            if begun == "after the cancel":
                await gate.wait()
            try:
                await s.host.agents.create(parent_agent=s.agent, agent_options=OPTIONS, setup=setup)
            except ParentCancelled as error:
                told.append(error)

    async with stage(Answer(calls=[Call("delegate")]), tools=[delegate]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        gate.open()
        await s.agent.when_idle()
        assert len(told) == 1
        assert s.host.agents.list() == [s.agent]


@pytest.mark.rule("O6", "C9")
async def test_a_shielded_tool_of_a_cancelled_turn_that_waits_for_a_child_cancels_it() -> None:
    gate, ends = Gate(), []

    @tool
    async def delegate() -> None:
        with trio.CancelScope(shield=True):
            child = await s.host.agents.create(parent_agent=s.agent, agent_options=OPTIONS)
            await gate.wait()
            child.agent.followup("job")
            ends.append(await child.agent.when_idle())
            await child.dispose()

    async with stage(Answer(calls=[Call("delegate")]), tools=[delegate]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        gate.open()
        await s.agent.when_idle()
        assert [type(end).__name__ for end in ends] == ["Aborted"]
        assert len(s.model.requests) == 1


# --- scopes and nurseries that are left entered (A8, A9) --------------------------------------------------------------


async def leave_scope() -> None:
    trio.CancelScope().__enter__()


async def leave_cancelled_scope() -> None:
    trio.CancelScope().__enter__().cancel()


async def leave_nursery() -> None:
    nursery = await trio.open_nursery().__aenter__()
    nursery.start_soon(trio.sleep_forever)


async def leave_both() -> None:
    await leave_scope()
    await leave_nursery()
    await leave_cancelled_scope()


LEAVERS = [leave_scope, leave_cancelled_scope, leave_nursery, leave_both]


@pytest.mark.rule("L8")
@pytest.mark.parametrize("leave", LEAVERS)
@pytest.mark.parametrize("beside", [False, True])
async def test_a_tool_that_leaves_a_scope_or_nursery_entered_fails_and_the_host_lives(leave: Any, beside: bool) -> None:
    @tool(parallel=beside)
    async def sloppy() -> str:
        await leave()
        return "fine"

    calls = [Call("sloppy"), Call("sloppy")] if beside else [Call("sloppy")]
    async with stage(Answer(calls=calls), "done", "again", tools=[sloppy]) as s:
        with trio.fail_after(5):
            await s.ask("a")
            assert s.ends == ["completed"]
            assert all("entered" in text for text in s.results().values())
            assert s.log.count("result call_1 MISUSE") == 1
            await s.ask("b")
        assert s.ends == ["completed", "completed"]


@pytest.mark.rule("L8", "T9")
@pytest.mark.parametrize("leave", LEAVERS)
@pytest.mark.parametrize("point", [PRE_STEP, SESSION_FLUSH, AGENT_STATUS])
async def test_a_hook_that_leaves_a_scope_or_nursery_entered_fails_and_the_host_lives(point: Any, leave: Any) -> None:
    async def waterfall(_: Any, proceed: Any) -> Any:
        await leave()
        return await proceed()

    async def other(_: Any) -> None:
        await leave()

    async with stage("done", "again") as s:
        forget = s.agent.scope.on(point, waterfall if point is PRE_STEP else other)
        with trio.fail_after(5):
            await s.ask("a")
            await settled()
            forget()
            await s.ask("b")
        assert s.ends == (["error MISUSE", "completed"] if point is PRE_STEP else ["completed", "completed"])
        assert any("entered" in told.failure.message for told in s.errors)


@pytest.mark.rule("L8")
async def test_a_listener_that_leaves_a_scope_entered_is_told_of_and_the_host_lives() -> None:
    async with stage("done", "again") as s:
        forget = s.agent.scope.on(AGENT_STATUS, lambda _: trio.CancelScope().__enter__().cancel())
        with trio.fail_after(5):
            await s.ask("a")
            forget()
            await s.ask("b")
        assert s.ends == ["completed", "completed"]
        assert any("entered" in told.failure.message for told in s.errors)


@pytest.mark.rule("L8", "O1", "M3")
@pytest.mark.parametrize("leave", LEAVERS)
async def test_setup_and_maintenance_and_clean_ups_that_leave_something_entered_fail_and_the_host_lives(
    leave: Any,
) -> None:
    async def setup(scope: Any, agent: Any) -> None:
        await leave()

    async def maintain(_: Signal) -> None:
        await leave()

    with trio.fail_after(5):
        async with stage("done") as s:
            with pytest.raises(MisuseError, match="entered"):
                await create(s.host, setup=setup)
            with pytest.raises(MisuseError, match="entered"):
                await s.agent.run_maintenance(maintain)
            other = await create(s.host)
            other.agent.scope.defer(leave)
            with pytest.raises(BaseExceptionGroup, match="clean-ups"):
                await other.dispose()
            await s.ask("a")
            assert s.ends == ["completed"]


@pytest.mark.rule("H6", "Q5")
@pytest.mark.parametrize("failing", [False, True])
async def test_a_finished_answer_is_kept_when_a_hook_yields_inside_a_nursery(failing: bool) -> None:
    async def inside(proposal: Any, proceed: Any) -> Any:
        stream = await proceed()

        async def relay() -> Any:
            async with trio.open_nursery():
                try:
                    async for chunk in stream:
                        yield chunk
                finally:
                    if failing:
                        raise LookupError("clean-up")

        return relay()

    async with stage("the whole answer") as s:
        s.agent.scope.on(LLM_STREAM, inside)
        await s.ask("a")
        assert s.ends == ["completed"]
        assert "assistant 'the whole answer'" in s.log
        assert len(s.errors) == failing


# --- failures that nobody hears of (A11) ------------------------------------------------------------------------------


@pytest.mark.rule("N8", "M3")
@pytest.mark.parametrize("awaited", [False, True])
async def test_a_maintenance_task_that_fails_is_told_once(awaited: bool) -> None:
    async def fail(_: Signal) -> None:
        await trio.lowlevel.checkpoint()
        raise LookupError("nobody waits")

    async with stage() as s:
        running = s.agent.run_maintenance(fail)
        if awaited:
            with pytest.raises(LookupError):
                await running
        await s.agent.when_idle()
        assert [type(told.error) for told in s.errors] == ([] if awaited else [LookupError])


@pytest.mark.rule("N8")
async def test_the_traceback_of_a_failing_tool_is_in_the_log_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def fail() -> None:
        raise LookupError("deep inside")

    caplog.set_level(logging.DEBUG, "treadle")
    async with stage(Answer(calls=[Call("fail")]), "done", tools=[fail]) as s:
        await s.ask("a")
    assert any(record.exc_info and "deep inside" in str(record.exc_info[1]) for record in caplog.records)


# --- bounds (A12) -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("O6", "T11")
async def test_a_model_that_always_delegates_comes_to_an_end() -> None:
    model = ScriptedModel(default=lambda request: Answer(calls=[Call("subagent", {"prompt": "you do it"})]))
    most = 0

    def count(_: Any) -> None:
        nonlocal most
        most = max(most, len(s.host.agents))

    async with stage(model=model, tools=[subagent()], max_steps_per_turn=5) as s:
        s.host.on(AGENT_CREATED, count)
        with trio.fail_after(30):
            await s.ask("a")
        assert s.ends == ["error STEP_LIMIT"]
        assert most == 2


@pytest.mark.rule("O6")
async def test_a_child_is_offered_the_delegate_tool_only_when_told() -> None:
    async def offered(**made: Any) -> list[str]:
        model = ScriptedModel([Answer(calls=[Call("delegate", {"prompt": "x"})]), "child", "done"])
        async with stage(model=model, tools=[subagent("delegate", **made), subagent("other")]) as s:
            await s.ask("a")
            return [one.name for one in model.requests[1].tools]

    assert await offered() == []
    assert await offered(max_depth=3) == ["delegate", "other"]


@pytest.mark.rule("O6", "T11")
async def test_depth_live_children_and_steps_are_bounded_unless_told_otherwise_and_the_failure_names_the_option() -> (
    None
):
    async with hosted() as host:
        assert host.max_delegation_depth is not None
        top = parent = (await create(host)).agent
        for _ in range(host.max_delegation_depth):
            parent = (await create(host, parent_agent=parent)).agent
        with pytest.raises(DelegationLimit, match="max_delegation_depth"):
            await create(host, parent_agent=parent)
        assert top.options.max_steps_per_turn == 1_000
    async with Host(max_live_children=3) as host:
        top = (await create(host)).agent
        first = await create(host, parent_agent=top)
        await create(host, parent_agent=first.agent)
        await create(host, parent_agent=top)
        for parent in (top, first.agent):
            with pytest.raises(DelegationLimit, match="max_live_children"):
                await create(host, parent_agent=parent)
        await first.dispose()
        await create(host, parent_agent=top)


@pytest.mark.rule("O6", "C10")
@pytest.mark.parametrize(("width", "depth"), [(1, 200), (14, 2), (199, 1)])
async def test_a_cancel_stops_a_tree_of_two_hundred_agents_at_once(
    width: int, depth: int, autojump_clock: MockClock
) -> None:
    def reply(request: Any) -> Any:
        agent = s.host.agents.get(request.session_id)
        assert agent is not None
        if agent.session.header.delegation_depth < depth:
            return Answer(calls=[Call("delegate", {"prompt": "x"}) for _ in range(width)])
        return Answer("slow")

    host = Host(max_delegation_depth=None, max_live_children=None)
    model = ScriptedModel(default=reply)
    made = subagent("delegate", max_depth=1_000, parallel=True)
    total = sum(width**level for level in range(depth + 1))
    async with stage(model=model, host=host, tools=[made], listen=False, max_parallel_tool_calls=width) as s:
        waiting = Gate()

        async def hold(proposal: Any, proceed: Any) -> Any:
            if proposal.agent.session.header.delegation_depth == depth:
                await waiting.wait()
            return await proceed()

        s.host.on(PRE_STEP, hold)
        s.agent.followup("go")
        while len(s.host.agents) < total:
            await trio.lowlevel.checkpoint()
        await settled()
        began = trio.current_time()
        s.agent.cancel()
        with trio.fail_after(60):
            await s.agent.when_idle()
        assert trio.current_time() - began < 1
        assert s.host.agents.list() == [s.agent]
        assert s.ends == ["aborted user"]


@pytest.mark.rule("T11", "L3")
async def test_steering_that_the_step_limit_keeps_out_is_parked_and_told_and_the_answer_is_whole() -> None:
    gate = Gate()
    async with stage(talk("the whole answer", gate), max_steps_per_turn=1) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.steer(note("s"))
        gate.open()
        await s.agent.when_idle()
        assert "assistant 'the whole answer'" in s.log
        assert s.ends == ["error STEP_LIMIT"]
        assert s.notices[-2:] == ["status idle", "parked s"]
        assert "what is due would take another" in s.errors[0].failure.message


# --- time (A13) -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("K1", "C10")
@pytest.mark.parametrize("abandon", [False, True])
async def test_a_synchronous_tool_that_takes_too_long_gives_a_timeout(abandon: bool) -> None:
    def slow(arguments: Any, run: Any) -> str:
        time.sleep(0.3)
        return "late"

    one = Tool("slow", "", {"type": "object"}, slow, timeout=0.05, abandon_on_cancel=abandon)
    async with stage(Answer(calls=[Call("slow")]), "done", tools=[one]) as s:
        await s.ask("a")
        assert "result call_1 TOOL_TIMEOUT" in s.log
        assert s.ends == ["completed"]


# --- detaching, and what a receipt says (A15, A16) --------------------------------------------------------------------


@pytest.mark.rule("O15", "O6")
async def test_a_child_that_is_detached_during_its_own_dispatch_is_disowned() -> None:
    ended: list[str] = []
    async with hosted() as host:
        parent = await create(host)
        made = await create(host)
        agent = made.agent
        host.agents._entries.pop(agent.id)

        async def end(keep_inbox: bool) -> None:
            ended.append(agent.id)

        detach = host.agents.enter(agent, parent.agent, end)
        forget = host.on(AGENT_CREATED, lambda _: detach())
        with pytest.raises(Exception, match="taken out"):
            await host.agents.announce(agent, "startup")
        forget()
        await parent.dispose()
        assert ended == []


@pytest.mark.rule("P8", "D8")
@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
async def test_a_durable_outcome_is_on_disk_when_it_is_told(kind: str, tmp_path: Path) -> None:
    gate = Gate()
    async with (
        open_store(kind, tmp_path) as store,
        hosted(talk("x", gate), store=store) as host,
        await create(host, "s") as agent,
    ):
        receipt = agent.followup(note("a"))
        await gate.reached()
        await receipt.outcome(durable=True)
        stored = await store.inspect("s")
        assert "user/message" in [entry.type for entry in stored.events]
        gate.open()
        await agent.when_idle()


@pytest.mark.rule("P8", "D8")
async def test_a_durable_outcome_raises_what_the_flush_failed_with() -> None:
    async def fail(_: Any) -> None:
        raise StoreFailure("the disk is full")

    async with stage("x") as s:
        s.agent.scope.on(SESSION_FLUSH, fail)
        receipt = s.agent.followup(note("a"))
        with pytest.raises(StoreFailure, match="the disk is full"):
            await receipt.outcome(durable=True)
        assert await receipt.outcome() == receipt.fate
        await s.agent.when_idle()
        assert all(told.failure.code == "STORE_FAILURE" for told in s.errors)
