"""Schemas as servers of tools write them, read into one dialect: JSON Schema 2020-12 with local definitions (K1)."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import unquote

from ..errors import MisuseError

MAPS = frozenset(["properties", "patternProperties", "dependentSchemas"])
"""Keywords whose members are schemas by name."""
LISTS = frozenset(["allOf", "anyOf", "oneOf", "prefixItems"])
"""Keywords that list schemas."""
SCHEMAS = frozenset(
    [
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
"""Keywords whose value is a schema."""

_DROPPED = frozenset(["$id", "id", "$schema", "$defs", "definitions", "nullable", "additionalItems", "dependencies"])
_LEFT = "#/$defs/"


def in_one_dialect(schema: dict[str, Any], what: str) -> dict[str, Any]:
    """A schema of draft 4 to 2020-12 or of OpenAPI, rewritten: what it allows stays the same.

    ``definitions`` and any local reference become ``$defs``, ``nullable`` a type, lists under ``items`` ``prefixItems``,
    ``dependencies`` what took its place; ``$id`` and ``$schema`` are left out.

    Args:
        schema: losslessly JSON.
        what: names it in errors.

    Raises:
        MisuseError: a reference leads out of the schema, or nowhere.
    """
    try:
        return _Reading(schema, what).whole()
    except RecursionError:
        raise MisuseError(f"{what} has references to references without end (K1)") from None


class _Reading:
    def __init__(self, root: dict[str, Any], what: str) -> None:
        self._root = root
        self._what = what
        self._defs: dict[str, Any] = {}
        self._names: dict[str, str] = {}

    def whole(self) -> dict[str, Any]:
        own = self._root.get("$defs")
        if isinstance(own, dict):
            for name, part in cast("dict[str, Any]", own).items():
                self._names[f"/$defs/{name}"] = name
                self._defs[name] = part
            for name in list(self._defs):
                self._defs[name] = self._schema(self._defs[name])
        made = self._schema(self._root)
        return made | {"$defs": self._defs} if self._defs else made

    def _schema(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        given = cast("dict[str, Any]", schema)
        made = {key: self._member(key, value) for key, value in given.items() if key not in _DROPPED}
        items = given.get("items")
        if isinstance(items, list):
            made["prefixItems"] = [self._schema(part) for part in cast("list[Any]", items)]
            del made["items"]
            if "additionalItems" in given:
                made["items"] = self._schema(given["additionalItems"])
        needs = given.get("dependencies")
        if isinstance(needs, dict):
            for name, part in cast("dict[str, Any]", needs).items():
                where = "dependentRequired" if isinstance(part, list) else "dependentSchemas"
                made[where] = {**made.get(where, {}), name: self._schema(part)}
        for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(given.get(exclusive), bool):
                del made[exclusive]
                if given[exclusive] and bound in made:
                    made[exclusive] = made.pop(bound)
        return _nullable(made) if given.get("nullable") is True else made

    def _member(self, key: str, value: Any) -> Any:
        if key == "$ref":
            return self._reference(value)
        if key in MAPS and isinstance(value, dict):
            return {name: self._schema(part) for name, part in cast("dict[str, Any]", value).items()}
        if key in LISTS and isinstance(value, list):
            return [self._schema(part) for part in cast("list[Any]", value)]
        return self._schema(value) if key in SCHEMAS else value

    def _reference(self, value: Any) -> str:
        base = self._root.get("$id")
        local = value if isinstance(value, str) else ""
        if isinstance(base, str) and base.rstrip("#"):
            local = local.removeprefix(base.rstrip("#"))
        pointer = unquote(local[1:])
        if not local.startswith("#") or (pointer and not pointer.startswith("/")):
            raise MisuseError(f"{self._what} refers to {value!r}; only what is in the schema can be referred to (K1)")
        if pointer not in self._names:
            target = self._target(pointer, value)
            name = base = pointer.rpartition("/")[2] or "root"
            number = 1
            while name in self._defs:
                number += 1
                name = f"{base}_{number}"
            self._names[pointer] = name
            self._defs[name] = True
            self._defs[name] = self._schema(target)
        return _LEFT + self._names[pointer].replace("~", "~0").replace("/", "~1")

    def _target(self, pointer: str, value: str) -> Any:
        found: Any = self._root
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            try:
                found = cast("list[Any]", found)[int(key)] if isinstance(found, list) else found[key]
            except (KeyError, IndexError, ValueError, TypeError):
                raise MisuseError(f"{self._what} refers to {value!r}, which is not there (K1)") from None
        return found


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """As OpenAPI means it: null is allowed beside what the schema says."""
    kind = schema.get("type")
    if kind is None:
        says = schema.keys() & {"$ref", "allOf", "anyOf", "oneOf", "enum", "const"}
        return {"anyOf": [schema, {"type": "null"}]} if says else schema
    kinds = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
    made = schema | {"type": kinds if "null" in kinds else [*kinds, "null"]}
    listed = made.get("enum")
    if isinstance(listed, list) and None not in listed:
        made["enum"] = [*cast("list[Any]", listed), None]
    return made
