"""Events on one short line each, and what turns took."""

from __future__ import annotations

from collections.abc import Sequence

from treadle import Event
from treadle.printable import call_text, one_line
from treadle.session import InboxSpliced, RequestContext, StepEnd, StepStart, TurnStart

from ..drawing.units import counted, duration
from .entries import (
    Answered,
    AnyEntry,
    Called,
    Dropped,
    Failed,
    Noted,
    Prompted,
    Retried,
    Routed,
    Said,
    Settled,
    TurnClosed,
)
from .phrases import blocks_text
from .usage import usage_text

ROOM = 110
"""How many characters a summary has."""


def turn_facts(end: TurnClosed) -> list[str]:
    """What a turn took, fact by fact: steps, calls, time, tokens; what is not known is left out."""
    facts = [counted(end.steps, "step")]
    facts += [counted(end.calls, "call")] if end.calls else []
    facts += [duration(end.took)] if end.took is not None else []
    facts += [counted(end.attempts, "attempt")] if end.attempts > end.steps else []
    below = [f"sub-agents' {text}" for text in usage_text(end.below)]
    return [*facts, *usage_text(end.usage), *below]


def summary(entry: Event, told: Sequence[AnyEntry] = ()) -> str:
    """An event on one short, harmless line; empty where its type says it all.

    Args:
        entry: the event.
        told: what the transcript tells of it.
    """
    match entry.data:
        case InboxSpliced() as data:
            return one_line(_spliced(data), ROOM)
        case TurnStart(turn=turn):
            return f"turn {turn}"
        case StepStart(step=step) | StepEnd(step=step):
            return f"step {step}"
        case RequestContext() as data:
            return one_line(f"{data.provider}/{data.model}", ROOM)
        case _:
            return one_line(" · ".join([text for one in told if (text := _entry(one))]), ROOM)


def _spliced(data: InboxSpliced) -> str:
    came = [f"“{blocks_text(message.content)}”" for message in data.inserted]
    parts = [f"in: {', '.join(came)}"] if came else []
    if data.removed_count:
        how = "canceled" if data.outcome is not None else "claimed" if not came else "replaced"
        parts.append(f"{data.removed_count} {how}")
    return f"{data.target} · {' · '.join(parts)}"


def _entry(entry: AnyEntry) -> str:
    match entry:
        case Said():
            return f"{entry.sender}: {entry.text[: 8 * ROOM]}"
        case Dropped():
            return f"{entry.fate}: {entry.text[: 8 * ROOM]}"
        case Answered():
            said = " ".join([part.text[: 8 * ROOM] if part.kind == "text" else part.name for part in entry.parts])
            return ("interrupted: " if entry.interrupted else "") + said
        case Failed():
            return "interrupted" if entry.interrupted else f"{entry.code}: {entry.why}"
        case Called():
            return call_text(entry.name, entry.arguments, ROOM)
        case Settled():
            text = entry.text[: 8 * ROOM]
            return f"{entry.code or 'error'}: {text}" if entry.is_error else text
        case Retried():
            return f"attempt {entry.attempt} in {entry.delay:.1f} s"
        case Routed():
            return f"{entry.reason}: {entry.route}"
        case TurnClosed():
            return f"turn {entry.turn}: {entry.why}"
        case Prompted() | Noted():
            return entry.text[: 8 * ROOM]
        case _:
            return ""
