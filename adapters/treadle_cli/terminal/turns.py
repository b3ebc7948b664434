"""Turns, told from the events of a log."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define

from treadle import Aborted, Blocked, ByHook, ByParent, ByUser, EndReason, Errored, Event
from treadle.printable import one_line
from treadle.session import StepStart, TurnEnd, TurnStart, UserMessageAdded


@define
class Told:
    """One turn: what was asked first, how many steps it took, how it ended."""

    number: int
    asked: str = ""
    steps: int = 0
    ended: str = "open"


def told_turns(events: Iterable[Event]) -> list[Told]:
    """The turns of a log, in order."""
    turns: list[Told] = []
    for entry in events:
        data = entry.data
        if isinstance(data, TurnStart):
            turns.append(Told(data.turn))
        elif turns and isinstance(data, StepStart):
            turns[-1].steps = data.step
        elif turns and isinstance(data, UserMessageAdded):
            turns[-1].asked = turns[-1].asked or one_line(data.message.text, 60)
        elif turns and isinstance(data, TurnEnd):
            turns[-1].ended = end_text(data.reason)
    return turns


def end_text(reason: EndReason) -> str:
    """How a turn ended, in a few words."""
    match reason:
        case Aborted(reason=ByUser()):
            return "stopped by you"
        case Aborted(reason=ByParent()):
            return "stopped by its parent"
        case Aborted(reason=ByHook() as hook):
            return one_line(f"stopped by a hook: {hook.reason}")
        case Aborted():
            return "stopped"
        case Blocked(detail=detail):
            return one_line(f"blocked: {detail}") if detail else "blocked"
        case Errored(failure=failure):
            return one_line(f"failed: {failure.code}")
        case _:
            return str(getattr(type(reason), "__struct_config__").tag)  # noqa: B009
