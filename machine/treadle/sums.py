"""Open sums: a tag registry per extensible vocabulary (S2).

Content blocks, sources, causes, end reasons, chunks and events are each a family of frozen structs told apart by a
tag. A plugin adds a member with the family's ``register`` decorator, without touching core. An unknown tag is kept
as an opaque value that encodes to exactly what was read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import msgspec

from .errors import InvalidData, MisuseError
from .lossless import check_bytes, check_json

T = TypeVar("T")
C = TypeVar("C", bound=type)


class Opaque:
    """A member of an open sum whose tag this process does not know; ``raw`` is what was read (S2)."""

    __slots__ = ("raw",)

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(tuple(self.raw))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.raw!r})"


class OpenSum(Generic[T]):
    """One family of tagged structs.

    Args:
        base: marker class that all members inherit.
        opaque: class that carries unknown members.
        tag_field: the key that holds the tag on the wire (S7).

    Attributes:
        known: the members by their tags.
        bare: of members without fields the one instance that there needs to be, by tag; such a member is its tag.
    """

    def __init__(self, base: type[T], opaque: Callable[[dict[str, Any]], T], tag_field: str) -> None:
        self.base = base
        self.tag_field = tag_field
        self._opaque = opaque
        self.known: dict[str, type[T]] = {}
        self.bare: dict[str, T] = {}
        _SUMS[base] = cast("OpenSum[Any]", self)

    def register(self, member: C) -> C:
        """Add a struct to the family; usable as a decorator.

        Raises:
            MisuseError: its tag is taken, or it is no tagged struct of this family.
        """
        config = getattr(member, "__struct_config__", None)
        if config is None or config.tag_field != self.tag_field or not issubclass(member, self.base):
            raise MisuseError(
                f"{member.__name__} must be a msgspec.Struct and {self.base.__name__} with tag_field={self.tag_field!r}"
            )
        if config.tag in self.known:
            raise MisuseError(f"{self.base.__name__} has a member tagged {config.tag!r} already")
        self.known[config.tag] = member
        if config.frozen and not cast("Any", member).__struct_fields__:
            self.bare[config.tag] = cast("Any", member)()
        return member

    @property
    def members(self) -> tuple[type[T], ...]:
        """The known members, in the order of registration."""
        return tuple(self.known.values())

    @classmethod
    def of(cls, base: type) -> OpenSum[Any] | None:
        """The family of a marker class, ``None`` when it marks none."""
        return _SUMS.get(base)

    def build(self, raw: Any) -> T:
        """Build a member from decoded JSON; unknown tags stay opaque.

        Raises:
            InvalidData: it is no object, has no tag, or does not fit its member.
        """
        tag = raw.get(self.tag_field) if isinstance(raw, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if not isinstance(tag, str):
            raise InvalidData(f"a {self.base.__name__} needs an object with text under {self.tag_field!r}")
        if tag in self.known:
            return decode_hook(self.base, raw)
        return self._opaque(cast("dict[str, Any]", raw))

    def check(self, member: T, path: str = "$") -> None:
        """Check that reading gives back exactly what is written (S1).

        Raises:
            InvalidData: a field is of a wrong type, or holds what JSON cannot; its path is named.
        """
        try:
            plain = to_builtins(member)
            check_json(plain, path)
            encoded = msgspec.json.encode(plain)
            check_bytes(len(encoded), type(member).__name__)
            again = self.build(msgspec.json.decode(encoded))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidData(str(error), path) from error
        if again != member:
            raise InvalidData(f"{type(member).__name__} is not read back as it is written", path)


_SUMS: dict[type, OpenSum[Any]] = {}
_convert = msgspec.convert


def decode_hook(kind: type, raw: Any) -> Any:
    """msgspec's hook for the marker classes of open sums."""
    family = _SUMS.get(kind)
    if family is None:
        raise TypeError(f"no open sum is known for {kind!r}")
    try:
        tag = raw[family.tag_field]
        if len(raw) == 1 and tag in family.bare:
            return family.bare[tag]
        member = family.known[tag]
    except (KeyError, TypeError, IndexError):  # no object, no tag, or one that is unknown here
        return family.build(raw)
    try:
        return _convert(raw, member, dec_hook=decode_hook)
    except msgspec.ValidationError as error:
        raise InvalidData(f"{tag}: {error}") from error


def encode_hook(value: Any) -> Any:
    """msgspec's hook for opaque members: they encode to what was read."""
    if isinstance(value, Opaque):
        return value.raw
    raise TypeError(f"{type(value).__name__} cannot be encoded")


ENCODER = msgspec.json.Encoder(enc_hook=encode_hook)
"""The one encoder of the wire vocabulary; compact, strict UTF-8."""


def to_builtins(value: Any) -> Any:
    """Turn a struct into plain JSON values with the wire's keys (S7)."""
    return msgspec.to_builtins(value, enc_hook=encode_hook)
