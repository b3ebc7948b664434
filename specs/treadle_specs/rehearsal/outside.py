"""What of a recorded session came from outside: when it was stopped, and which of its messages woke it.

A log holds what became of a call, not the call. So that is read back here from what followed.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, frozen

from treadle import Aborted, ByDisposal, ByHook, ByUser, Cause, Event
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    InboxSpliced,
    StepEnd,
    ToolCallStarted,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
)

from .recording import Life

CUT_SHORT = frozenset({"ABORTED", "ABORTED_BEFORE_DISPATCH"})
"""The codes of results that stand for a body which a cancel ended or kept from starting (C4)."""


_REFUSED_CODES = frozenset({"DENIED", "NOT_APPROVED", "UNKNOWN_TOOL", "INVALID_ARGUMENTS"})


def cut_short(data: ToolResultAdded) -> bool:
    """Whether a result stands for a body that a cancel ended or kept from starting."""
    return (data.body.code if data.body is not None else data.code) in CUT_SHORT


AFTERMATH = 3
"""How many events behind a stopped turn still show when it was stopped: whether a turn begins by itself, and with what."""


def was_refused(data: object) -> bool:
    """Whether a result says that the body of its call was not run; of older logs the code tells."""
    return type(data) is ToolResultAdded and (data.refused or (data.is_error and data.code in _REFUSED_CODES))


@frozen
class Moment:
    """When a cancel is made: before the event ``at`` is due.

    Attributes:
        at: the number of the event.
        eager: right after the event before it was recorded, instead of once the agent is at rest.
    """

    at: int
    eager: bool = False


@define(eq=False)
class Stop:
    """One cancel of a turn.

    Attributes:
        turn_end: the number of the event that ends the turn.
        cause: the recorded one.
        moments: when it may have been made, the likeliest first.
        chosen: which of them is tried.
        made: it was made in this run.
    """

    turn_end: int
    cause: Cause
    moments: tuple[Moment, ...]
    chosen: int = 0
    made: bool = False

    @property
    def moment(self) -> Moment:
        """The moment that is tried."""
        return self.moments[self.chosen]

    def covers(self, seq: int) -> bool:
        """Whether a difference at an event may come from the wrong moment."""
        return min([one.at for one in self.moments]) <= seq <= self.turn_end + AFTERMATH


def stops_of(events: Sequence[Event], life: Life) -> list[Stop]:
    """The cancels within a life, in order."""
    found: list[Stop] = []
    for seq in range(life.start, life.end):
        data = events[seq].data
        if type(data) is TurnEnd and isinstance(data.reason, Aborted):
            moments = _moments(events, seq, life, data.reason.reason)
            if isinstance(data.reason.reason, ByHook):  # while the agent is not at rest it is a hook that stops it
                moments = moments[:1]
            found.append(Stop(seq, data.reason.reason, moments))
    broken_off = _broken_off(events, life)
    return [*found, broken_off] if broken_off is not None else found


def _broken_off(events: Sequence[Event], life: Life) -> Stop | None:
    """The cancel of a turn that the process did not live to end; its cause was not recorded any more."""
    last = events[life.end - 1].data if life.end > life.start else None
    if not life.killed or last is None or type(last) is TurnEnd:
        return None
    moments = _moments(events, life.end, life, ByUser())
    at = moments[0].at
    kinds = (AssistantMessageAdded, AssistantAttempt, ToolResultAdded, ToolCallStarted)
    signs = [seq for seq in range(at, life.end) if type(events[seq].data) in kinds and _is_of_a_cancel(events, seq)]
    return Stop(life.end, ByUser(), moments) if signs else None


def _moments(events: Sequence[Event], end: int, life: Life, cause: Cause) -> tuple[Moment, ...]:
    first = end
    while first - 1 >= life.start and _may_follow_a_cancel(events, first - 1):
        first -= 1
    region = range(first, min(end + 1, life.end))
    sure = next((seq for seq in region if _is_of_a_cancel(events, seq)), None)
    if sure is None:
        sure = next((seq for seq in region if type(events[seq].data) is StepEnd), None)
    if sure is None:
        sure = next((seq for seq in region if type(events[seq].data) is UserMessageAdded), end)
    found: list[Moment] = []
    if end + 1 < life.end and type(events[end + 1].data) is TurnStart:  # it was woken during the convergence (D4)
        found += [Moment(seq) for seq in reversed(region) if is_insertion(events[seq].data)]
    for seq in (sure, *range(sure + 1, region.stop), *range(sure - 1, first - 1, -1)):
        found += [moment for moment in (Moment(seq), Moment(seq, eager=True)) if moment not in found]
    if isinstance(cause, ByDisposal):  # nothing is accepted any more (L9)
        last = max([seq for seq in region if is_insertion(events[seq].data)], default=-1)
        found = [moment for moment in found if moment.at > last]
    return tuple(found)


def _may_follow_a_cancel(events: Sequence[Event], seq: int) -> bool:
    data = events[seq].data
    match data:
        case StepEnd() | ToolResultAdded() | UserMessageAdded():
            return True
        case AssistantMessageAdded() | AssistantAttempt():
            return data.interrupted
        case InboxSpliced():
            return data.outcome is not None or is_insertion(data)
        case ToolCallStarted():
            return _is_dropped(events, seq) or (seq + 1 < len(events) and was_refused(events[seq + 1].data))
        case _:
            return False


def _is_of_a_cancel(events: Sequence[Event], seq: int) -> bool:
    data = events[seq].data
    match data:
        case AssistantMessageAdded() | AssistantAttempt():
            return data.interrupted
        case InboxSpliced():
            return data.outcome is not None
        case ToolResultAdded():
            return cut_short(data)
        case ToolCallStarted():
            return _is_dropped(events, seq)
        case _:
            return False


def _is_dropped(events: Sequence[Event], seq: int) -> bool:
    """Whether a call was not started any more: its stand-in follows at once."""
    after = events[seq + 1].data if seq + 1 < len(events) else None
    return (
        type(after) is ToolResultAdded
        and after.call_id == events[seq].data.call_id
        and after.code == "ABORTED_BEFORE_DISPATCH"
    )


# --- messages -----------------------------------------------------------------------------------------------------------


def is_insertion(data: object) -> bool:
    """Whether an event says that messages entered the inbox and none left it."""
    return type(data) is InboxSpliced and bool(data.inserted) and not data.removed_count


def comes_as_the_turn_ends(events: Sequence[Event], seq: int) -> bool:
    """Whether a message arrived when nothing was owed any more and the hooks were asked that may object (T4)."""
    before = events[seq - 1].data if seq else None
    if type(before) is AssistantMessageAdded:
        return not before.message.calls
    return type(before) is StepEnd


def keeps_inbox(events: Sequence[Event], stop: Stop, at: int, *, pending: bool) -> bool:
    """Whether a cancel left the inbox alone; ``pending``: there was something in it."""
    for entry in events[at : stop.turn_end]:
        data = entry.data
        if type(data) is InboxSpliced and data.outcome is not None:
            return False
        if type(data) is UserMessageAdded and not _in_a_step(events, at):
            return True
    return pending


def _in_a_step(events: Sequence[Event], at: int) -> bool:
    """Whether the turn that is open before an event has entered a step."""
    tags = [entry.type for entry in reversed(events[:at])]
    return next((tag for tag in tags if tag in ("step/start", "turn/start")), None) == "step/start"


@frozen
class Waking:
    """How a delivery was meant.

    Attributes:
        wakes: it may start the driver, or force a step.
        held: its wake waited for something that the log does not tell, as a maintenance task or a reservation.
    """

    wakes: bool
    held: bool = False


def waking_of(events: Sequence[Event], seq: int, life: Life, *, idle: bool, cancelled: bool) -> Waking:
    """Read back from what followed whether a delivered message woke the agent (D1, D4, D6)."""
    data = events[seq].data
    assert type(data) is InboxSpliced
    if idle:
        return _waking_at_rest(events, seq, life)
    end = next((at for at in range(seq, life.end) if type(events[at].data) is TurnEnd), life.end - 1)
    if cancelled:
        latched = end + 1 < life.end and type(events[end + 1].data) is TurnStart
        return Waking(latched and data.target == "next-turn")
    if data.target == "next-turn":
        return Waking(wakes=True)
    boundary = next((at for at in range(seq, end) if type(events[at].data) is StepEnd), end)
    return Waking(boundary < end and _claims(events[boundary + 1].data))


def _claims(data: object) -> bool:
    return (
        type(data) is InboxSpliced
        and data.target == "next-step"
        and bool(data.removed_count)
        and data.outcome is None
        and not data.inserted
    )


def _waking_at_rest(events: Sequence[Event], seq: int, life: Life) -> Waking:
    if seq + 1 < life.end and type(events[seq + 1].data) is TurnStart:
        return Waking(wakes=True)
    start = next((at for at in range(seq + 1, life.end) if type(events[at].data) is TurnStart), None)
    if start is None or is_insertion(events[start - 1].data):
        return Waking(wakes=False)
    return Waking(wakes=True, held=True)
