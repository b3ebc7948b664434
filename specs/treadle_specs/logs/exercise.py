"""How often each rule that a log can break was at stake in one: what did not happen in it shows nothing (§7)."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from treadle import Event

_ALWAYS: dict[str, tuple[str, ...]] = {
    "turn/start": ("L4", "T10"),
    "turn/end": ("N3", "T10"),
    "step/start": ("L4", "T10"),
    "step/end": ("T10", "T12"),
    "user/message": ("N2", "T1"),
    "assistant/message": ("Q9",),
    "assistant/attempt": ("Q9",),
    "tool/call": ("K5",),
    "tool/result": ("N1", "K5"),
    "agent/inbox/spliced": ("I3", "I6"),
    "request/header": ("Q1", "Q2", "Q3"),
    "llm/retry": ("Q6",),
    "llm/retry-started": ("Q6",),
    "session/end-seed": ("S5",),
}
"""What an event of a type puts at stake, whatever it holds."""
REACH: tuple[str, ...] = tuple(
    sorted(
        {rule for rules in _ALWAYS.values() for rule in rules}
        | {"C5", "C11", "I1", "I5", "K3", "N6", "P4", "S3", "T0", "T6"}
    )
)
"""The rules that are counted."""


class Exercise(Counter[str]):
    """Counts while a log is read."""

    def take(self, entry: Event) -> None:
        """The next event."""
        self["N6"] += 1
        self.update(_ALWAYS.get(entry.type, ()))
        self.update(_by_content(entry.type, entry.data))
        if entry.surface_op is not None and _tag(entry.surface_op) == "replace":
            self["S3"] += 1


def _by_content(kind: str, data: Any) -> list[str]:
    match kind:
        case "turn/end":
            reason = _tag(data.reason)
            return {"aborted": ["C11"], "max-tokens": ["T6"], "interrupted": ["P4"]}.get(reason, [])
        case "step/start":
            return ["T0"] if data.accepted else []
        case "assistant/message":
            return ["C5"] * bool(data.interrupted) + ["K3"] * bool(data.message.calls)
        case "agent/inbox/spliced":
            return ["I1"] * bool(data.inserted) + ["I5"] * bool(data.removed_count)
        case _:
            return []


def _tag(member: Any) -> str:
    """The tag of a member of an open sum."""
    return str(cast("Any", type(member)).__struct_config__.tag)
