"""Stopping an activity: who decides, and what a cancel wins over (contract §6 C1–C3, C7–C9)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
import trio.lowlevel

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
    Host,
    MisuseError,
    ModelFailure,
    ScriptedModel,
    Signal,
    State,
    ToolOutput,
    ToolRun,
    tool,
)
from treadle.hooks import (
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
    Reject,
    Retry,
)
from treadle.models import TextDelta
from treadle.session import TurnEnd

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

    for cancel_at, expected in (
        ("turn/start", []),
        ("step/start", ["pre-step"]),
        ("assistant/attempt", ["pre-step", "request"]),
        ("step/end", ["pre-step", "request"]),
    ):
        ran.clear()
        first = talk(ModelFailure(Failure("no", "SERVER"))) if cancel_at == "assistant/attempt" else "one"
        async with stage(first) as s:
            s.agent.scope.on(PRE_STEP, partial(hook, "pre-step"))
            s.agent.scope.on(REQUEST, partial(hook, "request"))
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


@pytest.mark.rule("C1", "N7")
async def test_a_loop_in_which_nothing_ever_waits_can_still_be_stopped_by_another_task() -> None:
    @tool
    async def again() -> None: ...

    model = ScriptedModel(default=Answer(calls=[Call("again")]))
    async with stage(model=model, tools=[again], listen=False, host=Host()) as s:
        s.agent.followup(note("a"))
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        s.agent.cancel()
        await s.agent.when_idle()
        assert s.ends == ["aborted user"]
        assert 1 < len(model.requests) < 500
