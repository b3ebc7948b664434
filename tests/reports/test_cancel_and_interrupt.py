"""Faults around cancelling that users met elsewhere: each test is named after the fault that must not happen here."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.invariants import check_pairing
from tests.stage import Gate, Stage, note, settled, stage, talk
from treadle import Answer, Call, Failure, MisuseError, ModelFailure, ScriptedModel, Session, State, ToolRun, tool
from treadle.hooks import PRE_STEP, SESSION_EVENT, SYSTEM_PROMPT_ASSEMBLE
from treadle.models import (
    ArgumentsDelta,
    BlockEnd,
    BlockStart,
    Finish,
    Finished,
    ReasoningDelta,
    RetryPolicy,
    TextDelta,
    Usage,
    UsageReport,
)
from treadle.session import AssistantAttempt, AssistantMessageAdded, TurnEnd, TurnStart, decode_event, encode_event

SLOW = Answer("on it", calls=[Call("slow", id="c1")])


def slow_tool(gate: Gate) -> Any:
    @tool
    async def slow() -> str:
        await gate.wait()
        return "done"

    return slow


async def cancelled_in_the_tool(s: Stage, gate: Gate) -> None:
    s.agent.followup(note("a"))
    await gate.reached()
    s.agent.cancel()
    await s.agent.when_idle()


@pytest.mark.rule("C4", "N1")
async def test_an_interrupt_during_a_tool_leaves_no_call_without_a_result() -> None:
    gate = Gate()
    async with stage(SLOW, "fine", tools=[slow_tool(gate)]) as s:
        await cancelled_in_the_tool(s, gate)
        await s.ask("go on")
        check_pairing(s.model.requests[1].messages)
        assert "stopped while it was running" in s.results()["c1"]
        assert s.ends == ["aborted user", "completed"]


@pytest.mark.rule("C5", "N1")
async def test_the_continuation_is_not_glued_onto_the_interrupted_answer() -> None:
    gate = Gate()
    async with stage(SLOW, "next", tools=[slow_tool(gate)]) as s:
        await cancelled_in_the_tool(s, gate)
        await s.ask("go on")
        assert s.log[3:] == [
            "assistant 'on it' +c1",
            "call c1",
            "result c1 ABORTED",
            "step/end 1.1",
            "turn/end 1 aborted user",
            "turn/start 2",
            "step/start 2.1",
            "user go on",
            "assistant 'next'",
            "step/end 2.1",
            "turn/end 2 completed",
        ]


@pytest.mark.rule("C4", "K5")
async def test_an_interrupted_tool_and_one_that_never_ran_are_told_apart_by_a_field() -> None:
    gate, written = Gate(), []

    @tool
    async def write() -> str:
        written.append("file")
        await gate.wait()
        return "ok"

    async with stage(Answer(calls=[Call("write"), Call("write")]), tools=[write]) as s:
        await cancelled_in_the_tool(s, gate)
        codes = [block.code for message in list(s.agent.session.history())[2:] for block in message.content]  # type: ignore[union-attr]
        assert codes == ["ABORTED", "ABORTED_BEFORE_DISPATCH"]
        first, second = s.results().values()
        assert "may have taken effect" in first
        assert "Nothing was done" in second
        assert written == ["file"]


@pytest.mark.rule("C4", "C1")
async def test_the_next_turn_sees_that_the_last_one_was_interrupted_and_idle_cancels_add_nothing() -> None:
    gate = Gate()
    async with stage(SLOW, "next", tools=[slow_tool(gate)]) as s:
        await cancelled_in_the_tool(s, gate)
        before = s.full_log
        s.agent.cancel()
        s.agent.cancel()
        assert s.full_log == before
        await s.ask("something else")
        result = s.model.requests[1].messages[2].content[0]
        assert (result.is_error, result.code) == (True, "ABORTED")  # type: ignore[union-attr]


@pytest.mark.rule("C5", "N5")
async def test_partial_text_is_neither_lost_nor_different_after_a_reload() -> None:
    gate = Gate()
    parts = [BlockStart(0, "reasoning"), ReasoningDelta(0, "hm"), BlockStart(1, "text"), TextDelta(1, "one two ")]
    half_call = [BlockStart(2, "tool-call", "c", "t"), ArgumentsDelta(2, '{"a":')]
    async with stage(talk(*parts, *half_call, gate, TextDelta(1, "three")), "next") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        live = list(s.agent.session.history())
        stored = [decode_event(encode_event(entry)) for entry in s.agent.session.events]
        assert list(Session(s.agent.session.header, stored).history()) == live
        assert live[1].text == "one two "  # type: ignore[union-attr]
        assert live[1].calls == ()  # type: ignore[union-attr]
        await s.ask("b")
        assert list(s.model.requests[1].messages)[:2] == live


@pytest.mark.rule("C4", "N4", "D4")
async def test_no_late_event_of_a_cancelled_turn_and_no_prompt_before_its_cleanup(autojump_clock: MockClock) -> None:
    gate = Gate()

    @tool
    async def cleaning() -> None:
        try:
            await gate.wait()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.3)

    async with stage(Answer(calls=[Call("cleaning")]), "two", tools=[cleaning]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        s.agent.followup(note("b"))
        await s.agent.when_idle()
        end = s.log.index("turn/end 1 aborted user")
        assert s.log[end + 1] == "turn/start 2"
        assert not [text for text in s.log[end + 1 :] if "call_1" in text]
        told = [text for text in s.told if text.startswith(("turn/", "result", "step/"))]
        assert told == [text for text in s.log if text.startswith(("turn/", "result", "step/"))]


@pytest.mark.rule("C10", "N7")
async def test_a_tool_that_never_ends_is_named_and_one_that_may_be_abandoned_does_not_hold_the_stop(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()

    @tool
    async def deaf() -> None:
        with trio.CancelScope(shield=True):
            await gate.wait()

    async with stage(Answer(calls=[Call("deaf")]), "two", tools=[deaf]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await trio.sleep(10)
        assert s.agent.converging is not None
        assert s.agent.converging.what == "tools: deaf"
        assert "still waits for tools: deaf" in caplog.text
        s.agent.followup(note("b"))
        gate.open()
        await s.agent.when_idle()
        assert s.ends == ["aborted user", "completed"]


@pytest.mark.rule("C11")
async def test_a_normal_and_a_failed_turn_do_not_report_cancelled() -> None:
    async with stage("fine", talk(ModelFailure(Failure("no", "SERVER")))) as s:
        await s.ask("a")
        await s.ask("b")
        assert s.ends == ["completed", "error SERVER"]


@pytest.mark.rule("C5")
async def test_a_cancelled_turn_is_no_normal_end_with_zero_usage() -> None:
    gate, second = Gate(), Gate()
    async with stage(talk("x", gate), talk(UsageReport(Usage(input_tokens=9)), "y", second)) as s:
        for one in (gate, second):
            s.agent.followup("go")
            await one.reached()
            s.agent.cancel()
            await s.agent.when_idle()
        assert s.ends == ["aborted user", "aborted user"]
        assert [fact.usage for fact in s.facts(AssistantMessageAdded)] == [None, Usage(input_tokens=9)]


@pytest.mark.rule("N3", "C2")
async def test_no_second_stop_of_a_cancelled_turn_when_the_next_prompt_starts() -> None:
    gate = Gate()
    async with stage(talk("x", gate), "two") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        await s.ask("b")
        assert len(s.facts(TurnStart)) == len(s.facts(TurnEnd)) == 2
        assert len([text for text in s.told if text.startswith("turn/end")]) == 2


@pytest.mark.rule("C4", "C9")
async def test_the_loop_does_not_go_on_to_the_model_after_a_tool_was_cancelled() -> None:
    gate = Gate()

    @tool
    async def work(run: ToolRun) -> None:
        if run.step == 3:
            await gate.wait()

    async with stage(*[Answer(calls=[Call("work")])] * 3, "never", tools=[work]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert len(s.requests) == 3


@pytest.mark.rule("Q6", "C8")
@pytest.mark.parametrize("where", ["waiting", "second attempt"])
async def test_a_cancel_is_not_ignored_while_a_retry_is_waited_for_or_made(
    where: str, autojump_clock: MockClock
) -> None:
    gate = Gate()
    delay = 30.0 if where == "waiting" else 0.0
    failed = talk(ModelFailure(Failure("busy", "RATE_LIMIT", 429, delay)))
    policy = RetryPolicy(max_delay=60.0, base_delay=delay)
    model = ScriptedModel([failed, talk(gate, "never")], retry_policy=policy)
    async with stage(model=model) as s:
        s.agent.followup(note("a"))
        if where == "waiting":
            while not any(text == "llm/retry" for text in s.full_log):
                await trio.lowlevel.checkpoint()
            await trio.sleep(0.2)
        else:
            await gate.reached()
        s.agent.send(note("q"), "next-turn", wakeup=False)
        began, attempts = trio.current_time(), len(model.requests)
        s.agent.cancel(keep_inbox=True)
        await s.agent.when_idle()
        assert trio.current_time() - began < 1
        assert s.ends == ["aborted user"]
        assert (len(model.requests), s.errors, s.pending) == (attempts, [], (["q"], []))


@pytest.mark.rule("C3", "C10")
async def test_a_stop_does_not_wait_behind_messages_and_closes_the_providers_stream(autojump_clock: MockClock) -> None:
    closed: list[float] = []

    async def hold(request: Any) -> Any:
        try:
            await trio.sleep(60)
            yield TextDelta(0, "late")
        finally:
            closed.append(trio.current_time())

    async with stage(hold) as s:
        for text in "abcd":
            s.agent.followup(note(text))
        await trio.sleep(0.2)
        s.agent.cancel()
        await s.agent.when_idle()
        assert trio.current_time() < 1
        assert closed == [pytest.approx(0.2)]
        assert s.pending == ([], [])


@pytest.mark.rule("N7", "K8", "M5")
async def test_a_tools_task_does_not_survive_the_run_and_a_waiter_that_is_cancelled_stops_only_its_waiting() -> None:
    gate, ticks = Gate(), []

    @tool
    async def ticking() -> None:
        async def tick() -> None:
            while True:
                ticks.append(1)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            await gate.wait()

    async with stage(Answer(calls=[Call("ticking")]), tools=[ticking]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        with trio.move_on_after(0):
            await s.agent.when_idle()
        assert s.agent.state is State.STEP
        s.agent.cancel()
        await s.agent.when_idle()
        count = len(ticks)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        assert len(ticks) == count


@pytest.mark.rule("C2", "C4", "N7")
async def test_a_double_interrupt_in_a_parallel_batch_loses_no_pair_and_leaves_no_process() -> None:
    gates = [Gate(), Gate()]
    processes: list[trio.Process] = []

    @tool(parallel=True)
    async def quick() -> str:
        return "real output"

    @tool(parallel=True)
    async def sleeping() -> None:
        await gates[0].wait()

    @tool(parallel=True)
    async def running() -> None:
        async with trio.open_nursery() as nursery:
            command = [sys.executable, "-c", "import time; time.sleep(600)"]
            processes.append(await nursery.start(trio.run_process, command))
            await gates[1].wait()

    calls = [Call("quick"), Call("sleeping"), Call("running")]
    async with stage(Answer(calls=calls), "next", tools=[quick, sleeping, running]) as s:
        s.agent.followup(note("a"))
        await gates[0].reached()
        await gates[1].reached()
        s.agent.cancel()
        s.agent.cancel()
        await s.agent.when_idle()
        assert [text for text in s.log if text.startswith("result")] == [
            "result call_1 ok",
            "result call_2 ABORTED",
            "result call_3 ABORTED",
        ]
        assert s.results()["call_1"] == "real output"
        assert processes[0].returncode is not None
        await s.ask("b")
        assert s.ends[-1] == "completed"


@pytest.mark.rule("C5", "N4", "N7")
async def test_an_answer_that_arrives_after_the_stop_is_not_delivered(autojump_clock: MockClock) -> None:
    gate = Gate()

    async def deaf(request: Any) -> Any:
        gate._reached.set()
        with trio.CancelScope(shield=True):
            await trio.sleep(0.5)
        yield BlockStart(0, "text")
        yield TextDelta(0, "too late")
        yield BlockEnd(0)
        yield Finished(Finish("stop"))

    async with stage(deaf, "next") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        await s.ask("b")
        assert "too late" not in str([encode_event(entry) for entry in s.agent.session.events])
        assert s.requests[1] == ["user a", "user b"]


@pytest.mark.rule("C5", "N2")
async def test_an_interrupt_before_the_first_token_does_not_remove_the_users_message() -> None:
    gate = Gate()
    async with stage(talk(gate, "x"), "next") as s:
        s.agent.followup(note("A"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        await s.ask("B")
        assert s.requests[1] == ["user A", "user B"]
        assert [text for text in s.log if text.startswith("user")] == ["user A", "user B"]
        assert len(s.facts(AssistantAttempt)) == 1


@pytest.mark.rule("C6", "C9", "L2")
@pytest.mark.parametrize("when", ["same tick", "turn start", "assembling the prompt", "deciding the step"])
async def test_a_cancel_while_the_run_is_still_starting_is_not_lost(when: str) -> None:
    def cancel(*given: Any) -> Any:
        s.agent.cancel()
        return given[1]() if len(given) > 1 else None

    async with stage("never") as s:
        if when == "turn start":
            s.agent.scope.on(SESSION_EVENT, lambda told: cancel() if told.event.type == "turn/start" else None)
        if when == "assembling the prompt":
            s.agent.scope.on(SYSTEM_PROMPT_ASSEMBLE, cancel)
        if when == "deciding the step":
            s.agent.scope.on(PRE_STEP, cancel)
        receipt = s.agent.followup(note("a"))
        if when == "same tick":
            s.agent.cancel()
        await s.agent.when_idle()
        await settled()
        assert (s.ends, s.requests) == (["aborted user"], [])
        assert str(await receipt.outcome()) == "Rejected(reason='aborted')"


def test_the_process_exits_with_nothing_left_behind_after_a_stop() -> None:
    """A whole program: a tool in a thread and a stream are stopped, and the interpreter ends at once."""
    program = """
import threading
import trio, treadle
from treadle import Answer, Call, ScriptedModel, tool

started = trio.Event()

@tool(abandon_on_cancel=True)
def forever() -> None:
    host.from_thread(started.set)
    threading.Event().wait()

async def main():
    global host
    model = ScriptedModel([Answer(calls=[Call("forever")])])
    async with treadle.Host() as host:
        host.models.register("m", model)
        host.tools.register(forever)
        handle = await host.agents.create(agent_options=treadle.AgentOptions("m", "m"))
        handle.agent.followup("go")
        await started.wait()
        handle.agent.cancel()
        print(await handle.agent.when_idle())

trio.run(main)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Aborted" in done.stdout, done.stderr


@pytest.mark.rule("L6", "C10")
async def test_waiting_for_oneself_from_a_tool_that_is_being_stopped_is_refused_and_not_a_deadlock() -> None:
    @tool
    async def waits() -> str:
        try:
            await s.agent.when_idle()
        except MisuseError:
            return "refused"
        return "no"

    async with stage(Answer(calls=[Call("waits")]), tools=[waits]) as s:
        await s.ask("a")
        assert s.results() == {"call_1": "refused"}
