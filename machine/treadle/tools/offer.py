"""What the model is told of a tool: one form, whoever gives it (K1)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import msgspec

from ..errors import InvalidData, MisuseError
from ..lossless import check_json, check_text
from ..words.call_config import ToolSchema
from .schema import Checker

_REMEMBERED_BYTES = 64 * 1024
"""How long a schema may be that is not checked again at each step."""


def check_naming(name: object, description: object) -> None:
    """Check what a tool is called, and what is said of it.

    Raises:
        MisuseError: what is wrong, and what it must be (K1).
    """
    if not isinstance(name, str) or not name or len(name) > 128 or not name.isprintable() or " " in name:
        shown = repr(name)
        shown = shown if len(shown) <= 200 else f"{shown[:200]}…"
        raise MisuseError(f"a tool's name is 1 to 128 printable characters without spaces, not {shown} (K1)")
    if not isinstance(description, str):
        raise MisuseError(f"tool {name!r} needs a description in text (K1)")
    check_text(name, "a tool's name")
    check_text(description, f"the description of tool {name!r}")


def parameters_of(given: Any, name: str) -> Checker:
    """The parameters of a tool in the one dialect, compiled.

    Raises:
        MisuseError: they are no schema of an object, or use what is not supported; its place is named (K1).
    """
    what = f"the parameters of tool {name!r}"
    return Checker(_of_object(given, what), what)


def _of_object(parameters: Any, what: str) -> Any:
    """The parameters with the type that arguments have, which servers of tools leave out at times."""
    if not isinstance(parameters, dict):
        return parameters
    given = cast("dict[str, Any]", parameters)
    kind = given.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise MisuseError(f"{what} must be a schema of type 'object' (K1)")
    return {**given, "type": "object"}


def offered(schema: object) -> ToolSchema:
    """A schema that no tool stands behind, held to what is asked of a tool's own: a copy, in the one dialect (K1).

    Raises:
        MisuseError: as for a tool.
    """
    if not isinstance(schema, ToolSchema):
        raise MisuseError(f"a treadle.models.ToolSchema is needed, not {type(schema).__name__} (R1)")
    check_naming(schema.name, schema.description)
    try:
        check_json(schema.parameters)
        encoded = msgspec.json.encode(schema.parameters)
    except InvalidData:
        return ToolSchema(schema.name, schema.description, parameters_of(schema.parameters, schema.name).schema)
    read = _remembered if len(encoded) <= _REMEMBERED_BYTES else _in_one_dialect
    return ToolSchema(schema.name, schema.description, msgspec.json.decode(read(encoded, schema.name)))


def _in_one_dialect(encoded: bytes, name: str) -> bytes:
    return msgspec.json.encode(parameters_of(msgspec.json.decode(encoded), name).schema)


_remembered = lru_cache(maxsize=512)(_in_one_dialect)
