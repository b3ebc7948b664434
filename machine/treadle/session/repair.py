"""Closing a log that ends inside a turn, as data to append (P4). Pure: nothing recorded changes, no tool is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field, frozen

from ..kernel.missing_results import missing_result
from ..kernel.pending import Inbox
from ..words.events import (
    AssistantMessageAdded,
    Event,
    InboxSpliced,
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

    def take(self, entry: Event) -> None:
        """Follow one recorded event."""
        data = entry.data
        match data:
            case InboxSpliced():
                self._spliced(data, entry.seq)
            case UserMessageAdded():
                self.claimed.pop(data.message.id, None)
                self.accepted.pop(data.message.id, None)
            case TurnStart():
                self.turn = data.turn
            case StepStart():
                self._enter(data)
            case StepEnd():
                self.step = None
            case AssistantMessageAdded():
                self.asked = [call.call_id for call in data.message.calls]
                self.called.clear()
            case ToolCallStarted():
                self.called.add(data.call_id)
            case ToolResultAdded():
                if data.call_id in self.asked:
                    self.asked.remove(data.call_id)
            case _:
                pass

    def _spliced(self, data: InboxSpliced, seq: int) -> None:
        """A removal without outcome is a claim, unless the message is put back (I3, I9)."""
        removed = self.inbox.fold(data, seq)
        if data.outcome is None:
            self.claimed.update({entry.message.id: entry.message for entry in removed})
        for message in data.inserted:
            self.claimed.pop(message.id, None)

    def _enter(self, data: StepStart) -> None:
        """What was entered is decided; what was claimed and left out is gone (T0, T2)."""
        amended = {message.id: message for message in data.amended}
        known = {**self.claimed, **amended}
        self.step = data.step
        self.accepted = {name: known[name] for name in data.accepted if name in known}
        self.claimed.clear()
        self.asked = []

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


@frozen
class LogEnd:
    """Where a log ends.

    Attributes:
        inbox: what is pending, passive all of it (I3).
        turn: the number of the last turn.
        closing: the data to append so that no turn is open; empty when none is (P4).
    """

    inbox: Inbox
    turn: int
    closing: list[Any]


def end_of_log(events: Sequence[Event]) -> LogEnd:
    """Read from a log what its agent goes on with, in one pass (I8, L4, P4).

    Missing tool results become error results, then accepted messages of the open step that are not recorded yet and
    claims that no step decided about become user messages, then step and turn end, ``interrupted``.

    Raises:
        SessionCorrupt: the inbox splices do not fold (I6).
    """
    start, state = _open_turn(events), _Turn()
    inbox, turn = state.inbox, 0
    for entry in events[:start]:
        data = entry.data
        if type(data) is InboxSpliced:
            inbox.fold(data, entry.seq)
        elif type(data) is TurnStart and data.turn > turn:
            turn = data.turn
    if start == len(events):
        return LogEnd(inbox, turn, [])
    for entry in events[start:]:
        state.take(entry)
    return LogEnd(inbox, max(turn, state.turn), state.closing())


def repair(events: Sequence[Event]) -> list[Any]:
    """The data to append to a log so that no turn is open; empty when none is (P4)."""
    return end_of_log(events).closing


def _open_turn(events: Sequence[Event]) -> int:
    """Where the turn began that is open at the end; the end when none is."""
    for seq in range(len(events) - 1, -1, -1):
        data = events[seq].data
        if type(data) is TurnEnd:
            break
        if type(data) is TurnStart:
            return seq
    return len(events)
