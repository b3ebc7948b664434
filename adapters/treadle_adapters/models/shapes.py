"""Reading what providers send: JSON of any shape, until it is checked (X3)."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec

from treadle import Failure, ModelFailure
from treadle.models import MAX_BLOCKS, Code

from ..http.failures import beginning

MAX_VALUES = 300_000
"""How many values one event may hold, by its brackets and commas: each takes up to thirty times its text (X3)."""


class NotJson(ModelFailure):
    """Something that should be JSON is none, or nests too deep; its beginning is shown."""

    def __init__(self, text: str) -> None:
        shown = beginning(text)
        super().__init__(Failure(f"the provider sent what is no JSON object: {shown}", Code.MALFORMED_RESPONSE.value))


def parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object.

    Lone halves of surrogate pairs are kept as they are: the other half may be in the next delta.

    Raises:
        NotJson: it is no JSON, no object, nests too deep, or holds too many values.
    """
    if len(text) > MAX_VALUES and sum(map(text.count, "{[,")) > MAX_VALUES:
        raise NotJson(text)
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        raise NotJson(text) from None
    except (msgspec.MsgspecError, UnicodeError):  # msgspec refuses lone surrogates; the standard library reads them
        value = _parse_loosely(text)
    if not isinstance(value, dict):
        raise NotJson(text)
    return cast("dict[str, Any]", value)


def _parse_loosely(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise NotJson(text) from None


def json_or_none(body: bytes) -> Any:
    """Parse a body; ``None`` when it is no JSON, or holds too many values."""
    if len(body) > MAX_VALUES and sum(map(body.count, (b"{", b"[", b","))) > MAX_VALUES:
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def as_object(value: Any) -> dict[str, Any]:
    """An object, empty for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """A list, empty for anything else.

    Raises:
        ModelFailure: it has more items than an answer may have blocks (X3).
    """
    found = cast("list[Any]", value) if isinstance(value, list) else []
    if len(found) > MAX_BLOCKS:
        text = f"the provider sent a list of {len(found)} items, more than {MAX_BLOCKS} (X3)"
        raise ModelFailure(Failure(text, Code.MALFORMED_RESPONSE.value))
    return found


def as_text(value: Any) -> str:
    """Text, empty for anything else."""
    return value if isinstance(value, str) else ""


def as_count(value: Any) -> int | None:
    """A number of tokens; ``None`` for anything that cannot be one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        return None
    return value


def is_base_error(body: dict[str, Any]) -> bool:
    """Whether a body tells an error as MiniMax does, whatever else it holds."""
    return bool(as_object(body.get("base_resp")).get("status_code"))
