"""References of a schema, one by one: what they lead to, and by which name it is known afterwards (K1)."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from treadle.tools.dialect import in_one_dialect


def read(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return in_one_dialect({"type": "object", "properties": properties, **more}, "it")


@pytest.mark.rule("K1")
@pytest.mark.parametrize(
    ("key", "reference"),
    [("a/b", "#/$defs/a~1b"), ("a~b", "#/$defs/a~0b"), ("a~1b", "#/$defs/a~01b")],
)
def test_a_name_with_marks_of_its_own_is_found_and_referred_to(key: str, reference: str) -> None:
    made = read({"x": {"$ref": reference}}, **{"$defs": {key: {"type": "integer"}}})
    check = jsonschema_rs.validator_for(made)
    assert check.is_valid({"x": 1})
    assert not check.is_valid({"x": "one"})


@pytest.mark.rule("K1")
def test_the_whole_is_known_as_root_and_two_of_one_name_are_told_apart() -> None:
    made = read({"me": {"$ref": "#"}, "a": {"$ref": "#/$defs/n"}, "b": {"$ref": "#/definitions/n"}},
                **{"$defs": {"n": {"type": "integer"}}, "definitions": {"n": {"type": "string"}}})  # fmt: skip
    assert made["properties"]["me"] == {"$ref": "#/$defs/root"}
    check = jsonschema_rs.validator_for(made)
    assert check.is_valid({"a": 1, "b": "x", "me": {"a": 2}})
    assert not check.is_valid({"a": "x"})
    assert not check.is_valid({"b": 1})
    assert not check.is_valid({"me": {"a": "x"}})
