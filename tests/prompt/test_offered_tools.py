"""Tools that no registered one stands behind are held to what a registered one is, and told where they came from (K1, R1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.stage import Stage, stage
from tests.tools.test_field_schemas import FIELD
from treadle import MisuseError, tool
from treadle.hooks import SYSTEM_PROMPT_ASSEMBLE, Prompt
from treadle.models import ToolSchema
from treadle.session import RequestHeader
from treadle.tools import offer

Door = Callable[[Stage, Any], object]
OBJECT = {"type": "object"}


def assembled(s: Stage, tools: Any) -> None:
    s.agent.scope.on(SYSTEM_PROMPT_ASSEMBLE, lambda assembly, follow: Prompt("", tools))


def provided(s: Stage, tools: Any) -> None:
    s.agent.prompt.tool_schemas("more", lambda assembly: tools)


DOORS: dict[str, tuple[Door, str]] = {
    "an assemble hook": (assembled, "an assemble hook returned a prompt"),
    "a provider of schemas": (provided, "tool schemas 'more'"),
}
"""Where tools are offered that nobody registered, and how that place is named."""

REFUSED: dict[str, dict[str, Any]] = {
    "a keyword that nobody knows": {"parameters": {"type": "object", "properties": {"a": {"typo": 1}}}},
    "a reference that leads out": {"parameters": {"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}},
    "a reference that leads nowhere": {"parameters": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}}},
    "a schema that is none": {"parameters": {"type": "object", "properties": {"a": {"type": "nonsense"}}}},
    "a schema of text": {"parameters": {"type": "string"}},
    "parameters that are no object": {"parameters": ["a"]},
    "NaN": {"parameters": {"type": "object", "default": math.nan}},
    "a value that JSON does not have": {"parameters": {"type": "object", "default": {1}}},
    "a name with a space": {"name": "a b"},
    "a name too long": {"name": "a" * 129},
    "no name": {"name": ""},
    "a name that is no text": {"name": 5},
    "a description that is no text": {"description": 5},
    "a description that UTF-8 cannot carry": {"description": "x\ud83d"},
}
"""Tools that are refused at registration, by what is wrong with them."""


def work(**_: Any) -> None:
    """Works."""


def whole(given: dict[str, Any]) -> dict[str, Any]:
    return {"name": "more", "description": "More.", "parameters": OBJECT, **given}


@pytest.mark.rule("K1", "R1", "R2")
@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("door", DOORS)
async def test_a_tool_is_refused_at_every_door_with_the_words_of_registration_and_the_place(
    door: str, kind: str
) -> None:
    enter, where = DOORS[door]
    given = whole(REFUSED[kind])
    with pytest.raises(MisuseError) as registered:
        tool(work, **given)
    async with stage("never") as s:
        enter(s, (ToolSchema(**given),))
        await s.ask()
        assert s.ends == ["error PROMPT_FAILED"]
        (told,) = s.errors
        assert told.failure.message == f"PromptError: {where}: {registered.value}"
        assert s.requests == []


@pytest.mark.rule("K1", "R1")
@pytest.mark.parametrize("kind", FIELD)
@pytest.mark.parametrize("door", DOORS)
async def test_a_schema_of_the_field_is_told_as_that_of_a_registered_tool(door: str, kind: str) -> None:
    schema, _, _ = FIELD[kind]
    async with stage("one", "two") as s:
        DOORS[door][0](s, [ToolSchema("more", "More.", schema)])
        await s.ask()
        await s.ask("again")
        (header,) = s.facts(RequestHeader)
        assert header.tools == (tool(work, name="more", description="More.", parameters=schema).schema,)
        assert s.ends == ["completed", "completed"]


@pytest.mark.rule("K1", "R1")
@pytest.mark.parametrize("door", DOORS)
async def test_what_is_no_schema_is_refused_at_every_door(door: str) -> None:
    enter, where = DOORS[door]
    for given in (5, [5], [None], ["name"], [OBJECT]):
        async with stage("never") as s:
            enter(s, given)
            await s.ask()
            assert s.ends == ["error PROMPT_FAILED"]
            assert where in s.errors[0].failure.message
            assert "ToolSchema is needed" in s.errors[0].failure.message


@pytest.mark.rule("R1")
async def test_a_hook_that_names_a_tool_twice_is_refused() -> None:
    one = ToolSchema("more", "More.", OBJECT)
    async with stage("never") as s:
        assembled(s, (one, one))
        await s.ask()
        assert s.ends == ["error PROMPT_FAILED"]
        assert "the tool 'more' more than once" in s.errors[0].failure.message


@pytest.mark.rule("R1", "K1")
async def test_a_hook_may_leave_out_and_add_tools_and_a_changed_schema_is_seen() -> None:
    schema: dict[str, Any] = {"type": "object", "title": "first"}

    async def change(assembly: Any, follow: Any) -> Prompt:
        prompt = await follow()
        return Prompt(prompt.system, (*prompt.tools[1:], ToolSchema("more", "More.", schema)))

    kept = [tool(work, name=name, parameters=OBJECT) for name in ("a", "b")]
    async with stage("one", "two", tools=kept) as s:
        s.agent.scope.on(SYSTEM_PROMPT_ASSEMBLE, change)
        await s.ask()
        schema["title"] = "second"
        await s.ask("again")
        headers = s.facts(RequestHeader)
        assert [[one.name for one in header.tools] for header in headers] == [["b", "more"], ["b", "more"]]
        assert [header.tools[1].parameters["title"] for header in headers] == ["first", "second"]


@pytest.mark.rule("K1")
def test_a_schema_that_was_understood_is_not_compiled_again_and_a_long_one_is_not_kept() -> None:
    small = ToolSchema("more", "More.", {"type": "object", "title": "compiled once"})
    long = ToolSchema("more", "More.", {"type": "object", "title": "x" * 100_000})
    before = offer._remembered.cache_info()
    for schema in (small, long):
        made = offer.offered(schema)
        made.parameters["changed"] = True
        assert offer.offered(schema) == schema
    after = offer._remembered.cache_info()
    assert (after.hits - before.hits, after.misses - before.misses) == (1, 1)
