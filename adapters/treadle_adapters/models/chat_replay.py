"""What chat completions bring beside text and calls and want back unchanged: signatures, encrypted reasoning (Q10)."""

from __future__ import annotations

from typing import Any, cast

from treadle.errors import InvalidData
from treadle.models import check_depth, repair_text

from .encoding import encode
from .shapes import as_list, as_object, as_text
from .writer import too_much

OF_CALLS = ("extra_content", "provider_specific_fields", "thought_signature", "thoughtSignature")
"""Fields of a call, and of its function, that go back: Gemini's thought signatures, in the places gateways put them."""

OF_MESSAGES = (*OF_CALLS, "reasoning_opaque")
"""Fields of a message that go back, beside ``reasoning_details``."""

JOINED = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Kinds of ``reasoning_details`` that come in pieces, by the field to be joined."""

MAX_REPLAY = 4_000_000
"""How many bytes of such data one answer may bring (X3)."""


class CallData:
    """The data of one call."""

    def __init__(self) -> None:
        self._call: dict[str, Any] = {}
        self._function: dict[str, Any] = {}

    def take(self, delta: dict[str, Any]) -> int:
        """Take what a delta of the call brings; returns its size in bytes."""
        fields = picked(delta, OF_CALLS)
        inner = picked(as_object(delta.get("function")), OF_CALLS)
        self._call |= fields
        self._function |= inner
        return len(encode([fields, inner])) if fields or inner else 0

    def replay(self, endpoint: str) -> dict[str, Any] | None:
        """The call's replay data; ``None`` when it has none."""
        found = self._call | ({"function": self._function} if self._function else {})
        return {"endpoint": endpoint, **found} if found else None


class MessageData:
    """The data of one answer; counts that of its calls as well."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._details: list[dict[str, Any]] = []
        self._pieces: list[str] = []
        self._size = 0

    def count(self, size: int) -> None:
        """Count ``size`` more bytes.

        Raises:
            ModelFailure: it is too much (X3).
        """
        self._size += size
        if self._size > MAX_REPLAY:
            raise too_much(f"more than {MAX_REPLAY} bytes of data to be sent back")

    def take(self, delta: dict[str, Any]) -> None:
        """Take what a delta brings, or a whole message of which no delta brought any."""
        fields = picked(delta, OF_MESSAGES)
        if fields:
            self.count(len(encode(fields)))
            self._fields |= fields
        for detail in map(as_object, as_list(delta.get("reasoning_details"))):
            if detail:
                copied = clean(detail)
                self.count(len(encode(copied)))
                self._detail(copied)

    @property
    def empty(self) -> bool:
        """Whether nothing came."""
        return not self._fields and not self._details

    def replay(self, endpoint: str) -> dict[str, Any] | None:
        """The message's replay data; ``None`` when it has none."""
        self._join()
        found = self._fields | ({"reasoning_details": self._details} if self._details else {})
        return {"endpoint": endpoint, **found} if found else None

    def _detail(self, detail: dict[str, Any]) -> None:
        """Take a detail, which may go on with the one before it."""
        last = self._details[-1] if self._details else {}
        name = JOINED.get(as_text(detail.get("type")))
        if name is None or any([detail.get(key) != last.get(key) for key in ("type", "index")]):
            self._join()
            self._details.append(detail)
            return
        if not self._pieces:
            self._pieces.append(as_text(last.get(name)))
        self._pieces.append(as_text(detail.pop(name, "")))
        last |= {key: value for key, value in detail.items() if value is not None}

    def _join(self) -> None:
        if self._pieces:
            last = self._details[-1]
            last[JOINED[last["type"]]] = "".join(self._pieces)
            self._pieces = []


def picked(fields: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Those of ``fields`` that go back.

    Raises:
        ModelFailure: one of them nests too deep (X3).
    """
    return {name: clean(fields[name]) for name in names if fields.get(name) not in (None, "", {}, [])}


def sent_back(replay: Any, names: tuple[str, ...], endpoint: str) -> dict[str, Any]:
    """What of a call's or a message's replay data belongs into a request to ``endpoint`` (Q10)."""
    found = as_object(replay)
    return picked(found, names) if found.get("endpoint") == endpoint else {}


def clean(value: Any) -> Any:
    """A copy whose texts the log can hold.

    Raises:
        ModelFailure: it nests too deep (X3).
    """
    try:
        check_depth(value)
    except InvalidData as error:
        raise too_much(f"data to be sent back that is {error}") from error
    return _clean(value)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return repair_text(value)
    if isinstance(value, dict):
        return {repair_text(name): _clean(inner) for name, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_clean(inner) for inner in cast("list[Any]", value)]
    return value
