"""Schemas as servers of tools send them: taken at registration where a validator understands them, and valid on wires."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from tests.adapters.test_tool_names import WIRES
from tests.adapters.wires import MemoryTransport, outcome, request
from treadle import MisuseError, tool

URL = "http://provider.test/v1"


def named(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


TEXT_OR_NULL = {"type": "string", "nullable": True}
FIELD: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "definitions": (
        named({"a": {"$ref": "#/definitions/A"}}, definitions={"A": {"type": "integer"}}),
        {"a": 1},
        {"a": "x"},
    ),
    "definitions of definitions": (
        named(
            {"a": {"$ref": "#/definitions/A"}},
            definitions={"A": named({"b": {"$ref": "#/definitions/B"}}), "B": {"type": "integer"}},
        ),
        {"a": {"b": 1}},
        {"a": {"b": "x"}},
    ),
    "a reference to a property": (
        named({"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}),
        {"b": 1},
        {"b": "x"},
    ),
    "a tree": (
        named({"next": {"$ref": "#"}, "n": {"type": "integer"}}),
        {"next": {"next": {"n": 1}}},
        {"next": {"n": "x"}},
    ),
    "an id, and a reference by it": (
        named(
            {"a": {"$ref": "http://x.test/s.json#/$defs/A"}},
            **{"$id": "http://x.test/s.json", "$defs": {"A": {"type": "integer"}}},
        ),
        {"a": 1},
        {"a": "x"},
    ),
    "an older draft": (
        named({"a": {"type": "integer"}}, **{"$schema": "http://json-schema.org/draft-07/schema#"}),
        {"a": 1},
        {"a": "x"},
    ),
    "nullable": (named({"a": TEXT_OR_NULL, "b": TEXT_OR_NULL}), {"a": None, "b": "x"}, {"a": 1}),
    "a nullable choice": (
        named({"a": {"type": "string", "enum": ["x"], "nullable": True}}),
        {"a": None},
        {"a": "y"},
    ),
    "a nullable reference": (
        named({"a": {"$ref": "#/$defs/A", "nullable": True}}, **{"$defs": {"A": {"type": "integer"}}}),
        {"a": None},
        {"a": "x"},
    ),
    "no type": ({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 1}, {}),
    "nothing at all": ({}, {"a": 1}, None),
    "a list under items": (
        named({"a": {"type": "array", "items": [{"type": "integer"}], "additionalItems": False}}),
        {"a": [1]},
        {"a": [1, 2]},
    ),
    "an exclusive bound of draft 4": (
        named({"a": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}),
        {"a": 1},
        {"a": 0},
    ),
    "dependencies": (named({}, dependencies={"a": ["b"], "c": {"required": ["d"]}}), {"a": 1, "b": 1}, {"a": 1}),
    "alternatives on top": (
        {"type": "object", "oneOf": [named({"a": {}}, required=["a", "k"]), named({"b": {}}, required=["b", "k"])]},
        {"a": 1, "k": 1},
        {"k": 1},
    ),
    "a reference on top": (
        {"$ref": "#/definitions/A", "definitions": {"A": named({"a": {"type": "integer"}}, required=["a"])}},
        {"a": 1},
        {},
    ),
    "a vendor's extension": (named({"a": {"type": "integer", "x-order": 1}}), {"a": 1}, {"a": "x"}),
}
"""Schemas by what is odd about them, each with arguments that fit and with some that do not."""


def work(**_: Any) -> None:
    """Works."""


@pytest.mark.rule("K1", "K3")
@pytest.mark.parametrize("kind", FIELD)
def test_a_schema_of_the_field_is_taken_and_means_what_it_meant(kind: str) -> None:
    schema, fits, misfits = FIELD[kind]
    before = json.dumps(schema)
    made = tool(work, parameters=schema)
    assert json.dumps(schema) == before
    assert made.parameters["type"] == "object"
    assert made.arguments.errors(fits) == []
    assert misfits is None or made.arguments.errors(misfits)


@pytest.mark.rule("K1")
@pytest.mark.parametrize("kind", FIELD)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_schema_of_the_field_is_valid_on_every_wire_and_takes_what_the_tool_takes(wire: str, kind: str) -> None:
    schema, fits, _ = FIELD[kind]
    make, answer, _, inside = WIRES[wire]
    transport = MemoryTransport([answer("work")])
    async with make(URL, transport=transport) as model:
        await outcome(model, request(tools=(tool(work, parameters=schema).schema,)))
    (offered,) = transport.sent()["tools"]
    told = offered[inside] if inside else offered
    sent = told.get("parameters", told.get("input_schema"))
    text = json.dumps(sent)
    assert sent["type"] == "object"
    assert not sent.keys() & {"allOf", "anyOf", "oneOf", "enum", "not", "$ref", "$id", "$schema"}
    assert not any([word in text for word in ('"definitions"', '"nullable"', '"$id"', '"$ref": "#"', "#/properties")])
    assert jsonschema_rs.validator_for(sent).is_valid(fits)


@pytest.mark.rule("K1")
@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("http://x.test/other.json", "only what is in the schema"),
        ("#anchor", "only what is in the schema"),
        ("#/definitions/nowhere", "which is not there"),
        (5, "only what is in the schema"),
    ],
)
def test_a_reference_that_leads_out_of_the_schema_is_refused(reference: Any, told: str) -> None:
    with pytest.raises(MisuseError, match=told):
        tool(work, parameters=named({"a": {"$ref": reference}}))


@pytest.mark.rule("K1", "X3")
def test_references_without_end_are_refused() -> None:
    chain = {f"d{number}": {"items": {"$ref": f"#/definitions/d{number + 1}"}} for number in range(20_000)}
    with pytest.raises(MisuseError, match="without end"):
        tool(work, parameters=named({"a": {"$ref": "#/definitions/d0"}}, definitions={**chain, "d20000": {}}))
