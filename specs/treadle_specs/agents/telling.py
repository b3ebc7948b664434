"""A run as text: what was said, and a sequence diagram, with the place marked at which it was disturbed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from treadle import Aborted, Blocked, Errored, Event
from treadle.printable import one_line
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    RetryScheduled,
    ToolCallStarted,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
)

WIDTH = 100
"""Characters of a line."""


def transcript(events: Sequence[Event], mark: int | None, done: str) -> Iterator[str]:
    """What was said, a line per message, call and result; at the mark stands what was done."""
    for entry in events:
        if mark is not None and entry.seq == mark:
            yield f"── {done} ──"
        told = _line(entry.data)
        if told is not None:
            yield told if len(told) <= WIDTH else told[: WIDTH - 1] + "…"
    if mark is not None and mark >= len(events):
        yield f"── {done} ──"


def _line(data: Any) -> str | None:
    match data:
        case TurnStart():
            return f"turn {data.turn}"
        case UserMessageAdded():
            return f"  user: {one_line(data.message.text)}"
        case AssistantMessageAdded():
            asked = "".join([f" → {call.name}({one_line(call.arguments)})" for call in data.message.calls])
            cut = " (cut off)" if data.interrupted else ""
            return f"  model: {one_line(data.message.text)}{asked}{cut}"
        case AssistantAttempt():
            return "  model: (an attempt that came to nothing)"
        case RetryScheduled():
            return f"  retry in {data.delay:g} s: {one_line(data.failure.message)}"
        case ToolCallStarted():
            return f"  call {data.call_id} starts"
        case ToolResultAdded():
            text = " ".join([getattr(block, "text", "") for block in data.content])
            return f"  call {data.call_id}: {data.code + ' ' if data.code else ''}{one_line(text)}"
        case TurnEnd():
            return f"  the turn ends: {_ended(data.reason)}"
        case _:
            return None


def _ended(reason: Any) -> str:
    match reason:
        case Errored():
            return f"{reason.failure.code}: {one_line(reason.failure.message)}"
        case Aborted():
            return f"stopped by {type(reason.reason).__name__.removeprefix('By').lower()}"
        case Blocked():
            return "blocked"
        case _:
            return type(reason).__name__.lower()


def drawing(events: Sequence[Event], mark: int | None, done: str) -> str:
    """A sequence diagram, in Mermaid; the drawings are of a package beside this one, and looked up when one is made."""
    drawings: Any = importlib.import_module("treadle_diagrams.sequence.mermaid")
    before: str = drawings.sequence_mermaid(events if mark is None else events[:mark])
    if mark is None:
        return before
    whole: str = drawings.sequence_mermaid(events)
    rest = whole.removeprefix(before) if whole.startswith(before) else ""
    return f"{before}    Note over driver,tools: {_plain(done)}\n{rest}"


def _plain(text: str) -> str:
    return "".join([character if character.isalnum() or character in " ,.:'_-" else " " for character in text])
