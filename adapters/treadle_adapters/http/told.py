"""What an error body tells, in whatever shape it tells it: words for programs, and sentences (Q7, X3)."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec
from attrs import frozen

from treadle.models import repair_text

WORD_KEYS = frozenset(
    {
        "code",
        "type",
        "status",
        "error_type",
        "errortype",
        "error_code",
        "errorcode",
        "reason",
        "__type",
        "provider_code",
    }
)
"""Fields whose values are words for programs."""

TEXT_KEYS = frozenset(
    {"message", "msg", "detail", "details", "error", "error_msg", "error_message", "errormessage", "raw", "status_msg",
     "title", "description", "quotaid", "error_description", "errors", "cause"}
)  # fmt: skip
"""Fields whose values are sentences."""

MAX_TEXT = 8_000
"""How many characters of sentences are looked at (X3)."""

MAX_FIELDS = 500
"""How many fields are looked at (X3)."""

_JSON = re.compile(r"\s*[\[{]")


@frozen
class Told:
    """What an error says.

    Attributes:
        words: its words for programs, in lower case, the outermost first.
        text: its sentences, joined.
    """

    words: tuple[str, ...]
    text: str


def told_by(error: Any) -> Told:
    """Read an error: text, an object, or objects within objects, also where an inner one is quoted as text."""
    words: list[str] = []
    texts: list[str] = []
    level: list[tuple[str, Any]] = [("error", error)]
    seen = 0
    for _ in range(8):
        following: list[tuple[str, Any]] = []
        for name, value in level:
            seen += 1
            if seen > MAX_FIELDS:
                break
            following += _look(name, value, words, texts)
        level = following
    text = repair_text(" | ".join(dict.fromkeys(texts)))[:MAX_TEXT]
    return Told(tuple(dict.fromkeys(words)), text)


def _look(name: str, value: Any, words: list[str], texts: list[str]) -> list[tuple[str, Any]]:
    """Take one field; returns the fields inside it."""
    if isinstance(value, dict):
        inner = cast("dict[Any, Any]", value)
        if name == "base_resp" and isinstance(inner.get("status_code"), int):
            words.append(f"base_resp:{inner['status_code']}")
        return [(str(key).lower(), each) for key, each in inner.items()]
    if isinstance(value, list):
        return [(name, each) for each in cast("list[Any]", value)[:MAX_FIELDS]]
    if is_word(value) and (name in WORD_KEYS or (name == "error" and " " not in str(value))):
        words.append(str(value).lower())
    if isinstance(value, str) and name in TEXT_KEYS:
        if _JSON.match(value) and len(value) <= 65_536:
            try:
                return [("error", msgspec.json.decode(value))]
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                pass
        texts.append(value[:MAX_TEXT])
    return []


def is_word(value: object) -> bool:
    """Whether a value is short enough, and of a kind, to be a word for programs."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return False
    return bool(value) and len(str(value)) <= 100
