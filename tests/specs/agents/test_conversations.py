"""Drawn conversations: calls fit the tools' schemas or do not, as their strategy says; any of them can be played."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from treadle import Answer, Failure, Host, MisuseError, Tool, ToolRun, tool
from treadle_specs.agents import Turn, check_agent
from treadle_specs.agents.conversations import answer, answers, calls, conversations, failures, malformed_calls, values


class Class(Enum):
    FIRST = "first"
    SECOND = "second"


class Seat(msgspec.Struct):
    row: Annotated[int, msgspec.Meta(ge=1, le=40)]
    beside: Seat | None = None


async def book(
    flight: Annotated[str, msgspec.Meta(min_length=2, max_length=6)],
    seats: list[Seat],
    price: Annotated[float, msgspec.Meta(gt=0)] = 10.0,
    where: Class = Class.FIRST,
    how: Literal["cash", "card"] | None = None,
    notes: dict[str, int] | None = None,
) -> str:
    """Book a flight."""
    return flight


def ping() -> str:
    """Answer."""
    return "pong"


def spell(arguments: dict[str, Any], _: ToolRun) -> str:
    return str(arguments)


CODE = Tool(
    "code", "A code.", {"type": "object", "properties": {"code": {"type": "string", "pattern": "^[A-Z]{3}$"}}}, spell
)
TOOLS: list[Any] = [book, ping, CODE]
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.slow
@QUICK
@given(calls(TOOLS))
def test_a_call_fits_its_tool(call) -> None:
    made = {one.name: one for one in (tool(book), tool(ping), CODE)}[call.name]
    assert made.arguments.errors(json.loads(json.dumps(call.arguments))) == []


WANTED: dict[str, Any] = {
    "text": lambda said: isinstance(said, str),
    "parallel calls": lambda said: isinstance(said, Answer) and len(said.calls) > 1,
    "broken arguments": lambda said: (
        isinstance(said, Answer) and any(isinstance(call.arguments, str) for call in said.calls)
    ),
    "refusal": lambda said: isinstance(said, Answer) and said.finish == "refusal",
    "truncation": lambda said: isinstance(said, Answer) and said.finish == "max-tokens",
    "unknown tool": lambda said: isinstance(said, Answer) and any(call.name == "no_such_tool" for call in said.calls),
    "retry": lambda said: isinstance(said, Failure) and said.code == "RATE_LIMIT",
    "failure": lambda said: isinstance(said, Failure) and said.code == "CONTENT_FILTER",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WANTED)
def test_each_kind_of_answer_is_drawn(kind: str) -> None:
    find(answer(TOOLS), WANTED[kind], settings=settings(max_examples=2_000, deadline=None))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 3, "maximum": 4, "multipleOf": 2},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": ["string", "null"], "maxLength": 2},
        {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 2, "maxItems": 3, "uniqueItems": True},
        {"type": "object", "required": ["a"], "properties": {"a": {"const": 1}}, "additionalProperties": False},
        {"allOf": [{"type": "object", "properties": {"a": {"type": "boolean"}}}], "required": ["a"]},
        {"type": "string", "format": "date"},
        {"$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"},
        {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 1}]},
    ],
)
def test_values_fit_their_schema(schema: dict[str, Any]) -> None:
    checker = Tool(
        "one", "One.", {"type": "object", "properties": {"one": schema}, "$defs": schema.get("$defs", {})}, spell
    )

    @QUICK
    @given(values(schema))
    def fits(value: Any) -> None:
        assert checker.arguments.errors({"one": value}) == []

    fits()


def make_agent(host: Host) -> None:
    for one in TOOLS:
        host.tools.register(one if isinstance(one, Tool) else tool(one))


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(conversations(TOOLS))
def test_any_conversation_can_be_played(turns: list[Turn]) -> None:
    assert check_agent(make_agent, turns, sweeps=[]).sound


@pytest.mark.slow
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
@given(answers([ping], most=2, most_calls=2), st.sampled_from(["cancel", "die"]))
def test_a_drawn_turn_can_be_swept(said, sweep: str) -> None:
    assert check_agent(make_agent, Turn("Go.", *said), sweeps=[sweep]).sound


@pytest.mark.slow
@QUICK
@given(failures(retried=True), failures(retried=False), malformed_calls(TOOLS))
def test_failures_are_retried_or_not(retried: Failure, terminal: Failure, call) -> None:
    assert retried.code in {"RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT"}
    assert terminal.code not in {"RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT"}
    assert call.name


def test_conversations_need_a_tool() -> None:
    with pytest.raises(MisuseError, match="at least one tool"):
        conversations([])
