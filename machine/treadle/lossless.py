"""Lossless JSON (S1): what is accepted at writing is exactly what reading gives back."""

from __future__ import annotations

import math
from typing import Any, cast

from .errors import InvalidData

MAX_DEPTH = 200
"""How deep a value may nest; beyond it lies only hostile input (X3)."""

MAX_EVENT_BYTES = 512 * 1024 * 1024
"""How long one event may be as JSON: every store takes it (SQLite's bound is 1,000,000,000 bytes) (X3)."""

MAX_PART_BYTES = 64 * 1024 * 1024
"""How long one part of an event may be as JSON: a message, a result, a prompt (X3)."""

_MAX_INTEGER = 2**63 - 1


def text_is_lossless(text: str) -> bool:
    """Say whether ``text`` has no lone surrogate, so that it can be stored as UTF-8 (S1)."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def check_text(text: str, what: str) -> None:
    """Check that text can be recorded.

    Raises:
        InvalidData: it holds a lone surrogate; those of undecodable bytes are told as what they are (S1).
    """
    if text_is_lossless(text):
        return
    at = next(index for index, character in enumerate(text) if "\ud800" <= character <= "\udfff")
    if "\udc80" <= text[at] <= "\udcff":
        held = f"the byte 0x{ord(text[at]) - 0xDC00:02x} after {at} characters, which is no UTF-8"
    else:
        held = f"a lone surrogate after {at} characters, which UTF-8 cannot carry"
    raise InvalidData(f"holds {held} (S1)", what)


def repair_text(text: str) -> str:
    """Return ``text`` fit for the log: surrogate pairs joined, lone halves replaced by U+FFFD (S1, N6)."""
    if text_is_lossless(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def check_depth(value: Any) -> None:
    """Check that decoded JSON nests no deeper than ``MAX_DEPTH``, whatever the interpreter's own bound is.

    Raises:
        InvalidData: it does (X3).
    """
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        if not level:
            return
        level = [
            inner
            for item in level
            if type(item) is dict or type(item) is list
            for inner in (cast("dict[str, Any]", item).values() if type(item) is dict else cast("list[Any]", item))
        ]
    if any([type(item) is dict or type(item) is list for item in level]):
        raise InvalidData(f"nested deeper than {MAX_DEPTH} levels (X3)")


def check_bytes(size: int, what: str, most: int = MAX_PART_BYTES) -> None:
    """Check that what would be recorded can be stored.

    Raises:
        InvalidData: it is longer than ``most`` bytes of JSON (X3).
    """
    if size > most:
        raise InvalidData(f"{what} is {size:,} bytes as JSON, more than the {most:,} that can be recorded (X3)")


def check_json(value: Any, path: str = "$") -> None:
    """Check that ``value`` is losslessly JSON.

    Raises:
        InvalidData: NaN, an infinity, a lone surrogate, a non-string key, a cycle, an exotic object,
            an integer beyond 64 bits, or nesting beyond ``MAX_DEPTH``; its path is named (S1).
    """
    _check(value, path, 0, set())


def _check(value: Any, path: str, depth: int, open_ids: set[int]) -> None:
    kind = cast("type[object]", type(value))
    if kind is str:
        check_text(value, path)
    elif value is None or kind is bool:
        return
    elif kind is int:
        if not -_MAX_INTEGER - 1 <= value <= _MAX_INTEGER:
            raise InvalidData("integer beyond 64 bits; send it as text (S1)", path)
    elif kind is float:
        if not math.isfinite(value):
            raise InvalidData(f"{value} is not JSON (S1)", path)
    elif kind is dict or kind is list or kind is tuple:
        _check_container(value, path, depth, open_ids)
    else:
        raise InvalidData(f"{kind.__name__} is not JSON (S1); use str, int, float, bool, None, list or dict", path)


def _check_container(value: Any, path: str, depth: int, open_ids: set[int]) -> None:
    if depth >= MAX_DEPTH:
        raise InvalidData(f"nested deeper than {MAX_DEPTH} levels (X3)", path)
    if id(value) in open_ids:
        raise InvalidData("the value contains itself (S1)", path)
    open_ids.add(id(value))
    if isinstance(value, dict):
        for key, item in cast("dict[Any, Any]", value).items():
            if type(key) is not str:
                raise InvalidData(f"key {key!r} is not text (S1)", path)
            _check(key, f"{path}.{key[:40]!r}", depth + 1, open_ids)
            _check(item, f"{path}.{key[:40]}", depth + 1, open_ids)
    else:
        for index, item in enumerate(cast("list[Any]", value)):
            _check(item, f"{path}[{index}]", depth + 1, open_ids)
    open_ids.discard(id(cast("object", value)))
