"""The history of a log, derived here a second time, and the requests that must be made from it (S3, S4, N1, Q1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..sums import to_builtins
from ..words.events import (
    AssistantMessageAdded,
    Event,
    Replace,
    SystemMessageAdded,
    ToolResultAdded,
    UserMessageAdded,
    type_named,
)
from ..words.messages import (
    USER,
    AssistantMessage,
    Message,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from .state import LogState


def contribution(data: object) -> Message | None:
    """What a surface event says to the model, ``None`` when it says nothing (S4)."""
    if type(data) is UserMessageAdded:
        return data.message
    if type(data) is AssistantMessageAdded:
        return None if all(map(_silent, data.message.content)) else data.message
    if type(data) is ToolResultAdded:
        return ToolResultMessage((ToolResult(data.call_id, data.content, data.is_error, data.code),))
    if type(data) is SystemMessageAdded:
        return data.message if data.message.content else None
    return None


def _silent(block: object) -> bool:
    return not block.text if type(block) is Text else type(block) is Reasoning


def surface(log: LogState, entry: Event) -> None:
    """Surface events, and only they, enter the surface; a replacement cites what it shadows (S3)."""
    op = entry.surface_op
    known = type_named(entry.type)
    if known is None or not known.surface:
        if known is not None and (op is not None or entry.source_event_seqs is not None):
            log.note("S3", f"{entry.type} is no surface event and carries surface metadata")
        return
    if entry.source_event_seqs is not None:
        for cited in entry.source_event_seqs:
            if not 0 <= cited < entry.seq:
                log.note("S3", f"event {cited} is cited and does not precede")
    message = contribution(entry.data)
    if type(op) is Replace:
        _replace(log, entry, op, message)
        return
    if _replaced_by(message) is not None:
        log.note("Z1", "a summary takes the place of nothing")
    if op is None:
        log.note("S3", f"{entry.type} does not say how it enters the surface")
    log.nodes.append((entry.seq, message))
    if message is not None:
        log.history.append(message)


def _replace(log: LogState, entry: Event, op: Replace, message: Message | None) -> None:
    places = [n for n, (seq, _) in enumerate(log.nodes) if seq in (op.first, op.last)]
    if not places or log.nodes[places[0]][0] != op.first or log.nodes[places[-1]][0] != op.last:
        log.note("S3", f"there are no nodes from {op.first} to {op.last} to replace")
        return
    first, last = places[0], places[-1]
    said = _replaced_by(message)
    held = len([one for _, one in log.nodes[first : last + 1] if one is not None and type(one) is not SystemMessage])
    if said is not None and said != held:
        log.note("Z7", f"a summary says that it stands for {said} messages, and takes the place of {held}")
    missing = {seq for seq, _ in log.nodes[first : last + 1]} - set(entry.source_event_seqs or ())
    if missing:
        log.note("S3", f"replaced and not cited: {sorted(missing)}")
    log.nodes[first : last + 1] = [(entry.seq, message)]
    log.history = [said for _, said in log.nodes if said is not None]
    broken = unanswered(log.history)
    if broken and not log.step.asked:
        log.note("N1", f"after the replacement these calls or results lack their other half: {', '.join(broken)}")


def _replaced_by(message: Message | None) -> object:
    """For how many messages a summary says that it stands; ``None`` where it is none (Z7)."""
    if type(message) is not UserMessage or message.source is USER:
        return None
    plain: Any = to_builtins(message.source)
    return plain.get("replaced", 0) if plain.get("kind") == "summary" else None


def unanswered(messages: Iterable[Message]) -> list[str]:
    """The ids of calls that are not followed, before any other message, by exactly one result, and of stray results."""
    broken: list[str] = []
    waiting: dict[str, bool] = {}
    for message in messages:
        if isinstance(message, ToolResultMessage):
            call_id = message.result.call_id
            if waiting.pop(call_id, None) is None:
                broken.append(call_id)
            continue
        broken += waiting
        waiting = {}
        if isinstance(message, AssistantMessage):
            waiting = {block.call_id: True for block in message.content if isinstance(block, ToolCall)}
    return broken + list(waiting)


def difference(expected: Sequence[Message], given: Sequence[Message]) -> str | None:
    """Where two histories part, ``None`` when they do not."""
    if list(expected) == list(given):
        return None
    for place, (wanted, got) in enumerate(zip(expected, given, strict=False)):
        if wanted != got:
            return f"message {place} is {_short(got)}, and the log gives {_short(wanted)}"
    return f"there are {len(given)} messages, and the log gives {len(expected)}"


def _short(message: Message) -> str:
    name = "tool result" if isinstance(message, ToolResultMessage) else message.role
    return f"{name} {str(message)[:120]!r}"
