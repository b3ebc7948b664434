"""Whatever a tool returns gives a result that the log and the model can hold (contract §11 K9, §12 S1)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
from collections import OrderedDict
from typing import Any

import pytest
import trio
import trio.lowlevel

from tests.stage import stage
from treadle import Answer, Call, Reasoning, Text, ToolOutput, tool
from treadle.models import OpaqueBlock
from treadle.session import ToolResultAdded, encode_event
from treadle.tools import plain as plain_module
from treadle.tools.result import cut


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError

    __str__ = __repr__


class MuteKey(str):
    __slots__ = ()

    def __repr__(self) -> str:
        raise RuntimeError


class Words(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "lies"


class Number(enum.IntEnum):
    ONE = 1


@dataclasses.dataclass
class Point:
    x: int = 0


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
DEEP: list[Any] = []
for _ in range(5_000):
    DEEP = [DEEP]
MANY = list(range(200_001))
SHARED = ["x"] * 3

RETURNED: dict[str, tuple[Any, str, str]] = {
    "None": (None, "ok", "(no output)"),
    "empty text": ("", "ok", "(no output)"),
    "text": ("text", "ok", "text"),
    "a str subclass": (Words("truth"), "ok", "truth"),
    "a lone surrogate": ("a\ud800b", "ok", "a\ufffdb"),
    "a pair in halves": ("\ud83d\ude00", "ok", "\U0001f600"),
    "line separators": ("a\u2028b\x0bc\r\n", "ok", "a\u2028b\x0bc\r\n"),
    "a number": (7, "ok", "7"),
    "true": (True, "ok", "true"),
    "a dict": ({"a": [1, None, 2.5]}, "ok", '{"a":[1,null,2.5]}'),
    "a tuple": ((1, "b"), "ok", '[1,"b"]'),
    "an empty list": ([], "ok", "[]"),
    "the same list twice": ([SHARED, SHARED], "ok", '[["x","x","x"],["x","x","x"]]'),
    "content": ((Text("one"), Text("two")), "ok", "onetwo"),
    "a content list": ([Text("one")], "ok", "one"),
    "a datetime": (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "ok", "2026-01-01T00:00:00Z"),
    "a Decimal": (decimal.Decimal("1.10"), "ok", "1.10"),
    "a set": ({"a": {2, 1}}, "ok", '{"a":[1,2]}'),
    "bytes": (b"x", "ok", "eA=="),
    "a Path": (pathlib.PurePosixPath("/x"), "ok", "/x"),
    "a dataclass": (Point(), "ok", '{"x":0}'),
    "NaN": ([1, float("nan")], "INVALID_OUTPUT", "$[1]: nan is not JSON"),
    "an infinity": (float("-inf"), "INVALID_OUTPUT", "-inf is not JSON"),
    "a huge number": ({"n": 2**80}, "INVALID_OUTPUT", "$.n: integer beyond 64 bits"),
    "an enum": (Number.ONE, "ok", "1"),
    "an ordered dict": (OrderedDict(a=1), "ok", '{"a":1}'),
    "a cycle": (CYCLE, "INVALID_OUTPUT", "contains itself"),
    "deep nesting": (DEEP, "INVALID_OUTPUT", "nested deeper than 200"),
    "too many values": (MANY, "INVALID_OUTPUT", "more than 200000 values"),
    "int keys": ({1: "a"}, "INVALID_OUTPUT", "key 1 is not text"),
    "a key subclass": ({MuteKey("k"): 1}, "ok", '{"k":1}'),
    "an object whose repr raises": (Mute(), "INVALID_OUTPUT", "Mute is not JSON"),
    "a key with a surrogate": ({"\ud800": 1}, "INVALID_OUTPUT", "lone surrogate"),
    "a class": (Point, "INVALID_OUTPUT", "is not JSON"),
    "a text block that is none": ((Text(5),), "INVALID_OUTPUT", "$[0].text: int is no text"),  # type: ignore[arg-type]
    "a block that JSON cannot hold": ((Reasoning("r", {1}),), "INVALID_OUTPUT", "$[0]: Reasoning is not read back"),
    "blocks and others": ((Text("x"), 5), "INVALID_OUTPUT", "$[0]: treadle.words.messages.Text is no value"),
    "an output": (ToolOutput("said", value={"a": 1}), "ok", "said"),
    "an output of a value": (ToolOutput(value={"a": 1}), "ok", '{"a":1}'),
    "an empty output": (ToolOutput(), "ok", "(no output)"),
    "an output of no blocks": (ToolOutput(()), "ok", "(no output)"),
    "an error": (ToolOutput("no", is_error=True), "TOOL_FAILED", "no"),
    "an error with a code": (ToolOutput("no", is_error=True, code="MINE"), "MINE", "no"),
    "an error with a code that is none": (ToolOutput("no", is_error=True, code=5), "TOOL_FAILED", "no"),  # type: ignore[arg-type]
    "an output with a bad value": (ToolOutput("x", value=[object()]), "INVALID_OUTPUT", "$[0]: object is not JSON"),
    "an output with bad content": (ToolOutput({"a": 1}), "INVALID_OUTPUT", "no content block"),  # type: ignore[arg-type]
    "an output with content that is none": (ToolOutput(5), "INVALID_OUTPUT", "cannot be shown"),  # type: ignore[arg-type]
}


@pytest.mark.rule("K9", "S1", "N5", "N6")
@pytest.mark.parametrize("kind", RETURNED)
async def test_any_returned_value_gives_a_result(kind: str) -> None:
    value, end, words = RETURNED[kind]

    @tool
    async def one() -> Any:
        return value

    async with stage(Answer(calls=[Call("one")]), tools=[one]) as s:
        await s.ask("a")
        assert f"result call_1 {end}" in s.log
        told = s.results()["call_1"]
        assert told == words if end == "ok" else words in told
        assert s.ends == ["completed"]
        if end == "INVALID_OUTPUT":
            assert "may have taken effect" in told


@pytest.mark.rule("K9", "S1")
async def test_a_lone_surrogate_in_a_stored_value_is_repaired() -> None:
    @tool(output_schema={"type": "string"})
    async def plain() -> str:
        return "\ud800"

    @tool
    async def output() -> ToolOutput:
        return ToolOutput("x", value=Words("\ud800"))

    async with stage(Answer(calls=[Call("plain"), Call("output")]), tools=[plain, output]) as s:
        await s.ask("a")
        assert [fact.value for fact in s.facts(ToolResultAdded)] == ["\ufffd", "\ufffd"]


@pytest.mark.rule("S1", "N5", "K9")
async def test_a_recorded_value_does_not_change_when_the_tool_changes_its_own() -> None:
    box = {"list": [1]}

    @tool
    async def giving() -> ToolOutput:
        return ToolOutput("x", value=box)

    @tool(output_schema={"type": "object"})
    async def typed() -> Any:
        return box

    async with stage(Answer(calls=[Call("giving"), Call("typed")]), tools=[giving, typed]) as s:
        await s.ask("a")
        before = [encode_event(entry) for entry in s.agent.session.events]
        box["list"].append(2)
        assert [encode_event(entry) for entry in s.agent.session.events] == before


@pytest.mark.rule("K1", "K2")
@pytest.mark.parametrize(
    ("returned", "end"),
    [
        ({"n": 1}, "ok"),
        ({"n": "x"}, "INVALID_OUTPUT"),
        (None, "INVALID_OUTPUT"),
        ("text", "INVALID_OUTPUT"),
        (ToolOutput("shown", value={"n": 1}), "ok"),
        (ToolOutput("shown", value=5), "INVALID_OUTPUT"),
        (ToolOutput("sorry", is_error=True), "TOOL_FAILED"),
    ],
)
async def test_the_value_must_fit_the_output_schema_and_is_kept_for_programs(returned: Any, end: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    @tool(output_schema=schema)
    async def one() -> Any:
        return returned

    async with stage(Answer(calls=[Call("one")]), tools=[one]) as s:
        await s.ask("a")
        assert f"result call_1 {end}" in s.log
        assert s.facts(ToolResultAdded)[0].value == ({"n": 1} if end == "ok" else None)


@pytest.mark.rule("K1", "K2")
@pytest.mark.parametrize(
    ("render", "end", "words"),
    [
        (lambda value: f"n is {value}", "ok", "n is 7"),
        (lambda value: (Text("a"), Text("b")), "ok", "ab"),
        (lambda value: 5, "INVALID_OUTPUT", "cannot be shown"),
        (lambda value: 1 / 0, "INVALID_OUTPUT", "ZeroDivisionError"),
    ],
    ids=["text", "blocks", "neither", "raising"],
)
async def test_a_renderer_turns_the_value_into_what_the_model_reads(render: Any, end: str, words: str) -> None:
    @tool(render=render)
    async def one() -> int:
        return 7

    async with stage(Answer(calls=[Call("one")]), tools=[one]) as s:
        await s.ask("a")
        assert f"result call_1 {end}" in s.log
        assert words in s.results()["call_1"]


@pytest.mark.rule("K9", "X3")
@pytest.mark.parametrize(
    "text",
    ["x" * 50_000_000, "line\n" * 1_000_000, "\U0001f600" * 5_000_000, "\udfff" * 300_000],
    ids=["one line", "many lines", "emoji", "garbage"],
)
async def test_huge_output_is_cut_at_a_character_and_says_so_without_blocking_the_loop(text: str) -> None:
    @tool(max_result_bytes=100_000)
    async def huge() -> str:
        return text

    longest = 0.0

    async def heart() -> None:
        nonlocal longest
        while True:
            began = trio.current_time()
            await trio.lowlevel.checkpoint()
            longest = max(longest, trio.current_time() - began)

    async with stage(Answer(calls=[Call("huge")]), tools=[huge]) as s, trio.open_nursery() as nursery:
        nursery.start_soon(heart)
        await s.ask("a")
        nursery.cancel_scope.cancel()
        told = s.results()["call_1"]
        kept, _, note = told.rpartition("\n")
        assert len(kept.encode()) <= 100_000
        assert note == f"[cut: {len(kept)} of {len(text)} characters shown]"
        assert text.startswith(kept) or "\ufffd" in kept
        assert longest < 0.5


@pytest.mark.rule("K9")
async def test_the_limit_is_for_all_blocks_of_a_result_together() -> None:
    @tool(max_result_bytes=256)
    async def many() -> Any:
        return [Text("a" * 200), OpaqueBlock({"type": "sketch", "data": "i" * 999}), Text("b" * 200), Text("c")]

    async with stage(Answer(calls=[Call("many")]), tools=[many]) as s:
        await s.ask("a")
        first, image, second, third = s.facts(ToolResultAdded)[0].content
        assert first.text == "a" * 200
        assert image == OpaqueBlock({"type": "sketch", "data": "i" * 999})
        assert second.text.startswith("b" * 56 + "\n[cut: 56 of 200")
        assert third.text == "\n[cut: 0 of 1 characters shown]"


@pytest.mark.rule("K9", "S1")
def test_a_cut_never_splits_a_character_and_leaves_what_fits() -> None:
    assert cut("é" * 100, 200) == "é" * 100
    assert cut("é" * 100, 199).startswith("é" * 99 + "\n[cut: 99 of 100")
    assert cut("x" * 10, 10) == "x" * 10
    assert cut("a\ud800", 10) == "a\ufffd"
    same = "short"
    assert cut(same, 256) is same


@pytest.mark.rule("X3", "K9")
async def test_a_structure_of_too_many_values_is_refused_before_it_is_walked_in_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plain_module, "MAX_NODES", 10)

    @tool
    async def many() -> Any:
        return [{"k": index} for index in range(100)]

    async with stage(Answer(calls=[Call("many")]), tools=[many]) as s:
        await s.ask("a")
        assert "more than 10 values" in s.results()["call_1"]
