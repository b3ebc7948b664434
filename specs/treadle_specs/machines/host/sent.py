"""What was sent to an agent, and what its log says is pending."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define

from treadle import Completed, Event, MaxTokens, Receipt
from treadle.session import InboxSpliced, TurnEnd

NEXT_TURN, NEXT_STEP = "next-turn", "next-step"


@define(eq=False)
class Sent:
    """A message that was accepted, and its receipt."""

    receipt: Receipt
    at: int
    woke: bool


def awaited(ending: Any) -> Callable[[], Any]:
    """A function that awaits something."""

    async def wait() -> None:
        await ending

    return wait


def folded(events: Iterable[Event]) -> dict[str, list[str]]:
    """The pending lists as the log's splices give them (I6)."""
    lists: dict[str, list[str]] = {NEXT_TURN: [], NEXT_STEP: []}
    for entry in events:
        data = entry.data
        if isinstance(data, InboxSpliced):
            removed = data.removed_count or 0
            lists[data.target][data.start : data.start + removed] = [m.id for m in data.inserted]
    return lists


def overlooked(events: Iterable[Event], pending: Mapping[str, list[str]], sent: Mapping[str, Sent]) -> list[str]:
    """What a wake brought and still waits, although no turn parked it (L2, L3)."""
    ends = [e for e in events if isinstance(e.data, TurnEnd) and not isinstance(e.data.reason, (Completed, MaxTokens))]
    waiting = [name for name in (*pending[NEXT_TURN], *pending[NEXT_STEP]) if name in sent and sent[name].woke]
    return [name for name in waiting if not any([e.seq > sent[name].at for e in ends])]
