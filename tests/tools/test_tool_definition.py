"""What a tool is, and what registration refuses (contract §11 K1, K10)."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
import pytest
from attrs import evolve

from tests.stage import stage
from treadle import Answer, Call, MisuseError, Tool, ToolRun, tool
from treadle.errors import ScopeClosed
from treadle.hooks import Scope
from treadle.tools import ToolRegistry
from treadle.tools.schema import MAX_ERRORS, SUPPORTED, Checker, understood

OBJECT: dict[str, Any] = {"type": "object"}


def plain(arguments: dict[str, Any], run: ToolRun) -> str:
    return "done"


GOOD = Tool("good", "Does good.", OBJECT, plain)


@pytest.mark.rule("K1")
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"name": ""}, "1 to 128 printable"),
        ({"name": "x" * 129}, "1 to 128 printable"),
        ({"name": "two words"}, "without spaces"),
        ({"name": "new\nline"}, "printable"),
        ({"name": 5}, "printable"),
        ({"description": None}, "needs a description"),
        ({"description": "\ud800"}, "UTF-8 cannot carry"),
        ({"execute": "run"}, "needs a function"),
        ({"parameters": ["type"]}, "must be an object"),
        ({"parameters": {"type": ["string", "null"]}}, "of type 'object'"),
        ({"parameters": {"type": "array"}}, "of type 'object'"),
        ({"parameters": {"type": "object", "frobnicate": 1}}, "keyword 'frobnicate', which is not supported"),
        ({"parameters": {"type": "object", "properties": {"a": {"$dynamicRef": "#x"}}}}, r"\$\.properties\.a uses"),
        ({"parameters": {"type": "object", "properties": {"a": {"anyOf": [{"bad": 1}]}}}}, r"anyOf\[0\] uses"),
        ({"parameters": {"type": "object", "additionalProperties": {"bad": 1}}}, "additionalProperties uses"),
        ({"parameters": {"type": "object", "properties": {"a": {"$ref": "http://x"}}}}, "refers to 'http://x'"),
        ({"parameters": {"type": "object", "properties": {"a": "text"}}}, "must be an object or a boolean"),
        ({"parameters": {"type": "object", "properties": {"a": {"type": "wrong"}}}}, "no valid JSON schema"),
        ({"parameters": {"type": "object", "default": object()}}, "is not JSON"),
        ({"parameters": {"type": "object", "minimum": float("nan")}}, "is not JSON"),
        ({"output_schema": {"type": "nothing"}}, "the output of tool 'good' is no valid JSON schema"),
        ({"output_schema": {"bad": 1}}, "not supported"),
        ({"timeout": 0}, "timeout must be positive"),
        ({"timeout": float("nan")}, "timeout must be positive"),
        ({"max_result_bytes": 255}, "from 256"),
        ({"max_result_bytes": 1e6}, "from 256"),
        ({"render": 5}, "render must be a function"),
        ({"final_content": 5}, "final_content must be a function"),
        ({"present_call": 5}, "present_call must be a function"),
        ({"present_result": 5}, "present_result must be a function"),
    ],
)
def test_registration_refuses_a_tool_that_is_wrong_and_says_where(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(MisuseError, match=words):
        evolve(GOOD, **changed)


@pytest.mark.rule("K1")
def test_every_supported_keyword_is_accepted_where_it_makes_sense() -> None:
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "c",
        "type": "object",
        "title": "T",
        "description": "d",
        "properties": {
            "a": {"type": "array", "items": {"$ref": "#/$defs/N"}, "minItems": 0, "maxItems": 3, "uniqueItems": True},
            "b": {"oneOf": [{"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^x"}, {"type": "null"}]},
            "c": {"anyOf": [{"enum": [1, 2]}, {"const": 3}], "default": 3, "examples": [1]},
            "d": {"type": "array", "prefixItems": [{"type": "string"}], "contains": True, "minContains": 0},
            "e": {"type": "integer", "minimum": 0, "maximum": 9, "exclusiveMinimum": -1, "exclusiveMaximum": 10},
            "f": {"if": {"type": "string"}, "then": True, "else": False, "not": {"type": "boolean"}},
            "g": {"type": "number", "multipleOf": 0.5, "deprecated": True, "readOnly": True, "writeOnly": False},
            "h": {"type": "string", "format": "date"},
        },
        "patternProperties": {"^z": {"type": "string"}},
        "propertyNames": {"maxLength": 9},
        "required": [],
        "dependentRequired": {"a": ["b"]},
        "minProperties": 0,
        "maxProperties": 20,
        "additionalProperties": False,
        "allOf": [{"discriminator": {"propertyName": "kind"}}],
        "$defs": {"N": {"type": "integer", "maxContains": 1}},
        "dependentSchemas": {"a": {"unevaluatedProperties": True}},
        "unevaluatedItems": True,
        "contentEncoding": "base64",
        "contentMediaType": "application/json",
        "contentSchema": {"example": 1, "externalDocs": {"url": "http://x.test"}},
    }
    understood(schema, "it")

    def keywords(part: Any) -> set[str]:
        if isinstance(part, dict):
            return set(part) | {word for value in part.values() for word in keywords(value)}
        return {word for value in part for word in keywords(value)} if isinstance(part, list) else set()

    assert keywords(schema) >= SUPPORTED
    assert Checker(schema, "it").errors({"a": [1], "b": "x", "e": 3}) == []


@pytest.mark.rule("K1", "K3")
def test_validation_names_the_path_of_what_is_wrong_and_lists_only_some() -> None:
    checker = Checker({"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}, "it")
    assert checker.errors([{"n": 1}, {"n": "x"}])[0].startswith("$[1].n: ")
    errors = checker.errors([{"n": "x"}] * 20)
    assert len(errors) == MAX_ERRORS + 1
    assert errors[-1] == "…"


class Colour(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    y: int = 0


@pytest.mark.rule("K1", "K3")
async def test_a_function_becomes_a_tool_by_its_hints_docstring_and_name() -> None:
    got: list[Any] = []

    @tool
    async def paint(
        where: Point,
        colour: Colour,
        size: Annotated[int, msgspec.Meta(ge=1)] = 1,
        mode: Literal["fast", "slow"] = "fast",
        tags: list[str] | None = None,
    ) -> str:
        """Paint a point.

        More about it.
        """
        got.append((where, colour, size, mode, tags))
        return "painted"

    assert (paint.name, paint.description) == ("paint", "Paint a point.\n\nMore about it.")
    assert paint.parameters["required"] == ["where", "colour"]
    assert paint.parameters["additionalProperties"] is False
    assert set(paint.parameters["$defs"]) == {"Point", "Colour"}
    good = {"where": {"x": 1}, "colour": "red", "tags": ["t"]}
    bad = [{"where": {"x": "1"}, "colour": "red"}, {**good, "size": 0}, {**good, "more": 1}, {}]
    async with stage(Answer(calls=[Call("paint", one) for one in (good, *bad)]), tools=[paint]) as s:
        await s.ask("a")
        assert got == [(Point(1, 0), Colour.RED, 1, "fast", ["t"])]
        assert [text for text in s.log if text.startswith("result")] == [
            "result call_1 ok",
            *[f"result call_{index} INVALID_ARGUMENTS" for index in range(2, 6)],
        ]


@pytest.mark.rule("K1")
async def test_run_is_given_and_is_not_the_models_to_give() -> None:
    runs: list[ToolRun] = []

    @tool(name="other-name", description="Other words.")
    def look(run: ToolRun, n: int = 1) -> int:
        runs.append(run)
        return n

    assert (look.name, look.description) == ("other-name", "Other words.")
    assert set(look.parameters["properties"]) == {"n"}
    async with stage(Answer(calls=[Call("other-name", {"n": 3}, "c9")]), tools=[look]) as s:
        await s.ask("a")
        run = runs[0]
        assert (run.agent, run.call.call_id, run.turn, run.step) == (s.agent, "c9", 1, 1)
        assert run.signal.cancelled is False


@pytest.mark.rule("K1")
async def test_given_parameters_pass_the_arguments_as_they_are() -> None:
    got: list[Any] = []

    @tool(parameters={"type": "object", "properties": {"x": {}}})
    async def loose(run: ToolRun, **arguments: Any) -> None:
        got.append(arguments)

    async with stage(Answer(calls=[Call("loose", {"x": [1], "y": None})]), tools=[loose]) as s:
        await s.ask("a")
        assert got == [{"x": [1], "y": None}]


def unhinted(a) -> str:
    return a


def starred(*a: int) -> str:
    return ""


def positional(a: int, /) -> str:
    return ""


def exotic(a: Callable[[], int]) -> str:
    return ""


def unreadable(a: "NoSuchType") -> str:  # type: ignore[name-defined]  # noqa: F821,UP037
    return ""


def mutable(a: dict[int, Any] = {1: set()}) -> str:  # noqa: B006
    return ""


@pytest.mark.rule("K1")
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (unhinted, "needs a type hint"),
        (starred, "usable by keyword"),
        (positional, "usable by keyword"),
        (exotic, "no JSON schema"),
        (unreadable, "cannot be read"),
        (mutable, "cannot be a tool"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused(function: Any, words: str) -> None:
    with pytest.raises(MisuseError, match=words):
        tool(function)


@pytest.mark.rule("K1", "K8")
async def test_callables_of_every_kind_can_be_executed() -> None:
    class Calling:
        async def __call__(self, arguments: dict[str, Any], run: ToolRun) -> str:
            return "object"

    async def later() -> str:
        return "awaitable"

    tools = [
        Tool("object", "o", OBJECT, Calling()),
        Tool("awaitable", "a", OBJECT, lambda arguments, run: later()),
        Tool("partial", "p", OBJECT, functools.partial(lambda word, arguments, run: word, "partial")),
        Tool("lambda", "l", OBJECT, lambda arguments, run: "lambda"),
    ]
    async with stage(Answer(calls=[Call(one.name) for one in tools]), tools=tools) as s:
        await s.ask("a")
        assert list(s.results().values()) == ["object", "awaitable", "partial", "lambda"]


# --- scopes (K10) -----------------------------------------------------------------------------------------------------


def named(name: str, words: str = "") -> Tool:
    return Tool(name, words, OBJECT, plain)


def names(scope: Scope) -> list[str]:
    return [one.name for one in ToolRegistry(scope).list()]


@pytest.mark.rule("K10", "R1")
def test_tools_are_seen_below_their_scope_in_canonical_order_and_shadow_outer_ones() -> None:
    outer = Scope("outer")
    inner = Scope("inner", outer)
    ToolRegistry(outer).register(named("b", "outer"))
    stop = ToolRegistry(inner).register(named("b", "inner"))
    ToolRegistry(inner).register(named("a"))
    assert (names(outer), names(inner)) == (["b"], ["a", "b"])
    assert ToolRegistry(inner).get("b").description == "inner"  # type: ignore[union-attr]
    stop()
    stop()
    assert ToolRegistry(inner).get("b").description == "outer"  # type: ignore[union-attr]
    assert ToolRegistry(outer).get("a") is None


@pytest.mark.rule("K10")
def test_restrictions_filter_what_is_inherited_intersect_and_never_touch_the_scopes_own() -> None:
    outer = Scope("outer")
    middle = Scope("middle", outer)
    inner = Scope("inner", middle)
    for name in "abcd":
        ToolRegistry(outer).register(named(name))
    ToolRegistry(middle).register(named("own"))
    stop = ToolRegistry(middle).restrict(allow=["a", "b", "c"])
    ToolRegistry(middle).restrict(deny=["b", "own"])
    assert (names(outer), names(middle)) == (list("abcd"), ["a", "c", "own"])
    ToolRegistry(inner).restrict(allow=["c", "own"])
    assert names(inner) == ["c", "own"]
    stop()
    assert names(middle) == ["a", "c", "d", "own"]


@pytest.mark.rule("K10", "K1", "O5")
def test_a_registration_is_refused_when_the_name_is_taken_the_scope_is_closed_or_it_is_no_tool() -> None:
    scope = Scope("s")
    registry = ToolRegistry(scope)
    registry.register(named("a"))
    with pytest.raises(MisuseError, match="has a tool named 'a' already"):
        registry.register(named("a"))
    with pytest.raises(MisuseError, match=r"make one with @treadle\.tool"):
        registry.register(plain)  # type: ignore[arg-type]
    scope.closed = True
    for call in (
        lambda: registry.register(named("b")),
        registry.restrict,
        lambda: registry.guard(lambda p: None),
    ):
        with pytest.raises(ScopeClosed):
            call()


@pytest.mark.rule("K10")
async def test_a_restricted_tool_is_neither_offered_nor_run() -> None:
    async with stage(Answer(calls=[Call("a"), Call("b")]), tools=[named("a"), named("b")]) as s:
        s.agent.tools.restrict(deny=["b"])
        await s.ask("a")
        assert [schema.name for schema in s.model.requests[0].tools] == ["a"]
        assert [text for text in s.log if text.startswith("result")] == [
            "result call_1 ok",
            "result call_2 UNKNOWN_TOOL",
        ]
