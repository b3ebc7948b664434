"""What is left of what a cancel interrupts (contract §6 C5, C6)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.lowlevel

from tests.stage import Gate, note, stage, talk
from treadle import Failure, ModelFailure
from treadle.hooks import ASSISTANT_STREAM, REQUEST_ERROR, SESSION_EVENT, FrameChunk, FrameStart
from treadle.models import (
    ArgumentsDelta,
    BlockEnd,
    BlockStart,
    Finish,
    Finished,
    ReasoningDelta,
    TextDelta,
    Usage,
    UsageReport,
)
from treadle.session import AssistantAttempt, AssistantMessageAdded

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


@pytest.mark.rule("C5", "Q5")
async def test_a_failure_whose_finish_had_arrived_is_no_answer() -> None:
    gate = Gate()

    async def failing(request: Any) -> Any:
        try:
            yield BlockStart(0, "text")
            yield TextDelta(0, "half")
            yield Finished(Finish("error", Failure("busy", "SERVER")))
        finally:
            with trio.CancelScope(shield=True):
                await gate.wait()

    async with stage(failing) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        gate.open()
        await s.agent.when_idle()
        assert s.log[3:] == ["attempt", "step/end 1.1", "turn/end 1 aborted user"]
        assert s.facts(AssistantAttempt)[0].finish == Finish("error", Failure("busy", "SERVER"))
