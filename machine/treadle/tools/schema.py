"""JSON schemas of tools: from type hints or given, checked at registration, validated by jsonschema-rs (K1)."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, cast

import msgspec

from ..errors import MisuseError
from ..lossless import check_json
from .dialect import LISTS, MAPS, SCHEMAS, in_one_dialect

SUPPORTED = frozenset(
    [
        "$defs",
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "contains",
        "default",
        "deprecated",
        "dependentRequired",
        "description",
        "else",
        "enum",
        "examples",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "if",
        "items",
        "maxContains",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "not",
        "oneOf",
        "pattern",
        "patternProperties",
        "prefixItems",
        "properties",
        "propertyNames",
        "readOnly",
        "required",
        "then",
        "title",
        "type",
        "uniqueItems",
        "writeOnly",
        "$comment",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "dependentSchemas",
        "discriminator",
        "example",
        "externalDocs",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
"""The keywords a tool's schema may use once it is rewritten, beside those that begin with ``x-``; others are refused (K1)."""

MAX_ERRORS = 5
"""How many validation errors a result lists."""


class Checker:
    """A compiled schema."""

    __slots__ = ("_validator", "schema")

    def __init__(self, schema: dict[str, Any], what: str) -> None:
        import jsonschema_rs  # with the first tool: an agent without tools need not load it

        self.schema = schema = understood(schema, what)
        try:
            self._validator = jsonschema_rs.validator_for(schema)
        except Exception as error:
            raise MisuseError(f"{what} is no valid JSON schema: {error} (K1)") from error

    def errors(self, value: Any) -> list[str]:
        """What is wrong with ``value``, each with its path; empty when nothing is."""
        if self._validator.is_valid(value):
            return []
        out: list[str] = []
        for error in self._validator.iter_errors(value):
            path = "".join([f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path])
            out.append(f"${path}: {error.message[:300]}")
            if len(out) == MAX_ERRORS:
                out.append("…")
                break
        return out


def understood(schema: object, what: str) -> dict[str, Any]:
    """A schema in the one dialect that is validated, recorded and shown: a copy of what was given, rewritten (K1).

    Raises:
        MisuseError: it is not JSON, refers to what is not in it, or uses a keyword that nobody knows; the keyword and
            its place are named.
    """
    try:
        check_json(schema)
    except Exception as error:
        raise MisuseError(f"{what} is not JSON: {error} (K1)") from error
    if not isinstance(schema, dict):
        raise MisuseError(f"{what}: $ must be an object (K1)")
    plain = msgspec.json.decode(msgspec.json.encode(cast("object", schema)))
    made = in_one_dialect(plain, what)
    _check(made, what, "$")
    return made


def _check(schema: Any, what: str, path: str) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise MisuseError(f"{what}: {path} must be an object or a boolean (K1)")
    for key, value in cast("dict[str, Any]", schema).items():
        if key not in SUPPORTED and not key.startswith("x-"):
            raise MisuseError(f"{what}: {path} uses the keyword {key!r}, which is not supported (K1); leave it out")
        if (key in MAPS or key == "$defs") and isinstance(value, dict):
            for name, part in value.items():  # pyright: ignore[reportUnknownVariableType]
                _check(part, what, f"{path}.{key}.{name}")
        elif key in LISTS and isinstance(value, list):
            for index, part in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
                _check(part, what, f"{path}.{key}[{index}]")
        elif key in SCHEMAS:
            _check(value, what, f"{path}.{key}")


def signature_struct(function: Callable[..., Any], skip: str | None) -> type[msgspec.Struct]:
    """A struct whose fields are the function's parameters, for its schema and the conversion of arguments.

    Args:
        function: whose parameters are described by their type hints.
        skip: the parameter that takes the ``ToolRun`` and is not the model's to give.

    Raises:
        MisuseError: a parameter has no hint, or a hint that JSON cannot express.
    """
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise MisuseError(f"the type hints of {function!r} cannot be read: {error}") from error
    fields: list[Any] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name == skip:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise MisuseError(f"{function!r}: parameter {name!r} must be usable by keyword to be a tool's")
        if name not in hints:
            raise MisuseError(f"{function!r}: parameter {name!r} needs a type hint to be a tool's")
        if parameter.default is parameter.empty:
            fields.append((name, hints[name]))
        else:
            fields.append((name, hints[name], parameter.default))
    try:
        return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
    except TypeError as error:
        raise MisuseError(f"{function!r} cannot be a tool: {error}") from error


def schema_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a struct, its own definition on top.

    Raises:
        MisuseError: a type that JSON schema cannot express.
    """
    try:
        (top,), components = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise MisuseError(f"a parameter's type has no JSON schema: {error}") from error
    own = components.pop(top["$ref"].rpartition("/")[2])
    own.pop("title", None)
    if components:
        own["$defs"] = components
    return own
