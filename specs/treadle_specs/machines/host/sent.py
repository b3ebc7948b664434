"""What was sent to an agent, and what its log says is pending."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import define

from treadle import Event, Receipt
from treadle.session import InboxSpliced

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
