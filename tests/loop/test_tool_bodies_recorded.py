"""What a result tells beside itself: that the body was not run, or what it came to before others made this of it (K2)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from attrs import evolve

from tests.stage import stage
from treadle import Answer, Call, Text, ToolError, ToolOutput, message, tool
from treadle.hooks import (
    TOOLS_EXECUTE,
    TOOLS_POST_EXECUTE,
    TOOLS_PRE_EXECUTE,
    AcceptResult,
    BlockResult,
    DenyCall,
    ReplaceResult,
)
from treadle.session import ToolResultAdded, decode_event, encode_event
from treadle.words.messages import ToolBody


@tool
async def weigh(what: str = "flour") -> dict[str, Any]:
    """Weigh something."""
    await trio.lowlevel.checkpoint()
    if what == "air":
        raise ToolError("it has no weight", "WEIGHTLESS")
    return {"what": what, "kilos": 7}


@tool(max_result_bytes=256)
async def recite() -> str:
    """Recite at length."""
    await trio.lowlevel.checkpoint()
    return "la " * 500


@tool
async def fetch() -> ToolOutput:
    """Hand messages over."""
    await trio.lowlevel.checkpoint()
    return ToolOutput("here", contexts=[message("one"), message("two")])


PLAIN = '{"what":"flour","kilos":7}'


async def result_of(call: Call, point: Any = None, hook: Any = None, given: Any = weigh) -> ToolResultAdded:
    """The recorded result of one call, as reading the log gives it back."""
    async with stage(Answer(calls=[call]), tools=[given]) as s:
        if hook is not None:
            s.agent.scope.on(point, hook)
        await s.ask("a")
        entry = next(one for one in s.agent.session.events if type(one.data) is ToolResultAdded)
        return decode_event(encode_event(entry)).data


@pytest.mark.rule("K2")
@pytest.mark.parametrize(
    ("call", "code"),
    [
        (Call("weigh", {"what": 7}), "INVALID_ARGUMENTS"),
        (Call("weigh", "{"), "INVALID_ARGUMENTS"),
        (Call("dance"), "UNKNOWN_TOOL"),
    ],
)
async def test_a_call_that_cannot_run_is_told_as_refused(call: Call, code: str) -> None:
    result = await result_of(call)
    assert (result.code, result.refused, result.body) == (code, True, None)


@pytest.mark.rule("K2")
async def test_a_call_that_a_hook_denies_is_told_as_refused_whatever_its_code() -> None:
    result = await result_of(Call("weigh"), TOOLS_PRE_EXECUTE, lambda *_: DenyCall("no", "MY_OWN"))
    assert (result.code, result.refused) == ("MY_OWN", True)


@pytest.mark.rule("K2")
async def test_a_body_that_fails_under_the_same_code_is_not_refused() -> None:
    result = await result_of(Call("weigh", {"what": "air"}))
    assert (result.code, result.refused, result.body) == ("WEIGHTLESS", False, None)


@pytest.mark.rule("K2")
async def test_a_result_that_nobody_changes_tells_nothing_more() -> None:
    result = await result_of(Call("weigh"), TOOLS_POST_EXECUTE, lambda *_: AcceptResult())
    assert result == ToolResultAdded("call_1", (Text(PLAIN),))


@pytest.mark.rule("K2")
@pytest.mark.parametrize(
    ("decision", "shown"),
    [(ReplaceResult((Text("seven"),)), "seven"), (BlockResult("not for you"), "not for you")],
)
async def test_a_result_that_a_hook_replaces_keeps_what_the_body_came_to(decision: Any, shown: str) -> None:
    result = await result_of(Call("weigh"), TOOLS_POST_EXECUTE, lambda *_: decision)
    assert result.content == (Text(shown),)
    assert result.body == ToolBody((Text(PLAIN),))


@pytest.mark.rule("K2")
async def test_the_last_word_of_the_tool_keeps_it_as_well() -> None:
    short = evolve(weigh, final_content=lambda _: (Text("7"),))
    result = await result_of(Call("weigh"), given=short)
    assert (result.content, result.body) == ((Text("7"),), ToolBody((Text(PLAIN),)))


@pytest.mark.rule("K2")
async def test_what_a_wrapper_makes_of_the_body_keeps_it_also_where_the_body_failed() -> None:
    async def wrap(_: Any, proceed: Any) -> Any:
        try:
            return {"wrapped": await proceed()}
        except ToolError:
            return "nothing"

    result = await result_of(Call("weigh"), TOOLS_EXECUTE, wrap)
    assert (result.content, result.body) == ((Text(f'{{"wrapped":{PLAIN}}}'),), ToolBody((Text(PLAIN),)))
    result = await result_of(Call("weigh", {"what": "air"}), TOOLS_EXECUTE, wrap)
    assert result.content == (Text("nothing"),)
    assert result.body == ToolBody((Text("ToolError: it has no weight"),), True, "WEIGHTLESS")


@pytest.mark.rule("K2", "K9")
async def test_a_result_that_is_only_cut_is_not_kept_twice() -> None:
    result = await result_of(Call("recite"), given=recite)
    assert "characters shown]" in str(result.content)
    assert result.body is None


@pytest.mark.rule("K2", "K11")
async def test_it_is_told_how_many_messages_were_handed_over_and_whose_they_are() -> None:
    result = await result_of(Call("fetch"), given=fetch)
    assert (result.contexts, result.body) == (2, None)
    added = AcceptResult(additional_contexts=[message("three")])
    result = await result_of(Call("fetch"), TOOLS_POST_EXECUTE, lambda *_: added, given=fetch)
    assert result.contexts == 3
    assert result.body is not None
    assert result.body.contexts == 2
