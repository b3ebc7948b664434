"""What code gives as a value, made into plain JSON: one conversion, by msgspec for the types that it knows (K9)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from itertools import islice
from numbers import Integral
from operator import index
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

import attrs
import msgspec

from ..errors import InvalidData
from ..lossless import MAX_DEPTH, MAX_PART_BYTES, check_json
from ..words.failures import describe

MAX_NODES = 200_000
"""How many values one may hold (X3)."""

_TEXTS = frozenset([dt.datetime, dt.date, dt.time, Decimal, UUID])
"""What msgspec writes as text."""
_USE = "use text, numbers, lists, dicts, dates, or a dataclass, attrs class, pydantic model or msgspec.Struct of them"


def plain(value: Any, apart: tuple[type, ...] = ()) -> Any:
    """A copy of ``value`` as JSON holds it, which nobody else has.

    Dataclasses, attrs classes, structs, pydantic models and mappings become objects; sequences, named tuples and sets
    lists, those of sets in order; dates and times ISO 8601; UUIDs, decimals and paths text; bytes base64, as parameters
    of these types are given. An enum's member becomes its value. Keys that become text are keys.

    Args:
        value: anything.
        apart: types that have a meaning only where they stand alone, and are no values.

    Raises:
        InvalidData: JSON cannot hold it: what, where and what to do instead are named (S1), or it is too large, too deep or
            of too many parts (X3).
    """
    conversion = _Conversion(apart)
    try:
        return conversion.of(value)
    except InvalidData:
        raise
    except Exception as error:
        raise InvalidData(f"cannot be read: {describe(error)}", conversion.where()) from error


class _Conversion:
    """One walk. ``path`` is where it stands; what fails leaves it there."""

    def __init__(self, apart: tuple[type, ...]) -> None:
        self.path: list[str | int] = []
        self._apart = apart
        self._count = self._size = 0
        self._open: set[int] = set()

    def where(self) -> str:
        parts = [f"[{part}]" if isinstance(part, int) else f".{part[:40]}" for part in self.path]
        return "$" + "".join(parts if len(parts) <= 20 else [*parts[:10], "…", *parts[-10:]])

    def of(self, value: Any) -> Any:
        self._count += 1
        if self._count > MAX_NODES:
            raise InvalidData(f"more than {MAX_NODES} values in one result (X3); return less at a time", self.where())
        steps: list[Any] = []
        try:
            while True:
                kind = cast("type[Any]", type(value))
                if value is None or kind is bool:
                    return value
                if kind is str or kind is int or kind is float:
                    return self._scalar(value)
                self._enter(value, steps)
                if kind is dict:
                    return self._object(value)
                if kind is list or kind is tuple:
                    return self._list(value)
                if kind is set or kind is frozenset or isinstance(value, AbstractSet):
                    return _sorted(self._list(value))
                value = self._simpler(value, kind)
        finally:
            self._open.difference_update([id(step) for step in steps])

    def _enter(self, value: Any, steps: list[Any]) -> None:
        if id(value) in self._open:
            raise InvalidData("the value contains itself (S1): name what lies above instead", self.where())
        if len(self.path) + len(steps) >= MAX_DEPTH:
            raise InvalidData(f"nested deeper than {MAX_DEPTH} levels (X3)", self.where())
        self._open.add(id(value))
        steps.append(value)

    def _scalar(self, value: Any) -> Any:
        if type(value) is str:
            self._charge(len(value))
            if value.isascii():
                return value
        try:
            check_json(value)
        except InvalidData:
            check_json(value, self.where())
        return value

    def _charge(self, size: int) -> None:
        self._size += size
        if self._size > MAX_PART_BYTES:
            raise InvalidData(
                f"up to here it is more than the {MAX_PART_BYTES:,} bytes that can be recorded (X3)", self.where()
            )

    def _simpler(self, value: Any, kind: type[Any]) -> Any:
        """What stands for a value that JSON does not know, nearer to JSON by one step."""
        if issubclass(kind, self._apart):
            raise InvalidData(
                f"{_name(kind)} is no value (K9): return it alone, or blocks in a list of nothing else", self.where()
            )
        if issubclass(kind, Enum):
            return value.value
        simple = self._simple(value, kind)
        if simple is not None:
            return simple
        fields = _fields(value, kind)
        if fields is not None:
            return fields
        if isinstance(value, Mapping):
            return dict(islice(cast("Mapping[Any, Any]", value).items(), MAX_NODES + 1))
        if isinstance(value, (Sequence, ValuesView)):
            return list(islice(cast("Sequence[Any]", value), MAX_NODES + 1))
        raise InvalidData(f"{_name(kind)} is not JSON (S1): {_advice(value)}", self.where())

    def _simple(self, value: Any, kind: type[Any]) -> str | int | float | None:
        """The text or number that stands for a value; ``None`` where none does."""
        if issubclass(kind, str):
            return str.__str__(value)
        if issubclass(kind, float):
            return float.__float__(value)
        if issubclass(kind, Integral):
            return index(value)
        if issubclass(kind, (bytes, bytearray, memoryview)):
            self._charge(memoryview(value).nbytes)
            return msgspec.to_builtins(bytes(value))
        if issubclass(kind, dt.timedelta):
            return msgspec.to_builtins(dt.timedelta(value.days, value.seconds, value.microseconds))
        if kind in _TEXTS:
            return msgspec.to_builtins(value)
        if issubclass(kind, (dt.date, dt.time)):
            return value.isoformat()
        return str(value) if issubclass(kind, (Decimal, UUID, PurePath)) else None

    def _list(self, values: Any) -> list[Any]:
        made: list[Any] = []
        self.path.append(0)
        for place, item in enumerate(values):
            self.path[-1] = place
            made.append(self.of(item))
        self.path.pop()
        return made

    def _object(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, item in values.items():
            self.path.append(key if type(key) is str else "(a key)")
            name = self._scalar(key) if type(key) is str else self._key(key)
            if name in made:
                raise InvalidData("two keys become this one, and one of the two would be lost (S1)", self.where())
            self.path[-1] = name
            made[name] = self.of(item)
            self.path.pop()
        return made

    def _key(self, key: Any) -> str:
        name = self.of(key)
        if type(name) is not str:
            raise InvalidData(
                f"key {str(name)[:40]} is not text (S1): make it text, or give a list of pairs", self.where()
            )
        return name


def _sorted(items: list[Any]) -> list[Any]:
    """What a set holds in an order that is the same everywhere."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=msgspec.json.encode)


def _fields(value: Any, kind: type[Any]) -> Any:
    """What the fields of an object hold, by the names they have as JSON; ``None`` where it has none."""
    if issubclass(kind, msgspec.Struct):
        return _of_struct(value, kind)
    if dataclasses.is_dataclass(kind):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(kind)}
    if attrs.has(kind):
        return attrs.asdict(value, recurse=False)
    dump = getattr(kind, "model_dump", None)  # pydantic's, which need not be installed
    return dump(value, mode="json") if callable(dump) else None


def _of_struct(value: msgspec.Struct, kind: type[msgspec.Struct]) -> Any:
    config = kind.__struct_config__
    held = [getattr(value, name) for name in kind.__struct_fields__]
    tag = [] if config.tag_field is None else [config.tag]
    if config.array_like:
        return [*tag, *held]
    made = {
        name: item for name, item in zip(kind.__struct_encode_fields__, held, strict=True) if item is not msgspec.UNSET
    }
    return {config.tag_field: config.tag, **made} if tag else made


def _name(kind: type[Any]) -> str:
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def _advice(value: Any) -> str:
    if inspect.isawaitable(value):
        return "await it"
    if callable(getattr(cast("object", type(value)), "read", None)):
        return "read it, and give what it held or its path"
    if isinstance(value, (Iterator, AsyncIterator)):
        return "collect it into a list"
    if isinstance(value, type) or callable(value):
        return "give its name, or what it returns"
    return _USE
