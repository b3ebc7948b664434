"""From a call to its result: parsing, hooks, guards, approval, the last word (contract §11 K2, K3, K11)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.stage import Stage, note, stage
from treadle import Answer, Call, Host, Message, Text, Tool, ToolError, ToolOutput, ToolRun, tool
from treadle.hooks import (
    TOOLS_EXECUTE,
    TOOLS_POST_EXECUTE,
    TOOLS_PRE_EXECUTE,
    TOOLS_RESULT,
    AcceptResult,
    AllowCall,
    AskCall,
    BlockResult,
    DenyCall,
    ReplaceResult,
)
from treadle.loop import pipeline
from treadle.loop.pipeline import parse_arguments
from treadle.session import ToolResultAdded


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
async def lax(x: int = 0) -> str:
    """All its arguments are optional."""
    return "ran"


def results(s: Stage) -> list[str]:
    return [text.split(" ", 2)[2] for text in s.log if text.startswith("result")]


# --- K3 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("K3")
@pytest.mark.parametrize("text", ["", "  \n"])
async def test_empty_arguments_are_an_empty_object(text: str) -> None:
    async with stage(Answer(calls=[Call("lax", text), Call("add", text)]), tools=[add, lax]) as s:
        await s.ask("a")
        assert results(s) == ["ok", "INVALID_ARGUMENTS"]
        assert "required" in s.results()["call_2"]


@pytest.mark.rule("K3", "X3")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"x": 1', "byte 7"),
        ("{bad}", "byte 1"),
        ('{"x": 1} {"x": 2}', "byte 10"),
        ("[]", "not an array (at byte 0)"),
        ("3", "not a number"),
        ("3.5", "not a number"),
        ('"{}"', "not a string"),
        ("true", "not a boolean"),
        ("null", "not null"),
        ("[" * 10_000 + "]" * 10_000, "nested deeper"),
        ('{"x": ' + "[" * 200 + "]" * 200 + "}", "nested deeper than 200 levels"),
        ('{"x": ' * 10_000 + "1" + "}" * 10_000, "nested deeper"),
        ('{"x": NaN}', "no valid JSON"),
    ],
)
async def test_arguments_that_are_no_json_object_are_refused_with_the_place_and_nothing_runs(
    text: str, words: str
) -> None:
    async with stage(Answer(calls=[Call("lax", text)]), tools=[lax]) as s:
        await s.ask("a")
        assert results(s) == ["INVALID_ARGUMENTS"]
        told = s.results()["call_1"]
        assert words in told
        assert "The tool was not run" in told
        assert '"properties"' in told
        assert s.ends == ["completed"]


@pytest.mark.rule("K3", "X3")
def test_arguments_beyond_every_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "MAX_ARGUMENT_CHARACTERS", 10)
    with pytest.raises(ValueError, match="longer than 10 characters"):
        parse_arguments('{"x": "yyyyyyyyyy"}')
    assert parse_arguments('{"a":1}') == {"a": 1}


@pytest.mark.rule("K3")
async def test_of_duplicate_keys_the_last_one_counts_and_text_that_looks_like_json_stays_text() -> None:
    got: list[Any] = []

    @tool
    async def keep(text: str = "", n: int = 0) -> None:
        got.append((text, n))

    calls = [Call("keep", '{"n": 1, "n": 2}'), Call("keep", '{"text": "[1, 2]"}')]
    async with stage(Answer(calls=calls), tools=[keep]) as s:
        await s.ask("a")
        assert got == [("", 2), ("[1, 2]", 0)]


@pytest.mark.rule("K3")
@pytest.mark.parametrize("name", ["nope", "", "with space", "x" * 300, "\u2028"])
async def test_an_unknown_tool_gives_an_error_result_that_names_the_known_ones(name: str) -> None:
    async with stage(Answer(calls=[Call(name), Call("lax")]), tools=[lax]) as s:
        await s.ask("a")
        assert results(s) == ["UNKNOWN_TOOL", "ok"]
        told = s.results()["call_1"]
        assert "Known tools: lax" in told
        assert len(told) < 200


@pytest.mark.rule("K3")
async def test_an_unknown_tool_where_there_are_none_says_so() -> None:
    async with stage(Answer(calls=[Call("nope")])) as s:
        await s.ask("a")
        assert s.results()["call_1"] == "there is no tool 'nope'. Known tools: none."


@pytest.mark.rule("K3", "K2")
async def test_a_raising_tool_gives_its_own_code_or_tool_failed() -> None:
    class Coded(Exception):
        code = "QUOTA_USED_UP"

    class Odd(BaseException):
        code = 5

    errors: list[BaseException] = [
        ValueError("plain"),
        Coded("coded"),
        ToolError("said so", "MINE"),
        ToolError("no code"),
        Odd("odd"),
        ExceptionGroup("one", [Coded("inside")]),
        ToolError("long code", "x" * 65),
    ]

    @tool
    async def fail(index: int) -> None:
        raise errors[index]

    async with stage(Answer(calls=[Call("fail", {"index": index}) for index in range(7)]), tools=[fail]) as s:
        await s.ask("a")
        assert results(s) == [
            "TOOL_FAILED",
            "QUOTA_USED_UP",
            "MINE",
            "TOOL_FAILED",
            "TOOL_FAILED",
            "QUOTA_USED_UP",
            "TOOL_FAILED",
        ]
        assert s.results()["call_1"] == "ValueError: plain"
        assert s.ends == ["completed"]


# --- K2: pre-execute and guards ---------------------------------------------------------------------------------------


@pytest.mark.rule("K2")
async def test_the_stages_run_in_order() -> None:
    order: list[str] = []

    def pre(proposal: Any, proceed: Any) -> Any:
        order.append(f"pre {proposal.arguments}")
        return proceed()

    async def wrap(proposal: Any, proceed: Any) -> Any:
        order.append("before")
        value = await proceed()
        order.append("after")
        return value

    def post(outcome: Any, proceed: Any) -> Any:
        order.append(f"post {outcome.content[0].text} {outcome.value}")
        return proceed()

    def render(value: int) -> str:
        order.append(f"render {value}")
        return f"<{value}>"

    def last(content: Any) -> Any:
        order.append(f"final {content[0].text}")
        return content

    @tool(output_schema={"type": "integer"}, render=render, final_content=last)
    async def one(a: int) -> int:
        order.append("body")
        return a

    async with stage(Answer(calls=[Call("one", {"a": 1})]), tools=[one]) as s:
        on = s.agent.scope.on
        on(TOOLS_PRE_EXECUTE, pre)
        on(TOOLS_EXECUTE, wrap)
        on(TOOLS_POST_EXECUTE, post)
        on(TOOLS_RESULT, lambda told: order.append(f"result {told.content[0]} {told.value}"))
        s.agent.tools.guard(lambda proposal: order.append("guard"))
        await s.ask("a")
        assert order == [
            "pre {'a': 1}",
            "guard",
            "before",
            "body",
            "after",
            "render 1",
            "post <1> 1",
            "final <1>",
            "result Text(text='<1>') 1",
        ]


@pytest.mark.rule("K2", "K5")
async def test_a_denied_call_does_not_run_and_gets_call_and_result_together() -> None:
    def deny(proposal: Any, proceed: Any) -> Any:
        return DenyCall("not today") if proposal.call.call_id == "call_1" else DenyCall("never", "POLICY")

    async with stage(Answer(calls=[Call("lax"), Call("lax")]), tools=[lax]) as s:
        s.agent.scope.on(TOOLS_PRE_EXECUTE, deny)
        s.agent.scope.on(TOOLS_POST_EXECUTE, lambda outcome, proceed: pytest.fail("nothing ran"))
        await s.ask("a")
        assert s.log[4:8] == ["call call_1", "result call_1 DENIED", "call call_2", "result call_2 POLICY"]
        assert s.results() == {"call_1": "not today", "call_2": "never"}


@pytest.mark.rule("K2", "K3")
async def test_replaced_arguments_are_checked_and_used_everywhere() -> None:
    seen: list[Any] = []

    def replace(proposal: Any, proceed: Any) -> AllowCall:
        return AllowCall({"a": 40} if proposal.call.call_id == "call_1" else {"a": "text"})

    async with stage(Answer(calls=[Call("add", {"a": 1}), Call("add", {"a": 1})]), tools=[add]) as s:
        s.agent.scope.on(TOOLS_PRE_EXECUTE, replace)
        s.agent.tools.guard(lambda proposal: seen.append(proposal.arguments))
        s.agent.scope.on(TOOLS_POST_EXECUTE, lambda outcome, proceed: seen.append(outcome.arguments) or proceed())
        await s.ask("a")
        assert s.results()["call_1"] == "42"
        assert results(s) == ["ok", "INVALID_ARGUMENTS"]
        assert seen == [{"a": 40}, {"a": 40}]


@pytest.mark.rule("K2")
async def test_guards_can_only_deny_and_the_first_that_does_decides() -> None:
    asked: list[str] = []

    async def later(proposal: Any) -> DenyCall | None:
        await trio.lowlevel.checkpoint()
        asked.append("later")
        return DenyCall("guarded", "GUARDED") if proposal.call.name == "add" else None

    async with stage(Answer(calls=[Call("add", {"a": 1}), Call("lax")]), tools=[add, lax]) as s:
        stop = s.host.tools.guard(later)
        s.agent.tools.guard(lambda proposal: asked.append("inner"))
        s.agent.tools.guard(lambda proposal: AllowCall() if proposal.call.name == "lax" else None)  # type: ignore[arg-type,return-value]
        await s.ask("a")
        assert asked == ["later", "later", "inner"]
        assert results(s) == ["GUARDED", "HOOK_FAILED"]
        stop()
        stop()


@pytest.mark.rule("K2")
async def test_the_same_guard_may_be_added_twice_and_taken_out_once() -> None:
    asked: list[int] = []

    def guard(proposal: Any) -> None:
        asked.append(1)

    async with stage(Answer(calls=[Call("lax")]), tools=[lax]) as s:
        s.agent.tools.guard(guard)
        s.agent.tools.guard(guard)()
        await s.ask("a")
        assert asked == [1]


@pytest.mark.rule("K2")
@pytest.mark.parametrize(
    ("approver", "end", "words"),
    [
        (None, "NOT_APPROVED", "nobody can give it here"),
        (lambda answer: True, "ok", "ran"),
        (lambda answer: False, "NOT_APPROVED", "was not approved"),
        (lambda answer: "yes", "NOT_APPROVED", "was not approved"),
        (lambda answer: 1 / 0, "HOOK_FAILED", "ZeroDivisionError"),
    ],
    ids=["nobody", "yes", "no", "something else", "an error"],
)
async def test_a_call_that_needs_approval_asks_the_hosts_approver(approver: Any, end: str, words: str) -> None:
    asked: list[Any] = []

    async def approve(proposal: Any, question: str) -> bool:
        asked.append((proposal.call.name, question))
        return approver(question)

    host = Host(approver=approve if approver is not None else None)
    async with stage(Answer(calls=[Call("lax")]), tools=[lax], host=host) as s:
        s.agent.scope.on(TOOLS_PRE_EXECUTE, lambda proposal, proceed: AskCall("may I?"))
        await s.ask("a")
        assert results(s) == [end]
        assert words in s.results()["call_1"]
        assert asked == ([("lax", "may I?")] if approver is not None else [])


@pytest.mark.rule("K2")
@pytest.mark.parametrize("wrong", [DenyCall(5), DenyCall("why", 5), None])  # type: ignore[arg-type]
async def test_a_decision_that_makes_no_sense_runs_nothing(wrong: Any) -> None:
    async with stage(Answer(calls=[Call("lax")]), tools=[lax]) as s:
        s.agent.scope.on(TOOLS_PRE_EXECUTE, lambda proposal, proceed: wrong)
        await s.ask("a")
        assert results(s)[0] in ("HOOK_FAILED", "HOOK_ERROR", "TOOL_FAILED")


# --- K2: execute, post-execute, final content -------------------------------------------------------------------------


@pytest.mark.rule("K6", "C10")
async def test_a_body_starts_after_no_cancel_also_where_a_wrapper_shields_itself(autojump_clock: MockClock) -> None:
    ran: list[str] = []

    @tool
    async def one() -> str:
        ran.append("one")
        return "done"

    async def wrap(proposal: Any, proceed: Any) -> Any:
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
            return await proceed()

    async with stage(Answer(calls=[Call("one")]), tools=[one]) as s:
        s.agent.scope.on(TOOLS_EXECUTE, wrap)
        s.agent.followup("a")
        await trio.sleep(0.5)
        s.agent.cancel()
        await s.agent.when_idle()
        assert results(s) == ["ABORTED_BEFORE_DISPATCH"]
    assert ran == []


@pytest.mark.rule("K2")
async def test_a_wrapper_may_replace_the_body() -> None:
    async with stage(Answer(calls=[Call("lax")]), tools=[lax]) as s:
        s.agent.scope.on(TOOLS_EXECUTE, lambda proposal, proceed: {"wrapped": proposal.call.name})
        await s.ask("a")
        assert s.results() == {"call_1": '{"wrapped":"lax"}'}


@pytest.mark.rule("K2")
@pytest.mark.parametrize(
    ("decision", "end", "text", "value"),
    [
        (AcceptResult(), "ok", "1", 1),
        (ReplaceResult((Text("other"),)), "ok", "other", 1),
        (ReplaceResult((Text("other"),), value=0), "ok", "other", 0),
        (ReplaceResult(value=7), "ok", "7", 7),
        (ReplaceResult(value="text"), "INVALID_OUTPUT", "does not fit its schema", None),
        (ReplaceResult((Text("x"),), value=float("nan")), "INVALID_OUTPUT", "not JSON", None),
        (ReplaceResult(content=(5,)), "INVALID_DATA", "no content block", None),  # type: ignore[arg-type]
        (ReplaceResult(content=()), "ok", "(no output)", 1),
        (BlockResult("withheld"), "BLOCKED", "withheld", None),
        (BlockResult(5), "HOOK_FAILED", "", None),  # type: ignore[arg-type]
    ],
)
async def test_post_execute_accepts_replaces_or_blocks(decision: Any, end: str, text: str, value: Any) -> None:
    @tool(output_schema={"type": "integer"})
    async def one() -> int:
        return 1

    async with stage(Answer(calls=[Call("one")]), tools=[one]) as s:
        s.agent.scope.on(TOOLS_POST_EXECUTE, lambda outcome, proceed: decision)
        await s.ask("a")
        assert results(s) == [end]
        assert text in s.results()["call_1"]
        assert s.facts(ToolResultAdded)[0].value == value


@pytest.mark.rule("K2", "T5")
async def test_a_replaced_value_keeps_that_the_tool_concludes() -> None:
    @tool
    async def last() -> ToolOutput:
        return ToolOutput("x", concludes_turn=True)

    async with stage(Answer(calls=[Call("last")]), tools=[last]) as s:
        s.agent.scope.on(TOOLS_POST_EXECUTE, lambda outcome, proceed: ReplaceResult(value=[1]))
        await s.ask("a")
        assert (len(s.requests), s.results()) == (1, {"call_1": "[1]"})


@pytest.mark.rule("K2")
@pytest.mark.parametrize(
    ("last", "end", "text"),
    [
        (lambda content: (*content, Text("more")), "ok", "donemore"),
        (lambda content: "text", "ok", "text"),
        (lambda content: None, "HOOK_FAILED", ""),
        (lambda content: {1, 2}, "INVALID_DATA", "no content block"),
    ],
)
async def test_the_final_content_filter_has_the_last_word(last: Any, end: str, text: str) -> None:
    @tool(final_content=last, output_schema={"type": "string", "maxLength": 4})
    async def one() -> str:
        return "done"

    async with stage(Answer(calls=[Call("one")]), tools=[one]) as s:
        await s.ask("a")
        assert results(s) == [end]
        assert text in s.results()["call_1"]


@pytest.mark.rule("K2", "C4")
async def test_post_execute_during_convergence_cannot_take_a_result_away() -> None:
    entered = trio.Event()

    async def hang(outcome: Any, proceed: Any) -> Any:
        entered.set()
        await trio.sleep_forever()

    async with stage(Answer(calls=[Call("lax"), Call("lax")]), tools=[lax]) as s:
        s.agent.scope.on(TOOLS_POST_EXECUTE, hang)
        s.agent.followup("a")
        await entered.wait()
        s.agent.cancel()
        await s.agent.when_idle()
        assert results(s) == ["ok", "ABORTED_BEFORE_DISPATCH"]


@pytest.mark.rule("K2", "C4")
@pytest.mark.parametrize("point", [TOOLS_PRE_EXECUTE, "guard"])
async def test_a_cancel_while_a_call_is_being_decided_leaves_it_unstarted(point: Any) -> None:
    entered = trio.Event()

    async def hang(proposal: Any, *proceed: Any) -> Any:
        entered.set()
        await trio.sleep_forever()

    async with stage(Answer(calls=[Call("lax")]), tools=[lax]) as s:
        if point == "guard":
            s.agent.tools.guard(hang)
        else:
            s.agent.scope.on(point, hang)
        s.agent.followup("a")
        await entered.wait()
        s.agent.cancel()
        await s.agent.when_idle()
        assert results(s) == ["ABORTED_BEFORE_DISPATCH"]


@pytest.mark.rule("K1")
async def test_a_tool_that_takes_too_long_is_stopped(autojump_clock: MockClock) -> None:
    @tool(timeout=5)
    async def slow(seconds: int) -> str:
        await trio.sleep(seconds)
        return "in time"

    async with stage(Answer(calls=[Call("slow", {"seconds": 1}), Call("slow", {"seconds": 60})]), tools=[slow]) as s:
        await s.ask("a")
        assert results(s) == ["ok", "TOOL_TIMEOUT"]
        assert s.results()["call_2"] == "the tool was stopped after 5 s"
        assert trio.current_time() < 10


# --- K11 --------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("K11", "K5")
async def test_contexts_are_one_message_each_with_their_identity_in_the_order_of_the_calls() -> None:
    gate = trio.Event()

    @tool(parallel=True)
    async def giving(run: ToolRun) -> ToolOutput:
        if run.call.call_id == "call_1":
            await gate.wait()
        else:
            gate.set()
        return ToolOutput("ok", contexts=[note(f"tool {run.call.call_id}")])

    def more(outcome: Any, proceed: Any) -> AcceptResult:
        return AcceptResult([note(f"hook {outcome.call.call_id}")])

    async with stage(Answer(calls=[Call("giving"), Call("giving")]), tools=[giving]) as s:
        s.agent.scope.on(TOOLS_POST_EXECUTE, more)
        await s.ask("a")
        assert s.requests[1][-4:] == ["user tool call_1", "user hook call_1", "user tool call_2", "user hook call_2"]
        messages: list[Message] = list(s.model.requests[1].messages)
        assert [one.id for one in messages[-4:]] == [one.text for one in messages[-4:]]  # type: ignore[union-attr]
        assert [text for text in s.inbox_log if "+tool" in text] == [
            "next-step @0 +tool call_1 +hook call_1",
            "next-step @2 +tool call_2 +hook call_2",
        ]


@pytest.mark.rule("K11", "I1", "N8")
async def test_a_context_whose_id_is_taken_is_reported_and_the_others_arrive() -> None:
    @tool
    async def giving() -> ToolOutput:
        return ToolOutput("ok", contexts=[note("a"), note("c"), note("c"), note("d")])

    async with stage(Answer(calls=[Call("giving")]), tools=[giving]) as s:
        await s.ask("a")
        assert s.requests[1][-2:] == ["user c", "user d"]
        assert [told.failure.code for told in s.errors] == ["DUPLICATE_MESSAGE", "DUPLICATE_MESSAGE"]
        assert s.ends == ["completed"]


@pytest.mark.rule("K11", "D3")
@pytest.mark.parametrize("where", ["tool", "hook"])
async def test_a_context_that_is_no_message_makes_the_result_an_error(where: str) -> None:
    @tool
    async def giving() -> ToolOutput:
        return ToolOutput("ok", contexts=["text"] if where == "tool" else [])  # type: ignore[list-item]

    async with stage(Answer(calls=[Call("giving")]), tools=[giving]) as s:
        if where == "hook":
            s.agent.scope.on(TOOLS_POST_EXECUTE, lambda outcome, proceed: AcceptResult(("text",)))  # type: ignore[arg-type]
        await s.ask("a")
        assert results(s) == ["INVALID_OUTPUT" if where == "tool" else "INVALID_MESSAGE"]


@pytest.mark.rule("K11", "K2")
async def test_a_failing_hook_loses_no_context_of_the_tool() -> None:
    def fail(*given: Any) -> Any:
        raise ValueError

    @tool(final_content=fail)
    async def giving() -> ToolOutput:
        return ToolOutput("ok", contexts=[note("c")])

    async with stage(Answer(calls=[Call("giving")]), tools=[giving]) as s:
        await s.ask("a")
        assert s.requests[1][-1] == "user c"
    async with stage(Answer(calls=[Call("giving")]), tools=[giving]) as s:
        s.agent.scope.on(TOOLS_POST_EXECUTE, fail)
        await s.ask("a")
        assert s.requests[1][-1] == "user c"


@pytest.mark.rule("K11", "K1")
async def test_presenters_are_kept_for_people_and_never_reach_the_model() -> None:
    one = Tool(
        "one",
        "One.",
        {"type": "object"},
        lambda arguments, run: "raw",
        present_call=lambda call: f"calling {call.name}",
        present_result=lambda content: f"got {len(content)}",
    )
    async with stage(Answer(calls=[Call("one")]), tools=[one]) as s:
        await s.ask("a")
        assert s.results() == {"call_1": "raw"}
        assert one.present_call is not None
        assert one.present_call(s.model.requests[1].messages[1].calls[0]) == "calling one"  # type: ignore[union-attr]
        assert "calling" not in str([list(request.messages) for request in s.model.requests])


@pytest.mark.rule("K11", "I1")
async def test_contexts_that_are_all_taken_leave_nothing_pending() -> None:
    @tool
    async def giving() -> ToolOutput:
        return ToolOutput("ok", contexts=[note("a")])

    async with stage(Answer(calls=[Call("giving")]), tools=[giving]) as s:
        await s.ask("a")
        assert s.pending == ([], [])
        assert s.requests[1][-1] == "result call_1"
        assert len(s.errors) == 1


@pytest.mark.rule("K2", "K3")
async def test_arguments_from_a_hook_that_no_schema_can_check_run_nothing() -> None:
    async with stage(Answer(calls=[Call("lax")]), tools=[lax]) as s:
        s.agent.scope.on(TOOLS_PRE_EXECUTE, lambda proposal, proceed: AllowCall({"x": object()}))
        await s.ask("a")
        assert results(s) == ["INVALID_ARGUMENTS"]
