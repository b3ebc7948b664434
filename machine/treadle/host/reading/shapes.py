"""A value compared with a type, to the end: every fault is found, not only the first."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin

import msgspec

from .documents import Where


def faults_of(value: Any, kind: Any, path: Where = ()) -> Iterator[tuple[Where, str]]:
    """What keeps ``value`` from being a ``kind``, each with its path; nothing when ``msgspec`` would convert it.

    Args:
        value: as JSON or TOML has it.
        kind: a strict ``msgspec.Struct``, or what its fields are made of.
        path: where the value stands.
    """
    kind = _present(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield from _struct_faults(cast("dict[str, Any]", value), kind, path)
    elif isinstance(value, dict) and origin is dict:
        for name, one in cast("dict[str, Any]", value).items():
            yield from faults_of(one, arguments[1], (*path, name))
    elif isinstance(value, list) and origin is tuple:
        for number, one in enumerate(cast("list[Any]", value)):
            yield from faults_of(one, arguments[0], (*path, number))
    else:
        try:
            msgspec.convert(value, cast("Any", kind))
        except msgspec.ValidationError as error:
            yield path, str(error).partition(" - at `$")[0] + _at(path)


def _struct_faults(value: dict[str, Any], kind: type[msgspec.Struct], path: Where) -> Iterator[tuple[Where, str]]:
    fields = {one.encode_name: one for one in msgspec.structs.fields(kind)}
    for name in value:
        if name not in fields:
            near = get_close_matches(name, fields, n=1) if len(name) < 100 else []
            meant = f": did you mean `{near[0]}`?" if near else f": known are {', '.join(fields)}"
            yield (*path, name), f"unknown field `{name}`{_at(path)}{meant}"
    for name, one in fields.items():
        if name in value:
            yield from faults_of(value[name], one.type, (*path, name))
        elif one.required:
            yield path, f"missing required field `{name}`{_at(path)}"


def _present(kind: Any) -> Any:
    """A type without ``None``: a key that is there has a value."""
    if get_origin(kind) in (Union, UnionType):
        given = [one for one in get_args(kind) if one is not NoneType]
        return given[0] if len(given) == 1 else kind
    return kind


def _at(path: Where) -> str:
    shown = "".join([f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]).lstrip(".")
    return f" - at `{shown}`" if shown else " - at the top"
