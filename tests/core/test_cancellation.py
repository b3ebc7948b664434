"""Stopping an activity (contract §6)."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from tests.stage import Gate, note, settled, stage, talk
from treadle import (
    Aborted,
    Answer,
    ByDisposal,
    ByHook,
    ByParent,
    ByUser,
    Call,
    Failure,
    MisuseError,
    ModelFailure,
    Signal,
    State,
    ToolOutput,
    ToolRun,
    Usage,
    UsageReport,
    tool,
)
from treadle.models.stream import ArgumentsDelta, BlockEnd, BlockStart, Finish, Finished, ReasoningDelta, TextDelta
from treadle.points import (
    AGENT_STATUS,
    ASSISTANT_STREAM,
    CANCEL_REQUESTED,
    PRE_STEP,
    REQUEST,
    REQUEST_ERROR,
    SESSION_EVENT,
    TOOLS_RESULT,
    TURN_STOPPING,
    FrameChunk,
    FrameStart,
    Reject,
    Retry,
)
from treadle.session.events import AssistantAttempt, AssistantMessageAdded, TurnEnd

# --- C1, C2, C3 -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("C1")
async def test_a_cancel_while_idle_clears_the_inbox_and_arms_nothing() -> None:
    async with stage("one") as s:
        s.agent.inject(note("i"))
        s.agent.send(note("t"), "next-turn", wakeup=False)
        s.agent.cancel()
        assert s.pending == ([], [])
        assert s.notices[-2:] == ["discarded i", "discarded t"]
        before = s.full_log
        s.agent.cancel()
        assert s.full_log == before
        await s.ask("a")
        assert s.ends == ["completed"]


@pytest.mark.rule("C1")
async def test_a_cancel_while_idle_that_keeps_the_inbox_does_nothing_at_all() -> None:
    async with stage() as s:
        s.agent.inject(note("i"))
        before = s.full_log, list(s.told)
        s.agent.cancel(keep_inbox=True)
        assert (s.full_log, s.told) == before


@pytest.mark.rule("C1")
@pytest.mark.parametrize(
    ("given", "recorded"),
    [("user", ByUser()), (ByUser(), ByUser()), ("parent", ByParent()), (ByHook("budget"), ByHook("budget"))],
)
async def test_the_cause_is_recorded_with_the_end(given: Any, recorded: Any) -> None:
    async with stage("one") as s:
        s.agent.followup(note("a"))
        s.agent.cancel(given)
        assert await s.agent.when_idle() == Aborted(recorded)
        assert s.facts(TurnEnd)[0].reason == Aborted(recorded)


@pytest.mark.rule("C1", "S1")
@pytest.mark.parametrize("given", [ByDisposal(), "disposed", "hook", None, ByHook(5), ByHook("\ud800")])  # type: ignore[arg-type]
async def test_a_cause_that_is_none_or_reserved_is_refused(given: Any) -> None:
    async with stage("one") as s:
        s.agent.followup(note("a"))
        with pytest.raises(MisuseError):
            s.agent.cancel(given)
        await s.agent.when_idle()
        assert s.ends == ["completed"]


@pytest.mark.rule("C2")
async def test_the_first_cause_wins_and_the_request_is_told_once() -> None:
    gate = Gate()
    async with stage(talk("x", gate)) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel("parent")
        s.agent.cancel("user")
        s.agent.cancel(ByHook("late"))
        await s.agent.when_idle()
        assert s.ends == ["aborted parent"]
        assert [told for told in s.notices if told.startswith("cancel")] == ["cancel-requested parent"]


@pytest.mark.rule("C2", "C6")
@pytest.mark.parametrize("first_keeps", [True, False])
async def test_the_first_cancel_decides_about_the_claimed_batch_and_a_later_one_only_clears(first_keeps: bool) -> None:
    gate = Gate()

    async def wait(proposal: Any, proceed: Any) -> Any:
        await gate.wait()

    async with stage() as s:
        s.agent.scope.on(PRE_STEP, wait)
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel(keep_inbox=first_keeps)
        s.agent.inject(note("i"))
        s.agent.cancel(keep_inbox=not first_keeps)
        assert s.pending[1] == ([] if first_keeps else ["i"])
        await s.agent.when_idle()
        assert ("user a" in s.log) is first_keeps


@pytest.mark.rule("C3", "H4", "I7")
async def test_within_the_call_everything_is_decided_before_anyone_is_told() -> None:
    gate = Gate()
    seen: list[Any] = []

    def look(told: Any) -> None:
        seen.append((s.agent.state, s.pending, run_signal[0].cause, s.inbox_log[-1], s.agent.converging is not None))

    run_signal: list[Signal] = []

    @tool
    async def slow(run: ToolRun) -> None:
        run_signal.append(run.signal)
        await gate.wait()

    async with stage(Answer(calls=[Call("slow")]), tools=[slow]) as s:
        s.agent.scope.on(CANCEL_REQUESTED, look)
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.followup(note("b"))
        s.agent.inject(note("i"))
        before = len(s.told)
        cause = ByHook("enough")
        s.agent.cancel(cause)
        assert s.told[before:] == [
            "inbox next-step @0 -1 canceled",
            "inbox next-turn @0 -1 canceled",
            "~cancel-requested hook",
            "~discarded i",
            "~discarded b",
        ]
        assert seen == [(State.CANCEL_CONVERGENCE, ([], []), cause, "next-turn @0 -1 canceled", True)]
        assert run_signal[0].cause is cause
        await s.agent.when_idle()


@pytest.mark.rule("C3", "C1")
async def test_keep_inbox_keeps_what_is_pending() -> None:
    gate = Gate()
    async with stage(talk("x", gate), "two") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.followup(note("b"))
        s.agent.steer(note("s"))
        s.agent.cancel(keep_inbox=True)
        await s.agent.when_idle()
        assert s.pending == (["b"], ["s"])
        assert s.notices[-1] == "parked s b"
        assert "canceled" not in " ".join(s.inbox_log)


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


# --- C5 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("C5", "N5")
async def test_text_and_reasoning_that_arrived_are_kept_as_an_interrupted_message() -> None:
    gate = Gate()
    parts = [BlockStart(0, "reasoning"), ReasoningDelta(0, "hm"), BlockStart(1, "text"), TextDelta(1, "one two")]
    async with stage(talk(*parts, gate, TextDelta(1, " three")), "next") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert s.log[3] == "assistant 'one two' interrupted"
        fact = s.facts(AssistantMessageAdded)[0]
        assert (fact.interrupted, fact.finish, fact.usage) == (True, None, None)
        await s.ask("b")
        assert s.requests[1] == ["user a", "assistant 'one two'", "user b"]


@pytest.mark.rule("C5")
async def test_half_a_call_is_left_out_and_the_text_stays() -> None:
    gate = Gate()
    parts = ["text", BlockStart(1, "tool-call", "c", "t"), ArgumentsDelta(1, "{}"), BlockEnd(1), gate]
    async with stage(talk(*parts)) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert s.log[3:] == ["assistant 'text' interrupted", "step/end 1.1", "turn/end 1 aborted user"]


@pytest.mark.rule("C5", "Q9")
@pytest.mark.parametrize(
    "parts",
    [[], [" ", "\n"], [BlockStart(0, "tool-call", "c", "t"), ArgumentsDelta(0, "{}")], [UsageReport(Usage(9))]],
    ids=["nothing", "blank text", "half a call", "usage only"],
)
async def test_with_nothing_visible_an_attempt_is_recorded_instead(parts: list[Any]) -> None:
    gate = Gate()
    async with stage(talk(*parts, gate)) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert s.log[3:] == ["attempt", "step/end 1.1", "turn/end 1 aborted user"]
        fact = s.facts(AssistantAttempt)[0]
        assert fact.interrupted
        assert fact.usage == (Usage(9) if parts and isinstance(parts[0], UsageReport) else None)


@pytest.mark.rule("C5")
async def test_usage_that_arrived_is_kept_and_the_rest_is_absent() -> None:
    gate = Gate()
    async with stage(talk("x", UsageReport(Usage(input_tokens=7)), gate)) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert s.facts(AssistantMessageAdded)[0].usage == Usage(input_tokens=7, output_tokens=None)


@pytest.mark.rule("C5", "C9")
async def test_nothing_is_recorded_of_a_provider_call_that_never_started() -> None:
    def cancel(told: Any) -> None:
        if isinstance(told.frame, FrameStart):
            s.agent.cancel()

    async with stage("one") as s:
        s.agent.scope.on(ASSISTANT_STREAM, cancel)
        await s.ask("a")
        assert s.log[2:] == ["user a", "step/end 1.1", "turn/end 1 aborted user"]
        assert s.requests == []


@pytest.mark.rule("C5", "C4")
async def test_an_answer_whose_finish_had_arrived_is_whole_and_its_calls_get_results() -> None:
    gate = Gate()

    async def slow_to_close(request: Any) -> Any:
        try:
            yield BlockStart(0, "tool-call", "c1", "t")
            yield BlockEnd(0)
            yield Finished(Finish("tool-calls"))
        finally:
            with trio.CancelScope(shield=True):
                await gate.wait()

    async with stage(slow_to_close) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        gate.open()
        await s.agent.when_idle()
        assert s.log[3:] == [
            "assistant '' +c1",
            "call c1",
            "result c1 ABORTED_BEFORE_DISPATCH",
            "step/end 1.1",
            "turn/end 1 aborted user",
        ]
        assert s.facts(AssistantMessageAdded)[0].interrupted is False


@pytest.mark.rule("C5", "N4")
async def test_what_a_shielded_adapter_delivers_after_the_cancel_is_dropped() -> None:
    gate = Gate()

    async def late(request: Any) -> Any:
        yield BlockStart(0, "text")
        yield TextDelta(0, "early")
        with trio.CancelScope(shield=True):
            await gate.wait()
        yield TextDelta(0, "late")
        yield BlockEnd(0)
        yield BlockStart(1, "text")
        yield TextDelta(1, "later")
        yield UsageReport(Usage(1))
        yield Finished(Finish("stop"))

    async with stage(late, "next") as s:
        frames: list[Any] = []
        s.agent.scope.on(ASSISTANT_STREAM, lambda told: frames.append(told.frame))
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        gate.open()
        await s.agent.when_idle()
        assert s.log[3] == "assistant 'early' interrupted"
        fact = s.facts(AssistantMessageAdded)[0]
        assert (fact.usage, len(fact.stream)) == (None, 2)
        assert [frame.index for frame in frames if isinstance(frame, FrameChunk)] == [0, 1]
        await s.ask("b")
        assert "late" not in str(s.requests[1])


@pytest.mark.rule("C5")
async def test_a_failed_attempt_is_not_turned_into_a_message_by_a_cancel_during_recovery() -> None:
    gate = Gate()

    async def recover(failed: Any, proceed: Any) -> Any:
        await gate.wait()

    async with stage(talk("half", ModelFailure(Failure("no", "SERVER")))) as s:
        s.agent.scope.on(REQUEST_ERROR, recover)
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert s.log[3:] == ["attempt", "step/end 1.1", "turn/end 1 aborted user"]
        assert s.facts(AssistantAttempt)[0].interrupted is False


@pytest.mark.rule("C5", "L1")
@pytest.mark.parametrize("error", [ModelFailure(Failure("cut", "TRANSPORT")), ValueError("odd")])
async def test_an_adapter_that_answers_a_cancel_with_an_error_is_cut_off_all_the_same(error: Exception) -> None:
    gate = Gate()

    async def break_off(request: Any) -> Any:
        yield BlockStart(0, "text")
        yield TextDelta(0, "seen")
        try:
            await gate.wait()
        except trio.Cancelled:
            raise error from None

    async with stage(break_off) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert s.log[3:] == ["assistant 'seen' interrupted", "step/end 1.1", "turn/end 1 aborted user"]
        assert [type(told.error) for told in s.errors] == ([ValueError] if isinstance(error, ValueError) else [])


# --- C6 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("C6", "L2")
@pytest.mark.parametrize("keep", [True, False])
async def test_followup_and_cancel_in_one_breath(keep: bool) -> None:
    async with stage("one") as s:
        s.agent.inject(note("i"))
        s.agent.followup(note("a"))
        s.agent.cancel(keep_inbox=keep)
        await s.agent.when_idle()
        kept = ["user i", "user a"] if keep else []
        assert s.log == ["turn/start 1", *kept, "turn/end 1 aborted user"]
        await s.ask("b")
        assert s.requests == [[*kept, "user b"]]


@pytest.mark.rule("C6", "C9", "T12")
@pytest.mark.parametrize("keep", [True, False])
async def test_after_step_start_the_same_holds_for_the_accepted_batch(keep: bool) -> None:
    def cancel(told: Any) -> None:
        if told.event.type == "step/start":
            s.agent.cancel(keep_inbox=keep)

    async with stage("one") as s:
        s.agent.system_prompt = "be brief"
        s.agent.scope.on(SESSION_EVENT, cancel)
        await s.ask("a")
        kept = ["user a"] if keep else []
        assert s.log == ["turn/start 1", "step/start 1.1", *kept, "step/end 1.1", "turn/end 1 aborted user"]
        assert s.requests == []


# --- C7 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("C7")
@pytest.mark.parametrize("finished_before", [True, False])
async def test_contexts_of_a_converging_turn_stay_pending_and_wake_nobody(finished_before: bool) -> None:
    gate = Gate()

    @tool(parallel=True)
    async def first() -> None:
        await gate.wait()

    @tool(parallel=True)
    async def giving(run: ToolRun) -> ToolOutput:
        if not finished_before:
            with trio.CancelScope(shield=True):
                await run.signal.wait()
        return ToolOutput("ok", contexts=[note("context")])

    async with stage(Answer(calls=[Call("first"), Call("giving")]), "next", tools=[first, giving]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        await settled()
        s.agent.cancel()
        await s.agent.when_idle()
        assert (s.ends, s.pending) == (["aborted user"], ([], ["context"]))
        assert s.agent.parked == ()
        await s.ask("b")
        assert s.requests[1][-2:] == ["user context", "user b"]


@pytest.mark.rule("C7", "L9")
async def test_contexts_recorded_during_disposal_are_dropped() -> None:
    gate = Gate()

    @tool
    async def giving(run: ToolRun) -> ToolOutput:
        with trio.CancelScope(shield=True):
            await gate.wait()
        return ToolOutput("ok", contexts=[note("context")])

    async with stage(Answer(calls=[Call("giving")]), tools=[giving]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        disposal = s.handle.dispose(keep_inbox=True)
        gate.open()
        await disposal
        assert (s.ends, s.pending) == (["aborted disposed"], ([], []))
        assert "result call_1 ok" in s.log


# --- C8 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("C8")
async def test_a_cancel_wins_over_a_racing_retry() -> None:
    async def retry(failed: Any, proceed: Any) -> Retry:
        s.agent.cancel()
        return Retry()

    async with stage(talk(ModelFailure(Failure("no", "SERVER"))), "never") as s:
        s.agent.scope.on(REQUEST_ERROR, retry)
        await s.ask("a")
        assert (len(s.requests), s.ends) == (1, ["aborted user"])


@pytest.mark.rule("C8")
@pytest.mark.parametrize("then", ["steer", "return", "raise"])
async def test_a_cancel_wins_over_turn_stopping(then: str) -> None:
    def stopping(payload: Any) -> None:
        s.agent.cancel()
        if then == "steer":
            s.agent.steer(note("s"))
        if then == "raise":
            raise RuntimeError

    async with stage("one", "two") as s:
        s.agent.scope.on(TURN_STOPPING, stopping)
        await s.ask("a")
        assert s.ends == ["aborted user"]
        assert s.pending == ([], ["s"] if then == "steer" else [])


@pytest.mark.rule("C8", "C11")
@pytest.mark.parametrize("then", ["reject", "raise", "enter"])
async def test_a_cancel_wins_over_a_racing_decision_of_pre_step(then: str) -> None:
    def decide(proposal: Any, proceed: Any) -> Any:
        s.agent.cancel()
        if then == "raise":
            raise RuntimeError
        return Reject() if then == "reject" else proceed()

    async with stage("one") as s:
        s.agent.scope.on(PRE_STEP, decide)
        await s.ask("a")
        assert (s.log, s.requests) == (["turn/start 1", "turn/end 1 aborted user"], [])


# --- C9 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("C9", "H4")
@pytest.mark.parametrize(
    ("at", "requests"),
    [
        ("turn/start", 0),
        ("step/start", 0),
        ("user/message", 0),
        ("request/header", 0),
        ("assistant/message", 1),
        ("tool/call", 1),
        ("tool/result", 1),
        ("step/end", 1),
    ],
)
async def test_a_cancel_from_a_listener_of_any_event_acts_at_once(at: str, requests: int) -> None:
    ran: list[str] = []

    @tool
    async def work() -> str:
        ran.append("work")
        return "done"

    def cancel(told: Any) -> None:
        if told.event.type == at and s.agent.state is not State.CANCEL_CONVERGENCE:
            s.agent.cancel()

    async with stage(Answer("x", calls=[Call("work"), Call("work")]), "never", tools=[work]) as s:
        s.agent.scope.on(SESSION_EVENT, cancel)
        await s.ask("a")
        assert (len(s.requests), s.ends) == (requests, ["aborted user"])
        assert len(ran) == {"tool/result": 1, "step/end": 2}.get(at, 0)


@pytest.mark.rule("C9")
async def test_a_cancel_from_a_status_listener_opens_no_step() -> None:
    async with stage("never") as s:
        s.agent.scope.on(AGENT_STATUS, lambda told: s.agent.cancel() if told.status == "running" else None)
        await s.ask("a")
        assert s.log == ["turn/start 1", "turn/end 1 aborted user"]


@pytest.mark.rule("C9", "C5")
async def test_a_cancel_from_a_chunk_listener_keeps_what_had_arrived() -> None:
    def cancel(told: Any) -> None:
        if isinstance(told.frame, FrameChunk) and isinstance(told.frame.chunk, TextDelta):
            s.agent.cancel()

    async with stage(talk("one ", "two ", "three")) as s:
        s.agent.scope.on(ASSISTANT_STREAM, cancel)
        await s.ask("a")
        assert s.log[3] == "assistant 'one ' interrupted"


@pytest.mark.rule("C9", "Q2")
async def test_a_cancel_from_a_request_hook_records_no_header_and_the_next_turn_does() -> None:
    async with stage("one") as s:
        stop = s.agent.scope.on(REQUEST, lambda proposal, proceed: s.agent.cancel() or proceed())
        await s.ask("a")
        stop()
        await s.ask("b")
        assert [line for line in s.full_log if line.startswith(("header", "context"))] == ["header initial", "context"]


@pytest.mark.rule("C9", "C10")
async def test_no_hook_starts_under_a_cancel_that_came_first() -> None:
    ran: list[str] = []

    def hook(name: str, payload: Any, *proceed: Any) -> Any:
        ran.append(name)
        return proceed[0]() if proceed else None

    def cancel(told: Any) -> None:
        if told.event.type == cancel_at:
            s.agent.cancel()

    for cancel_at, expected in (("turn/start", []), ("assistant/attempt", ["pre-step"]), ("step/end", ["pre-step"])):
        ran.clear()
        first = talk(ModelFailure(Failure("no", "SERVER"))) if cancel_at == "assistant/attempt" else "one"
        async with stage(first) as s:
            s.agent.scope.on(PRE_STEP, partial(hook, "pre-step"))
            s.agent.scope.on(REQUEST_ERROR, partial(hook, "request-error"))
            s.agent.scope.on(TURN_STOPPING, partial(hook, "turn-stopping"))
            s.agent.scope.on(SESSION_EVENT, cancel)
            await s.ask("a")
            assert (ran, s.ends) == (expected, ["aborted user"])


@pytest.mark.rule("C9")
async def test_a_cancel_from_a_result_listener_stops_the_rest() -> None:
    @tool
    async def work() -> str:
        return "done"

    async with stage(Answer(calls=[Call("work"), Call("work")]), tools=[work]) as s:
        s.agent.scope.on(TOOLS_RESULT, lambda told: s.agent.cancel())
        await s.ask("a")
        assert "result call_2 ABORTED_BEFORE_DISPATCH" in s.log


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
        s.agent.tools.guard(guard)  # type: ignore[arg-type]
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

    with trio.fail_after(5), pytest.raises(KeyboardInterrupt):
        async with stage(Answer(calls=[Call("leave"), Call("leave")]), tools=[leave]) as s:
            s.agent.followup(note("a"))
            await gate.reached()
            s.agent.cancel()
            await trio.sleep_forever()
    assert s.log[-4:] == [
        "result call_1 TOOL_OUTCOME_UNKNOWN",
        "result call_2 TOOL_OUTCOME_UNKNOWN",
        "step/end 1.1",
        "turn/end 1 aborted user",
    ]
