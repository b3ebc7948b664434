"""Turns and steps (contract §5)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stage import Gate, note, stage, talk
from treadle import Answer, Call, Failure, Host, ModelFailure, Text, ToolOutput, UserMessage, tool
from treadle.hooks import (
    AGENT_ERROR,
    PRE_STEP,
    REQUEST,
    REQUEST_ERROR,
    SYSTEM_PROMPT_ASSEMBLE,
    TURN_STOPPING,
    Enter,
    Prompt,
    Reject,
    Retry,
)
from treadle.models import CallConfig, Code, Usage
from treadle.session import AssistantMessageAdded, StepStart, TurnEnd


@tool
async def work() -> str:
    """Do something."""
    return "done"


@tool
async def conclude() -> ToolOutput:
    """End the turn here."""
    return ToolOutput("enough", concludes_turn=True)


TOOLS = [work, conclude]


# --- T0, T1 -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("T0", "T2")
async def test_step_start_carries_the_accepted_ids_and_what_hooks_added_or_changed() -> None:
    def rewrite(proposal: Any, proceed: Any) -> Enter:
        first, _left_out, third = proposal.messages
        return Enter([UserMessage(first.id, (Text("changed"),)), note("added"), third])

    async with stage("one") as s:
        s.agent.scope.on(PRE_STEP, rewrite)
        s.agent.inject(note("i"))
        s.agent.inject(note("j"))
        await s.ask("a")
        fact = s.facts(StepStart)[0]
        assert fact.accepted == ("i", "added", "a")
        assert [(one.id, one.text) for one in fact.amended] == [("i", "changed"), ("added", "added")]


@pytest.mark.rule("T0")
async def test_an_untouched_batch_is_not_written_twice() -> None:
    async with stage("one") as s:
        s.agent.scope.on(PRE_STEP, lambda proposal, proceed: proceed())
        await s.ask("a")
        assert s.facts(StepStart)[0].amended == ()


@pytest.mark.rule("T1")
async def test_the_order_inside_a_step_is_fixed() -> None:
    order: list[str] = []

    async def assemble(payload: Any, proceed: Any) -> Prompt:
        order.append("assemble")
        return Prompt("be brief", (await proceed()).tools)

    def pre_step(payload: Any, proceed: Any) -> Any:
        order.append("pre-step")
        return proceed()

    def request(payload: Any, proceed: Any) -> Any:
        order.append("request")
        return proceed()

    def speak(asked: Any) -> Answer:
        order.append("attempt")
        return Answer("on it", calls=[Call("work")])

    async with stage(speak, "done", tools=TOOLS) as s:
        s.host.on(SYSTEM_PROMPT_ASSEMBLE, assemble)
        s.host.on(PRE_STEP, pre_step)
        s.host.on(REQUEST, request)
        s.agent.inject(note("i"))
        await s.ask("a")
        assert order[:4] == ["assemble", "pre-step", "request", "attempt"]
        assert s.full_log[5:16] == [
            "step/start 1.1",
            "system 'be brief'",
            "user i",
            "user a",
            "header initial",
            "context",
            "assistant 'on it' +call_1",
            "call call_1",
            "result call_1 ok",
            "step/end 1.1",
            "step/start 1.2",
        ]
        told = [text for text in s.told if text in ("~claimed a 1", "step/start 1.1")]
        assert told == ["~claimed a 1", "step/start 1.1"]


# --- T2, T8 -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("T2")
async def test_pre_step_gets_batch_turn_step_and_signal() -> None:
    seen: list[Any] = []

    def look(proposal: Any, proceed: Any) -> Any:
        seen.append((proposal.agent, [one.text for one in proposal.messages], proposal.turn, proposal.step))
        seen.append(proposal.signal.cancelled)
        return proceed()

    async with stage(Answer(calls=[Call("work")]), "two", tools=TOOLS) as s:
        s.agent.scope.on(PRE_STEP, look)
        await s.ask("a")
        assert seen == [(s.agent, ["a"], 1, 1), False, (s.agent, [], 1, 2), False]


@pytest.mark.rule("T2")
async def test_messages_left_out_are_gone_and_messages_inserted_meanwhile_stay_pending() -> None:
    def leave_out(proposal: Any, proceed: Any) -> Enter:
        if proposal.step == 1:
            s.agent.inject(note("later"))
        return Enter([one for one in proposal.messages if one.text != "i"])

    async with stage("one") as s:
        s.agent.scope.on(PRE_STEP, leave_out)
        s.agent.inject(note("i"))
        await s.ask("a")
        assert s.requests == [["user a"]]
        assert s.pending == ([], ["later"])
        s.agent.inject(note("i"))


@pytest.mark.rule("T2", "I1")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda batch: [*batch, *batch],
        lambda batch: [*batch, note("pending")],
        lambda batch: [*batch, UserMessage("", (Text("x"),))],
        lambda batch: [*batch, "text"],
    ],
    ids=["twice", "an id that is taken", "no id", "no message"],
)
async def test_a_batch_that_cannot_enter_fails_the_turn_and_opens_no_step(wrong: Any) -> None:
    async with stage("one") as s:
        s.agent.scope.on(PRE_STEP, lambda proposal, proceed: Enter(wrong(proposal.messages)))
        s.agent.send(note("pending"), "next-turn", wakeup=False)
        s.agent.send(note("other"), "next-turn", wakeup=False)
        s.agent.inbox.remove("pending")
        s.agent.send(note("pending"), "next-turn", wakeup=False)
        s.agent.steer(note("s"))
        await s.agent.when_idle()
        assert s.log[0] == "turn/start 1"
        assert s.log[1].startswith("turn/end 1 error")
        assert len(s.log) == 2


@pytest.mark.rule("T2")
async def test_a_rejected_step_ends_the_turn_blocked_without_a_step() -> None:
    async with stage() as s:
        s.agent.scope.on(PRE_STEP, lambda proposal, proceed: Reject())
        await s.ask("a")
        assert s.log == ["turn/start 1", "turn/end 1 blocked"]


@pytest.mark.rule("T2", "T3")
async def test_rejecting_a_later_step_blocks_the_turn_after_its_results() -> None:
    async with stage(Answer(calls=[Call("work")]), tools=TOOLS) as s:
        s.agent.scope.on(PRE_STEP, lambda proposal, proceed: Reject() if proposal.step == 2 else proceed())
        await s.ask("a")
        assert s.log[-4:] == ["call call_1", "result call_1 ok", "step/end 1.1", "turn/end 1 blocked"]


@pytest.mark.rule("T8")
async def test_an_emptied_batch_with_nothing_owed_spends_no_call_and_asks_nobody_to_object() -> None:
    stopping: list[int] = []
    async with stage() as s:
        s.agent.scope.on(PRE_STEP, lambda proposal, proceed: Enter(()))
        s.agent.scope.on(TURN_STOPPING, lambda payload: stopping.append(payload.turn))
        s.agent.followup(note("a"))
        s.agent.followup(note("b"))
        await s.agent.when_idle()
        assert s.log == ["turn/start 1", "turn/end 1 completed", "turn/start 2", "turn/end 2 completed"]
        assert (s.requests, stopping) == ([], [])


@pytest.mark.rule("T8")
async def test_an_emptied_batch_claims_again_when_steering_presses() -> None:
    def empty_first(proposal: Any, proceed: Any) -> Any:
        if [one.text for one in proposal.messages] == ["a"]:
            s.agent.steer(note("s"))
            return Enter(())
        return proceed()

    async with stage("one") as s:
        s.agent.scope.on(PRE_STEP, empty_first)
        await s.ask("a")
        assert s.requests == [["user s"]]
        assert s.log[:3] == ["turn/start 1", "step/start 1.1", "user s"]


@pytest.mark.rule("T8", "T3")
async def test_an_emptied_batch_still_enters_when_results_are_owed() -> None:
    gate = Gate()

    @tool
    async def slow() -> None:
        await gate.wait()

    async with stage(Answer(calls=[Call("slow")]), "two", tools=[slow]) as s:
        s.agent.scope.on(PRE_STEP, lambda proposal, proceed: Enter(()) if proposal.step == 2 else proceed())
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.steer(note("s"))
        gate.open()
        await s.agent.when_idle()
        assert s.requests[1][-1] == "result call_1"
        assert s.facts(StepStart)[1].accepted == ()


@pytest.mark.rule("T6", "T8")
async def test_a_turn_closed_by_an_emptied_batch_keeps_its_max_tokens() -> None:
    async with stage(Answer("cut", finish="max-tokens")) as s:
        s.agent.scope.on(PRE_STEP, lambda proposal, proceed: Enter(()) if proposal.step == 2 else proceed())
        s.agent.scope.on(TURN_STOPPING, lambda payload: s.agent.steer(note("s")) and None)
        await s.ask("a")
        assert s.ends == ["max-tokens"]


# --- T3, T4, T5 -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("T3")
async def test_an_answer_that_asks_for_tools_is_followed_by_a_step() -> None:
    async with stage(Answer("a", calls=[Call("work")]), Answer("b", calls=[Call("work")]), "c", tools=TOOLS) as s:
        await s.ask("a")
        assert [(fact.turn, fact.step) for fact in s.facts(StepStart)] == [(1, 1), (1, 2), (1, 3)]


@pytest.mark.rule("T4")
async def test_turn_stopping_runs_inside_the_open_turn_when_nothing_is_owed_or_pressing() -> None:
    seen: list[tuple[int, str]] = []

    async def look(payload: Any) -> None:
        seen.append((payload.turn, s.log[-1]))
        assert payload.signal.cancelled is False

    async with stage(Answer(calls=[Call("work")]), "two", tools=TOOLS) as s:
        s.agent.scope.on(TURN_STOPPING, look)
        s.agent.inject(note("i"))
        await s.ask("a")
        s.agent.inject(note("passive"))
        assert seen == [(1, "step/end 1.2")]


@pytest.mark.rule("T4")
@pytest.mark.parametrize("first", [True, False])
async def test_listeners_of_turn_stopping_object_by_steering_in_whatever_order(first: bool) -> None:
    def object_once(payload: Any) -> None:
        if len(s.requests) == 1:
            s.agent.steer(note("not yet"))

    listeners = [object_once, lambda payload: None]
    async with stage("one", "two") as s:
        for listener in listeners if first else reversed(listeners):
            s.agent.scope.on(TURN_STOPPING, listener)
        await s.ask("a")
        assert s.requests[1][-1] == "user not yet"
        assert s.ends == ["completed"]


@pytest.mark.rule("T4", "D7")
async def test_a_passive_entry_is_no_objection() -> None:
    async with stage("one", "two") as s:
        s.agent.scope.on(TURN_STOPPING, lambda payload: s.agent.inject(note("i")) and None)
        await s.ask("a")
        assert (len(s.requests), s.pending) == (1, ([], ["i"]))


@pytest.mark.rule("T5")
async def test_a_concluding_result_ends_the_turn_at_its_step() -> None:
    async with stage(Answer(calls=[Call("work"), Call("conclude")]), "never", tools=TOOLS) as s:
        await s.ask("a")
        assert (len(s.requests), s.ends) == (1, ["completed"])


@pytest.mark.rule("T5")
async def test_an_error_concludes_nothing() -> None:
    @tool
    async def broken() -> ToolOutput:
        return ToolOutput("no", is_error=True, concludes_turn=True)

    async with stage(Answer(calls=[Call("broken")]), "two", tools=[broken]) as s:
        await s.ask("a")
        assert len(s.requests) == 2


@pytest.mark.rule("T5", "D7")
@pytest.mark.parametrize("kind", ["steer", "inject"])
async def test_racing_steering_still_runs_after_a_concluding_result_and_passive_input_does_not(kind: str) -> None:
    gate = Gate()

    @tool
    async def slow() -> ToolOutput:
        await gate.wait()
        return ToolOutput("ok", concludes_turn=True)

    async with stage(Answer(calls=[Call("slow")]), "two", tools=[slow]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        (s.agent.steer if kind == "steer" else s.agent.inject)(note("s"))
        gate.open()
        await s.agent.when_idle()
        assert len(s.requests) == (2 if kind == "steer" else 1)


@pytest.mark.rule("T5", "K11")
async def test_contexts_of_a_concluding_tool_run_first() -> None:
    @tool
    async def last() -> ToolOutput:
        return ToolOutput("ok", concludes_turn=True, contexts=[note("context")])

    async with stage(Answer(calls=[Call("last")]), "two", tools=[last]) as s:
        await s.ask("a")
        assert s.requests[1][-2:] == ["result call_1", "user context"]


@pytest.mark.rule("T5", "T4")
async def test_turn_stopping_may_object_to_a_conclusion() -> None:
    async with stage(Answer(calls=[Call("conclude")]), "two", tools=TOOLS) as s:
        s.agent.scope.on(
            TURN_STOPPING, lambda payload: s.agent.steer(note("s")) and None if not s.requests[1:] else None
        )
        await s.ask("a")
        assert len(s.requests) == 2


# --- T6, T7 -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("T6")
async def test_calls_of_a_truncated_answer_are_dropped_and_the_end_says_max_tokens() -> None:
    async with stage(Answer("text", calls=[Call("work")], finish="max-tokens"), "next", tools=TOOLS) as s:
        await s.ask("a")
        assert s.log[3:] == ["assistant 'text'", "step/end 1.1", "turn/end 1 max-tokens"]
        await s.ask("b")
        assert s.ends[-1] == "completed"


@pytest.mark.rule("T6")
async def test_max_tokens_sticks_although_a_later_step_completes() -> None:
    gate = Gate()
    async with stage(talk(gate, "cut", finish="max-tokens"), "fine") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.steer(note("s"))
        gate.open()
        await s.agent.when_idle()
        assert (len(s.requests), s.ends) == (2, ["max-tokens"])


@pytest.mark.rule("T6", "S4")
async def test_a_truncated_answer_with_nothing_left_keeps_its_usage_and_history_skips_it() -> None:
    truncated = Answer(calls=[Call("work")], finish="max-tokens", usage=Usage(7, 3))
    async with stage(truncated, "next", tools=TOOLS) as s:
        await s.ask("a")
        fact = s.facts(AssistantMessageAdded)[0]
        assert (fact.message.content, fact.usage) == ((), Usage(7, 3))
        await s.ask("b")
        assert s.requests[1] == ["user a", "user b"]


@pytest.mark.rule("T7", "C11")
async def test_every_turn_ends_with_its_own_reason() -> None:
    gate = Gate()
    script = ["ok", Answer("cut", finish="max-tokens"), talk(RuntimeError("no")), talk("x", gate)]
    async with stage(*script) as s:
        for text in ("a", "b", "c"):
            await s.ask(text)
        s.agent.followup(note("d"))
        await gate.reached()
        s.agent.cancel("parent")
        await s.agent.when_idle()
        s.agent.scope.on(PRE_STEP, lambda proposal, proceed: Reject())
        await s.ask("e")
        assert s.ends == ["completed", "max-tokens", "error UNKNOWN", "aborted parent", "blocked"]


# --- T9, T10, T12 -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("T9", "N8")
async def test_a_failing_turn_has_message_causes_and_code_and_is_told_before_its_end() -> None:
    async def fail(asked: Any) -> Any:
        try:
            raise OSError("cable cut")
        except OSError as error:
            raise ExceptionGroup("many", [ModelFailureLike("gone")]) from error
        yield

    class ModelFailureLike(Exception):
        code = "CABLE"

    async with stage(fail) as s:
        await s.ask("a")
        end = s.facts(TurnEnd)[0].reason.failure
        assert (end.code, end.message) == ("CABLE", "ModelFailureLike: gone")
        tail = s.told[-4:]
        assert tail == ["step/end 1.1", "~error CABLE", "turn/end 1 error CABLE", "~status idle"]
        error = s.errors[0]
        assert (error.turn, error.step, type(error.error)) == (1, 1, ExceptionGroup)


@pytest.mark.rule("T9")
async def test_the_message_of_a_failure_holds_its_causes() -> None:
    async def fail(asked: Any) -> Any:
        try:
            raise OSError("cable cut")
        except OSError as error:
            raise RuntimeError("no answer") from error
        yield

    async with stage(fail) as s:
        await s.ask("a")
        assert s.facts(TurnEnd)[0].reason.failure.message == "RuntimeError: no answer <- OSError: cable cut"


@pytest.mark.rule("T9", "T10")
@pytest.mark.parametrize("point", [PRE_STEP, REQUEST, REQUEST_ERROR, SYSTEM_PROMPT_ASSEMBLE, TURN_STOPPING])
async def test_an_exception_of_any_hook_ends_the_turn_with_an_error_and_a_balanced_log(point: Any) -> None:
    def fail(*payload: Any) -> Any:
        raise LookupError(point.name)

    script = [talk(RuntimeError("model"))] if point is REQUEST_ERROR else ["one"]
    async with stage(*script, "two") as s:
        stop = s.agent.scope.on(point, fail)
        await s.ask("a")
        assert s.ends == ["error UNKNOWN"]
        assert [error.error.args for error in s.errors] == [(point.name,)]
        stop()
        await s.ask("b")
        assert s.ends[-1] == "completed"


@pytest.mark.rule("T12", "Q4")
async def test_a_wrong_setting_swallows_nothing_that_the_user_typed() -> None:
    async with stage("one", provider="nobody") as s:
        await s.ask("a")
        assert s.log == ["turn/start 1", "step/start 1.1", "user a", "step/end 1.1", "turn/end 1 error NO_ADAPTER"]
        s.agent.scope.on(REQUEST, lambda proposal, proceed: CallConfig("scripted", "m"))
        await s.ask("b")
        assert s.requests == [["user a", "user b"]]


@pytest.mark.rule("T12")
@pytest.mark.parametrize("keep", [True, False])
async def test_a_cancel_during_preparation_follows_the_rules_of_cancellation(keep: bool) -> None:
    def cancel(proposal: Any, proceed: Any) -> Any:
        s.agent.cancel(keep_inbox=keep)
        return proceed()

    async with stage("one") as s:
        s.agent.system_prompt = "be brief"
        stop = s.agent.scope.on(REQUEST, cancel)
        await s.ask("a")
        kept = ["user a"] if keep else []
        assert s.log == ["turn/start 1", "step/start 1.1", *kept, "step/end 1.1", "turn/end 1 aborted user"]
        stop()
        await s.ask("b")
        assert s.requests == [[*kept, "system be brief", "user b"]]
        assert [line for line in s.full_log if line.startswith(("header", "context"))] == ["header initial", "context"]


# --- T11 --------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("T11")
async def test_a_runaway_turn_ends_at_its_limit_before_anything_more_is_claimed() -> None:
    gate = Gate()

    @tool
    async def slow() -> None:
        if len(s.requests) == 3:
            await gate.wait()

    asking = Answer(calls=[Call("slow")])
    async with stage(asking, asking, asking, "fine", tools=[slow], max_steps_per_turn=3) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.steer(note("s"))
        gate.open()
        await s.agent.when_idle()
        assert (len(s.requests), s.ends, s.pending) == (3, ["error STEP_LIMIT"], ([], ["s"]))
        assert "max_steps_per_turn = 3" in s.errors[0].failure.message
        assert getattr(s.errors[0].error, "code", None) == "STEP_LIMIT"
        await s.ask("b")
        assert s.ends[-1] == "completed"
        assert s.requests[-1][-2:] == ["user s", "user b"]


@pytest.mark.rule("T11", "T4")
async def test_an_objection_beyond_the_limit_ends_the_turn_with_it() -> None:
    async with stage(max_steps_per_turn=2) as s:
        s.agent.scope.on(TURN_STOPPING, lambda payload: s.agent.steer("more") and None)
        await s.ask("a")
        assert (len(s.requests), s.ends) == (2, ["error STEP_LIMIT"])


@pytest.mark.rule("T11")
async def test_a_turn_that_ends_within_its_limit_is_not_touched_by_it() -> None:
    async with stage(Answer(calls=[Call("work")]), "done", tools=TOOLS, max_steps_per_turn=2) as s:
        await s.ask("a")
        assert s.ends == ["completed"]


@pytest.mark.rule("T7")
async def test_a_finish_of_a_kind_nobody_knows_is_an_answer() -> None:
    async with stage(Answer("hm", finish="weird")) as s:
        await s.ask("a")
        assert (s.log[3], s.ends) == ("assistant 'hm'", ["completed"])


@pytest.mark.rule("T9", "H6")
async def test_a_retry_is_another_attempt_of_the_same_step() -> None:
    failure = ModelFailure(Failure("busy", Code.SERVER.value))
    async with stage(talk("half", failure), "whole", host=Host(retries=None)) as s:
        s.agent.scope.on(REQUEST_ERROR, lambda failed, proceed: Retry())
        s.agent.scope.on(AGENT_ERROR, lambda told: None)
        await s.ask("a")
        assert s.log == [
            "turn/start 1",
            "step/start 1.1",
            "user a",
            "attempt",
            "assistant 'whole'",
            "step/end 1.1",
            "turn/end 1 completed",
        ]
        assert s.errors == []
