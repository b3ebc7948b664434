"""Whether what an agent does now is what was recorded, but for times and for identities that are made up anew."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from attrs import define, field

from treadle import Event, Failure
from treadle.session import AssistantAttempt, AssistantMessageAdded, RetryScheduled, ToolResultAdded, to_builtins

_MADE_UP = frozenset({"attemptId", "callId", "agentId"})
"""The keys that hold an identity; ``id`` of messages and the list ``accepted`` do as well."""
Delays = Callable[[int, Failure], tuple[float, float] | None]
"""The least and the longest wait that today's policy takes before a retry: given the retries so far, and the failure."""


@define
class Names:
    """The identities of one log, each replaced by its place in the order in which they appear."""

    known: dict[str, int] = field(factory=dict[str, int])
    order: list[str] = field(factory=list[str])

    def number(self, name: str) -> int:
        """The place of an identity; one that is new is the next."""
        if name not in self.known:
            self.known[name] = len(self.order)
            self.order.append(name)
        return self.known[name]

    def told(self, entry: Event) -> dict[str, Any]:
        """An event as it is compared."""
        data = entry.data
        plain: Any = to_builtins(data)
        if type(data) in (AssistantMessageAdded, AssistantAttempt):
            plain.pop("stream", None)
        elif type(data) is RetryScheduled:
            plain.pop("delay", None)
        elif type(data) is ToolResultAdded:  # what an older log does not tell is no difference
            for name in ("refused", "body", "contexts"):
                plain.pop(name, None)
        return {
            "type": entry.type,
            "data": self._renamed(plain),
            "op": to_builtins(entry.surface_op),
            "sources": entry.source_event_seqs,
        }

    def _renamed(self, value: Any) -> Any:
        if isinstance(value, dict):
            owner = cast("dict[str, Any]", value)
            return {key: self._named(owner, key, one) for key, one in owner.items()}
        if isinstance(value, (list, tuple)):
            return [self._renamed(one) for one in cast("list[Any]", value)]
        return value

    def _named(self, owner: dict[str, Any], key: str, value: Any) -> Any:
        if isinstance(value, str) and (key in _MADE_UP or (key == "id" and "role" in owner)):
            return self.number(value)
        if key == "accepted" and isinstance(value, (list, tuple)):
            return [self.number(one) for one in cast("list[str]", value)]
        return self._renamed(value)


@define
class Pairing:
    """Two logs side by side, each event given once and in order: the recorded one, and the one that is made now."""

    recorded: Names = field(factory=Names)
    live: Names = field(factory=Names)

    def same(self, recorded: Event, live: Event, delays: Delays) -> bool:
        """Whether two events say the same."""
        if self.recorded.told(recorded) != self.live.told(live):
            return False
        if type(recorded.data) is RetryScheduled:
            return _same_delay(recorded.data, live.data, delays)
        return True

    def live_name(self, recorded: str) -> str:
        """What an identity of the recorded log is called in the other one; itself when it has no counterpart yet."""
        place = self.recorded.known.get(recorded)
        return self.live.order[place] if place is not None and place < len(self.live.order) else recorded


def _same_delay(recorded: RetryScheduled, live: RetryScheduled, delays: Delays) -> bool:
    """Whether a recorded wait is one that today's policy could draw: waits vary by chance (Q6)."""
    between = delays(recorded.attempt - 2, recorded.failure)
    if between is None:
        return math.isclose(recorded.delay, live.delay, rel_tol=1e-9)
    least, most = between
    return least * (1 - 1e-9) <= recorded.delay <= most * (1 + 1e-9)
