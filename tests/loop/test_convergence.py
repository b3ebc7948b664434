"""From a cancel until everything has settled (contract §6 C4, C10, C11)."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from tests.stage import Gate, Stage, leaves, note, settled, stage, talk
from treadle import (
    Answer,
    Call,
    State,
    ToolOutput,
    tool,
)
from treadle.hooks import SESSION_EVENT
from treadle.models import Finish, Finished
from treadle.session import AssistantAttempt

# --- C4 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("C4", "K6", "N1")
async def test_convergence_settles_what_was_started_and_answers_the_rest() -> None:
    gate = Gate()

    @tool(parallel=True)
    async def quick() -> str:
        return "real"

    @tool(parallel=True)
    async def slow() -> None:
        await gate.wait()

    @tool(parallel=True)
    async def stubborn() -> str:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
            await gate.reached()
        return "finished anyway"

    @tool
    async def never() -> str:
        return "no"

    calls = [Call("quick"), Call("stubborn"), Call("slow"), Call("never"), Call("never")]
    async with stage(Answer(calls=calls), tools=[quick, slow, stubborn, never]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert [line for line in s.log if line.startswith(("call", "result", "step/end", "turn/end"))] == [
            "call call_1",
            "call call_2",
            "call call_3",
            "result call_1 ok",
            "result call_2 ok",
            "result call_3 ABORTED",
            "call call_4",
            "result call_4 ABORTED_BEFORE_DISPATCH",
            "call call_5",
            "result call_5 ABORTED_BEFORE_DISPATCH",
            "step/end 1.1",
            "turn/end 1 aborted user",
        ]
        results = s.results()
        assert results["call_2"] == "finished anyway"
        assert "stopped while it was running" in results["call_3"]
        assert "was not started" in results["call_4"]
        assert len(s.requests) == 1


@pytest.mark.rule("C4")
@pytest.mark.parametrize("how", ["task", "nursery", "group", "thread"])
async def test_a_tool_that_lets_the_cancellation_through_was_aborted_however_it_does(how: str) -> None:
    gate = Gate()

    @tool
    async def slow() -> None:
        if how == "nursery":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                nursery.start_soon(trio.sleep_forever)
                await gate.wait()
        try:
            await gate.wait()
        except trio.Cancelled as error:
            if how == "group":
                raise BaseExceptionGroup("several", [error]) from None
            raise

    @tool
    def thread() -> None:
        s.host.await_from_thread(gate.wait)

    name = "thread" if how == "thread" else "slow"
    async with stage(Answer(calls=[Call(name), Call(name)]), tools=[slow, thread]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert s.log[4:] == [
            "call call_1",
            "result call_1 ABORTED",
            "call call_2",
            "result call_2 ABORTED_BEFORE_DISPATCH",
            "step/end 1.1",
            "turn/end 1 aborted user",
        ]


@pytest.mark.rule("C4")
async def test_an_error_that_a_tool_raises_while_it_is_cancelled_is_its_real_result() -> None:
    gate = Gate()

    @tool
    async def slow() -> None:
        try:
            await gate.wait()
        finally:
            raise RuntimeError("half written")

    async with stage(Answer(calls=[Call("slow")]), tools=[slow]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert "result call_1 TOOL_FAILED" in s.log
        assert "half written" in s.results()["call_1"]


@pytest.mark.rule("C4", "K6")
async def test_a_result_that_was_ready_when_the_cancel_came_stays() -> None:
    gate = Gate()

    @tool(parallel=True)
    async def slow() -> str:
        await gate.wait()
        return "slow"

    @tool(parallel=True)
    async def quick() -> ToolOutput:
        return ToolOutput("an error of its own", is_error=True, code="MINE")

    async with stage(Answer(calls=[Call("slow"), Call("quick")]), tools=[slow, quick]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        await settled()
        s.agent.cancel()
        await s.agent.when_idle()
        assert "result call_2 MINE" in s.log


# --- C10, C11 ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("C10")
async def test_shielded_code_is_waited_for_and_the_agent_says_for_what_and_since_when(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()

    @tool
    async def stubborn() -> str:
        with trio.CancelScope(shield=True):
            await gate.wait()
        return "at last"

    async with stage(Answer(calls=[Call("stubborn")]), tools=[stubborn], convergence_warning=2.0) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        assert s.agent.converging is None
        await trio.sleep(10)
        with caplog.at_level(logging.WARNING, "treadle"):
            s.agent.cancel()
            began = trio.current_time()
            await trio.sleep(1.5)
            assert caplog.records == []
            assert s.agent.converging is not None
            assert (s.agent.converging.what, s.agent.converging.since) == ("tools: stubborn", began)
            assert s.agent.converging.seconds == pytest.approx(1.5)
            await trio.sleep(10)
        assert [record.getMessage() for record in caplog.records] == [
            f"agent {s.agent.id} has been cancelled for 2.0 s and still waits for tools: stubborn (C10)"
        ]
        gate.open()
        await s.agent.when_idle()
        assert s.agent.converging is None
        assert s.results() == {"call_1": "at last"}


@pytest.mark.rule("C10")
async def test_several_slow_convergences_are_each_warned_about_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    gates = [Gate(), Gate()]

    async def stubborn(index: int, request: Any) -> Any:
        with trio.CancelScope(shield=True):
            await gates[index].wait()
        yield Finished(Finish("stop"))

    async with stage(partial(stubborn, 0), partial(stubborn, 1), convergence_warning=1.0) as s:
        second = await s.host.agents.create(agent_options=s.agent.options)
        for agent, gate in zip((s.agent, second.agent), gates, strict=True):
            agent.followup("go")
            await gate.reached()
            agent.cancel()
            await trio.sleep(0.5)
        await trio.sleep(5)
        assert [record.getMessage().split(" has")[0] for record in caplog.records] == [
            f"agent {s.agent.id}",
            f"agent {second.agent.id}",
        ]
        assert "request" in caplog.records[0].getMessage()
        for gate in gates:
            gate.open()
        await second.dispose()


@pytest.mark.rule("C10")
async def test_a_convergence_that_is_quick_is_not_warned_about(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    async with stage(talk("x", gate), "two") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        await trio.sleep(60)
        assert caplog.records == []


@pytest.mark.rule("C10", "K8")
@pytest.mark.parametrize("abandon", [True, False])
async def test_a_blocking_thread_is_waited_for_unless_it_may_be_abandoned(abandon: bool) -> None:
    go_on, running = threading.Event(), trio.Event()

    @tool(abandon_on_cancel=abandon)
    def blocking() -> str:
        s.host.from_thread(running.set)
        go_on.wait(10)
        return "late"

    async with stage(Answer(calls=[Call("blocking")]), tools=[blocking]) as s:
        s.agent.followup(note("a"))
        await running.wait()
        s.agent.cancel()
        if abandon:
            await s.agent.when_idle()
            assert "result call_1 ABORTED" in s.log
            go_on.set()
        else:
            await settled()
            assert s.agent.state is State.CANCEL_CONVERGENCE
            go_on.set()
            await s.agent.when_idle()
            assert s.results() == {"call_1": "late"}
        assert s.ends == ["aborted user"]


@pytest.mark.rule("C10")
async def test_no_tool_body_starts_under_a_cancelled_scope() -> None:
    ran: list[int] = []

    @tool(parallel=True)
    async def body(index: int) -> None:
        ran.append(index)

    def cancel(told: Any) -> None:
        if told.event.type == "tool/call":
            s.agent.cancel()

    async with stage(Answer(calls=[Call("body", {"index": 1}), Call("body", {"index": 2})]), tools=[body]) as s:
        s.agent.scope.on(SESSION_EVENT, cancel)
        await s.ask("a")
        assert ran == []
        assert [line for line in s.log if line.startswith("result")] == [
            "result call_1 ABORTED_BEFORE_DISPATCH",
            "result call_2 ABORTED_BEFORE_DISPATCH",
        ]


@pytest.mark.rule("C11")
async def test_a_plain_and_a_failed_turn_never_report_aborted() -> None:
    async with stage("fine", talk(RuntimeError("no")), "fine again") as s:
        for text in "abc":
            await s.ask(text)
        assert s.ends == ["completed", "error UNKNOWN", "completed"]


@pytest.mark.rule("C5")
async def test_a_finish_that_had_arrived_with_nothing_in_it_is_an_attempt() -> None:
    gate = Gate()

    async def empty(request: Any) -> Any:
        try:
            yield Finished(Finish("stop"))
        finally:
            with trio.CancelScope(shield=True):
                await gate.wait()

    async with stage(empty) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        gate.open()
        await s.agent.when_idle()
        assert s.log[3:] == ["attempt", "step/end 1.1", "turn/end 1 aborted user"]
        assert s.facts(AssistantAttempt)[0].finish == Finish("stop")


@pytest.mark.rule("C9", "C5", "H4")
async def test_a_cancel_from_a_listener_of_a_whole_answer_ends_the_turn_aborted_all_the_same() -> None:
    async with stage("whole") as s:
        s.agent.scope.on(
            SESSION_EVENT, lambda told: s.agent.cancel() if told.event.type == "assistant/message" else None
        )
        await s.ask("a")
        assert s.log[3:] == ["assistant 'whole'", "step/end 1.1", "turn/end 1 aborted user"]


@pytest.mark.rule("C10")
async def test_a_cancel_that_waits_for_a_hook_of_the_tools_says_so() -> None:
    gate = Gate()

    async def guard(proposal: Any) -> None:
        with trio.CancelScope(shield=True):
            await gate.wait()

    async with stage(Answer(calls=[Call("nope"), Call("work")])) as s:

        @tool
        async def work() -> None: ...

        s.agent.tools.register(work)
        s.agent.tools.guard(guard)
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        assert s.agent.converging is not None
        assert s.agent.converging.what == "runtools"
        gate.open()
        await s.agent.when_idle()


@pytest.mark.rule("C4", "H5", "N1")
async def test_a_tool_that_leaves_the_program_while_it_is_cancelled_leaves_a_balanced_log() -> None:
    gate = Gate()

    @tool(parallel=True)
    async def leave() -> None:
        try:
            await gate.wait()
        except trio.Cancelled:
            raise KeyboardInterrupt from None

    async def body(s: Stage) -> None:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()

    s = await leaves(KeyboardInterrupt, body, Answer(calls=[Call("leave"), Call("leave")]), tools=[leave])
    assert s.log[-4:] == [
        "result call_1 TOOL_OUTCOME_UNKNOWN",
        "result call_2 TOOL_OUTCOME_UNKNOWN",
        "step/end 1.1",
        "turn/end 1 aborted user",
    ]
