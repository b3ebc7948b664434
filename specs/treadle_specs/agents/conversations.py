"""Hypothesis strategies for what a model may say to a user's own tools: calls that fit, calls that do not, and failures.

    @given(answers(TOOLS))
    def test_any_conversation(said: list[Script]) -> None:
        check_agent(make_agent, Turn("Go", *said), sweeps=[])

The arguments of calls are drawn from the tools' own schemas, so that property tests need no answers written by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from treadle import Answer, Call, Failure, MisuseError, Tool, tool
from treadle.models import Code
from treadle.testing import Script

from .scenario import Turn

DEPTH = 4
"""How deep arguments are nested where a schema does not say."""
_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=20)
_NUMBERS = st.floats(-1e9, 1e9, allow_nan=False)
_PLAIN = st.none() | st.booleans() | st.integers(-1000, 1000) | _NUMBERS | _TEXT
_ANYTHING = st.recursive(
    _PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3), max_leaves=5
)
_RETRIED = (Code.RATE_LIMIT, Code.SERVER, Code.TIMEOUT, Code.TRANSPORT)
_TERMINAL = (Code.INVALID_REQUEST, Code.CONTENT_FILTER, Code.CONTEXT_WINDOW_EXCEEDED, Code.QUOTA)


def as_tools(given: Iterable[Tool | Callable[..., Any]]) -> list[Tool]:
    """Tools, made of the functions among what is given.

    Raises:
        MisuseError: there is none, or a function's hints cannot be expressed in JSON.
    """
    found = [one if isinstance(one, Tool) else tool(one) for one in given]
    if not found:
        raise MisuseError("conversations need at least one tool whose schema they are drawn from")
    return found


# --- values that fit a schema -------------------------------------------------------------------------------------------


def values(
    schema: Mapping[str, Any] | bool, root: Mapping[str, Any] | None = None, depth: int = DEPTH
) -> st.SearchStrategy[Any]:
    """Values that fit a JSON schema, as the schemas of tools go; what a word here does not understand, it leaves alone.

    Args:
        schema: the schema.
        root: where its references point into; itself unless given.
        depth: how deep values are nested.
    """
    if isinstance(schema, bool):
        return _ANYTHING
    base = root if root is not None else schema
    if "$ref" in schema:
        return st.deferred(lambda: values(_referred(base, str(schema["$ref"])), base, depth - 1))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(list(schema["enum"]))
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return st.one_of([values(one, base, depth) for one in schema[word]])
    if "allOf" in schema:
        merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
        for one in schema["allOf"]:
            merged |= _referred(base, str(one["$ref"])) if "$ref" in one else one
        return values(merged, base, depth)
    kind: Any = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kind, list):
        return st.one_of([values({**schema, "type": str(one)}, base, depth) for one in kind])  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return _of_type(str(kind), schema, base, depth)


def _referred(root: Mapping[str, Any], reference: str) -> Mapping[str, Any]:
    found: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        found = found[part.replace("~1", "/").replace("~0", "~")] if part else found
    return found


def _of_type(kind: str, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> st.SearchStrategy[Any]:
    match kind:
        case "string":
            return _strings(schema)
        case "integer":
            low, high = _bounds(schema, 1)
            step = int(schema.get("multipleOf", 1)) or 1
            return st.integers(-(-int(low) // step), int(high) // step).map(lambda drawn: drawn * step)
        case "number":
            low, high = _bounds(schema, 1e-6)
            return st.floats(low, high, allow_nan=False)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            few = int(schema.get("minItems", 0))
            most = max(few, min(int(schema.get("maxItems", few + 3)), few + 3)) if depth > 0 else few
            same = _spelled if schema.get("uniqueItems") else None
            items = st.deferred(lambda: values(schema.get("items", True), root, depth - 1))
            return st.lists(items, min_size=few, max_size=most, unique_by=same)
        case "object":
            return _objects(schema, root, depth)
        case _:
            return _ANYTHING


def _spelled(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _strings(schema: Mapping[str, Any]) -> st.SearchStrategy[str]:
    few, most = int(schema.get("minLength", 0)), int(schema.get("maxLength", 1_000_000))
    formats: dict[str, st.SearchStrategy[str]] = {
        "date": st.dates().map(lambda drawn: drawn.isoformat()),
        "date-time": st.datetimes().map(lambda drawn: drawn.isoformat() + "Z"),
        "time": st.times().map(lambda drawn: drawn.isoformat() + "Z"),
        "uuid": st.uuids().map(str),
    }
    if schema.get("format") in formats:
        return formats[schema["format"]]
    if "pattern" in schema:
        pattern = re.sub(r"(?<!\\)\$$", r"\\Z", schema["pattern"])  # "$" is not before a line's end in JSON schemas
        return st.from_regex(pattern).filter(lambda drawn: few <= len(drawn) <= most)
    return st.text(st.characters(codec="utf-8"), min_size=few, max_size=max(few, min(most, few + 20)))


def _bounds(schema: Mapping[str, Any], least: float) -> tuple[float, float]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + least
    if "exclusiveMaximum" in schema:
        high = schema["exclusiveMaximum"] - least
    floor = low if low is not None else min(-1000, high if high is not None else 0)
    return floor, high if high is not None else max(1000, floor + 1000)


def _objects(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> st.SearchStrategy[dict[str, Any]]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = set(schema.get("required", ()))
    made = {name: st.deferred(lambda part=part: values(part, root, depth - 1)) for name, part in properties.items()}
    optional = {name: part for name, part in made.items() if name not in required} if depth > 0 else {}
    fixed = st.fixed_dictionaries({name: part for name, part in made.items() if name in required}, optional=optional)
    extra = schema.get("additionalProperties", True)
    if extra is False or properties or depth <= 0:
        return fixed
    return st.dictionaries(_TEXT.filter(bool), values(extra, root, depth - 1), max_size=3)


# --- what a model says --------------------------------------------------------------------------------------------------


def calls(tools: Iterable[Tool | Callable[..., Any]]) -> st.SearchStrategy[Call]:
    """Calls whose arguments fit the schemas of the tools."""
    known = as_tools(tools)
    return st.one_of([values(one.parameters).map(lambda drawn, one=one: Call(one.name, drawn)) for one in known])


def malformed_calls(tools: Iterable[Tool | Callable[..., Any]]) -> st.SearchStrategy[Call]:
    """Calls that no tool should run on: broken JSON, another kind of value, arguments that miss or add something."""
    known = as_tools(tools)
    names = st.sampled_from([one.name for one in known])
    broken = st.sampled_from(["{", '{"a": ', "[1, 2]", "null", '"text"', "{'a': 1}", "NaN", "{} {}", '{"a": 1,}'])
    stray = st.dictionaries(_TEXT.map(lambda drawn: f"no_{drawn}"), _ANYTHING, min_size=1, max_size=2)
    unknown = st.builds(Call, st.sampled_from(["no_such_tool", "functions." + known[0].name]), st.just({}))
    return st.builds(Call, names, broken) | st.builds(Call, names, stray) | st.builds(Call, names, _ANYTHING) | unknown


def failures(*, retried: bool | None = None) -> st.SearchStrategy[Failure]:
    """Failures of a provider: those that are retried, those that end the turn, or both unless told."""
    codes = {True: _RETRIED, False: _TERMINAL, None: (*_RETRIED, *_TERMINAL)}[retried]
    return st.builds(Failure, st.just("the provider says no"), st.sampled_from([code.value for code in codes]))


def answer(tools: Iterable[Tool | Callable[..., Any]], *, most_calls: int = 3) -> st.SearchStrategy[Script]:
    """One answer: text, parallel calls, malformed calls, a refusal, one that is cut off, or a failure.

    Args:
        tools: whose schemas the calls are drawn from; functions are made tools as ``treadle.tool`` makes them.
        most_calls: how many calls one answer asks for at most.

    Raises:
        MisuseError: there is no tool.
    """
    known = as_tools(tools)
    words = _TEXT.map(lambda drawn: drawn or "Well.")
    good = st.lists(calls(known), min_size=1, max_size=most_calls)
    mixed = st.lists(calls(known) | malformed_calls(known), min_size=1, max_size=most_calls)
    return st.one_of(
        words,
        st.builds(Answer, st.just("") | words, calls=good),
        st.builds(Answer, calls=mixed),
        st.builds(Answer, words, reasoning=st.just("Let me see. ")),
        st.builds(Answer, words, finish=st.sampled_from(["refusal", "max-tokens"])),
        failures(),
    )


def answers(
    tools: Iterable[Tool | Callable[..., Any]], *, most: int = 5, most_calls: int = 3
) -> st.SearchStrategy[list[Script]]:
    """What a model says in one turn, an answer per step; see ``answer``."""
    return st.lists(answer(tools, most_calls=most_calls), max_size=most)


def conversations(
    tools: Sequence[Tool | Callable[..., Any]], *, most_turns: int = 3, most: int = 4, most_calls: int = 3
) -> st.SearchStrategy[list[Turn]]:
    """Whole conversations, for ``check_agent``: turns with their prompts and answers; see ``answer``."""
    said = st.lists(answers(tools, most=most, most_calls=most_calls), min_size=1, max_size=most_turns)
    return said.map(lambda turns: [Turn(f"Prompt {at + 1}.", *given) for at, given in enumerate(turns)])
