"""Closing a log that ends inside a turn, as data to append (P4). Pure: nothing recorded changes, no tool is run."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import define, field, frozen

from ..kernel.missing_results import missing_result
from ..kernel.pending import Inbox
from ..words.events import (
    AssistantMessageAdded,
    Event,
    InboxSpliced,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    ToolCallStarted,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
)
from ..words.messages import UserMessage
from ..words.reasons import Interrupted
from .store import TornTail


@frozen
class Recovery:
    """What opening a session had to mend.

    Attributes:
        torn: the torn tail that was cut off (P3).
        appended: how many events closed the turn that was open (P4).
    """

    torn: TornTail | None = None
    appended: int = 0


@define
class _Turn:
    """What the open turn still owes the log; it is told of the events from the turn's start on."""

    inbox: Inbox = field(factory=Inbox)
    turn: int = 0
    step: int | None = None
    claimed: dict[str, UserMessage] = field(factory=lambda: {})
    accepted: dict[str, UserMessage] = field(factory=lambda: {})
    asked: list[str] = field(factory=lambda: [])
    called: set[str] = field(factory=lambda: set())

    def spliced(self, data: InboxSpliced, seq: int) -> None:
        """A removal without outcome is a claim, unless the message is put back (I3, I9)."""
        removed = self.inbox.fold(data, seq)
        if data.outcome is None:
            self.claimed.update({entry.message.id: entry.message for entry in removed})
        for message in data.inserted:
            self.claimed.pop(message.id, None)

    def recorded(self, data: UserMessageAdded, _: int) -> None:
        """A message is in the history."""
        self.claimed.pop(data.message.id, None)
        self.accepted.pop(data.message.id, None)

    def enter(self, data: StepStart, _: int) -> None:
        """What was entered is decided; what was claimed and left out is gone (T0, T2)."""
        amended = {message.id: message for message in data.amended}
        known = {**self.claimed, **amended}
        self.step = data.step
        self.accepted = {name: known[name] for name in data.accepted if name in known}
        self.claimed.clear()
        self.asked = []

    def leave(self, _: StepEnd, __: int) -> None:
        """The step ended."""
        self.step = None

    def asks(self, data: AssistantMessageAdded, _: int) -> None:
        """An answer asks for tools, or for none."""
        self.asked = [call.call_id for call in data.message.calls]
        self.called.clear()

    def calls(self, data: ToolCallStarted, _: int) -> None:
        """A call was dispatched."""
        self.called.add(data.call_id)

    def settles(self, data: ToolResultAdded, _: int) -> None:
        """A call has its result."""
        if data.call_id in self.asked:
            self.asked.remove(data.call_id)

    def closing(self) -> list[Any]:
        """The data that closes the turn (P4)."""
        out: list[Any] = []
        if self.step is not None:
            for call in self.asked:
                code = "TOOL_OUTCOME_UNKNOWN" if call in self.called else "TOOL_NOT_STARTED"
                out.append(missing_result(call, code))
            out += [UserMessageAdded(message) for message in self.accepted.values()]
            out.append(StepEnd(self.turn, self.step))
        out += [UserMessageAdded(message) for message in self.claimed.values()]
        out.append(TurnEnd(self.turn, Interrupted()))
        return out


_TAKERS: dict[type, Callable[[_Turn, Any, int], None]] = {
    InboxSpliced: _Turn.spliced,
    UserMessageAdded: _Turn.recorded,
    StepStart: _Turn.enter,
    StepEnd: _Turn.leave,
    AssistantMessageAdded: _Turn.asks,
    ToolCallStarted: _Turn.calls,
    ToolResultAdded: _Turn.settles,
}


_OF_THE_OPEN_TURN = frozenset(_TAKERS) - {InboxSpliced}
"""Events that say nothing once their turn has ended."""


@frozen
class LogEnd:
    """Where a log ends.

    Attributes:
        inbox: what is pending, passive all of it (I3).
        turn: the number of the last turn.
        closing: the data to append so that no turn is open; empty when none is (P4).
        header: the latest request header (Q2).
        context: the latest request context (Q2).
    """

    inbox: Inbox
    turn: int
    closing: list[Any]
    header: RequestHeader | None = None
    context: RequestContext | None = None


class EndOfLog:
    """Follows a log, event by event, and tells where it ends.

    Attributes:
        inbox: what is pending.
        starts, ends: the numbers of the events that open and end turns.
    """

    __slots__ = ("_context", "_header", "_open", "_state", "_turn", "ends", "inbox", "starts")

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.starts, self.ends = array("Q"), array("Q")
        self._turn = 0
        self._header: RequestHeader | None = None
        self._context: RequestContext | None = None
        self._state = _Turn(self.inbox)
        self._open = False

    def begin(self, turn: int, header: RequestHeader | None, context: RequestContext | None) -> None:
        """Begin outside a turn, after the turn of that number, with what requests were last made of."""
        self._turn, self._header, self._context = turn, header, context

    def take(self, entry: Event) -> None:
        """Take the next event.

        Raises:
            SessionCorrupt: it is a splice of the inbox that does not fold (I6).
        """
        data = entry.data
        kind: type[object] = data.__class__
        taker = _TAKERS.get(kind)
        if taker is not None:
            if self._open:
                taker(self._state, data, entry.seq)
            elif kind is InboxSpliced:
                self.inbox.fold(data, entry.seq)
        elif kind is TurnStart:
            self._state = _Turn(self.inbox, data.turn)
            self._open = True
            self._turn = max(self._turn, data.turn)
            self.starts.append(entry.seq)
        elif kind is TurnEnd:
            self._open = False
            self.ends.append(entry.seq)
        elif kind is RequestHeader:
            self._header = data
        elif kind is RequestContext:
            self._context = data

    def take_all(self, events: Sequence[Event]) -> None:
        """Take the next events. What lies in turns that end among them is looked at for the inbox only.

        Raises:
            SessionCorrupt: see ``take``.
        """
        open_from = len(events)
        for index in range(len(events) - 1, -1, -1):
            kind: type[object] = events[index].data.__class__
            if kind is TurnEnd:
                break
            if kind is TurnStart or (not index and self._open):
                open_from = index
                break
        self._open, was_open = False, self._open
        for entry in events[:open_from]:
            if type(entry.data) not in _OF_THE_OPEN_TURN:
                self.take(entry)
                self._open = False
        self._open = was_open if not open_from else False
        for entry in events[open_from:]:
            self.take(entry)

    def end(self) -> LogEnd:
        """Where the log ends, if this was the last event."""
        closing = self._state.closing() if self._open else []
        return LogEnd(self.inbox, self._turn, closing, self._header, self._context)

    def rest_before(self, seq: int) -> int:
        """After how many of the first ``seq`` events no turn was open last: a fork can begin there (S5)."""
        closed = bisect_left(self.ends, seq)
        ended = self.ends[closed - 1] if closed else -1
        first = bisect_left(self.starts, max(ended, 0))
        return seq if first == len(self.starts) else min(seq, int(self.starts[first]))


def end_of_log(events: Iterable[Event]) -> LogEnd:
    """Read from a log what its agent goes on with, in one pass (I8, L4, P4).

    Missing tool results become error results, then accepted messages of the open step that are not recorded yet and
    claims that no step decided about become user messages, then step and turn end, ``interrupted``.

    Raises:
        SessionCorrupt: the inbox splices do not fold (I6).
    """
    end = EndOfLog()
    for entry in events:
        end.take(entry)
    return end.end()


def repair(events: Iterable[Event]) -> list[Any]:
    """The data to append to a log so that no turn is open; empty when none is (P4)."""
    return end_of_log(events).closing


def at_rest(events: Sequence[Event]) -> int:
    """After how many events no turn was open last: all of them, or those before the turn that is open."""
    for entry in reversed(events):
        if type(entry.data) is TurnEnd:
            break
        if type(entry.data) is TurnStart:
            return entry.seq
    return len(events)
