"""What took time in a session: turns, steps, attempts, tools, waits before a retry, cancellations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from attrs import define, field

from treadle import Event
from treadle.kernel.lifecycle import CANCEL_CONVERGENCE, DISPOSAL
from treadle.printable import call_text
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    InboxSpliced,
    RetryScheduled,
    RetryStarted,
    StepEnd,
    StepStart,
    ToolCallStarted,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
)

from .clock import steadied
from .letters import Mark
from .passages import Reached, states_of
from .phrases import tag_of
from .transcript import began_of

Kind = Literal["turn", "step", "attempt", "tool", "retry", "cancel"]


@define(eq=False)
class Span:
    """One thing that took time.

    Attributes:
        kind: what it is.
        label: what it is called.
        begin: where it began. An attempt begins with the last event before it: its request is sent right after.
        end: where it ended; ``None`` while the log does not tell.
        turn: the turn it belongs to.
        outcome: how it ended: a turn's reason, a result's code, ``interrupted``, …; empty when it went well.
        first: when the first piece of an attempt arrived, in milliseconds.
    """

    kind: Kind
    label: str
    begin: Mark
    end: Mark | None = None
    turn: int | None = None
    outcome: str = ""
    first: int | None = None


def spans_of(events: Iterable[Event], *, attempting: bool = False) -> list[Span]:
    """The spans of a log, in the order in which they began.

    Args:
        events: the log, or its end from the beginning of a turn on.
        attempting: whether the model is being asked at its end: a log tells of an attempt once it is over.
    """
    events = steadied(events)
    reader = _Reader()
    for entry in events:
        reader.take(entry)
    if attempting and reader.step is not None:
        reader.attempt()
    spans = [*reader.spans, *_cancels(events, states_of(events))]
    return sorted(spans, key=lambda span: (span.begin.seq, _DEPTH[span.kind]))


_DEPTH = {"turn": 0, "step": 1, "attempt": 2, "tool": 3, "retry": 4, "cancel": 5}


@define(eq=False)
class _Reader:
    spans: list[Span] = field(factory=list[Span])
    turn: Span | None = None
    step: Span | None = None
    retry: Span | None = None
    calls: dict[str, Span] = field(factory=dict[str, Span])
    sent: Mark = field(factory=lambda: Mark(0, 0))
    """The last event before a request is sent."""
    attempts: int = 0

    def take(self, entry: Event) -> None:
        at = Mark(entry.seq, entry.time)
        match entry.data:
            case TurnStart(turn=turn):
                self.step, self.calls = None, {}
                self.turn = self._open("turn", f"turn {turn}", at, turn)
            case TurnEnd() as data:
                reason = tag_of(data.reason)
                self._close(self.turn, at, "" if reason == "completed" else reason)
                self.turn = None
            case StepStart() as data:
                self.attempts = 0
                self.step = self._open("step", f"step {data.step}", at, data.turn)
            case StepEnd():
                self._close(self.step, at)
                self._close(self.retry, at)
                self.step = self.retry = None
            case _:
                self._inside(entry, at)
        if not isinstance(entry.data, (InboxSpliced, ToolCallStarted, ToolResultAdded)):
            self.sent = at

    def _inside(self, entry: Event, at: Mark) -> None:
        match entry.data:
            case AssistantMessageAdded() | AssistantAttempt() as data:
                self._attempt(data, at)
            case ToolCallStarted() as data:
                self.calls[data.call_id] = self._open("tool", call_text(data.name, data.arguments, 80), at)
            case ToolResultAdded() as data:
                self._close(self.calls.pop(data.call_id, None), at, (data.code or "error") if data.is_error else "")
            case RetryScheduled() as data:
                self.retry = self._open("retry", f"wait {data.delay:.1f} s", at)
            case RetryStarted():
                self._close(self.retry, at)
                self.retry = None
            case _:
                pass

    def attempt(self) -> Span:
        """An attempt was begun after the last event that can have preceded its request."""
        self.attempts += 1
        return self._open("attempt", f"attempt {self.attempts}" if self.attempts > 1 else "model", self.sent)

    def _attempt(self, data: AssistantMessageAdded | AssistantAttempt, at: Mark) -> None:
        span = self.attempt()
        began = began_of(data.stream)
        span.first = None if began is None else max(self.sent.time, min(began, at.time))
        if data.interrupted:
            outcome = "interrupted"
        elif isinstance(data, AssistantAttempt):
            failure = data.finish.failure if data.finish is not None else None
            outcome = failure.code if failure is not None else "failed"
        else:
            outcome = ""
        self._close(span, at, outcome)

    def _open(self, kind: Kind, label: str, begin: Mark, turn: int | None = None) -> Span:
        if turn is None and self.turn is not None:
            turn = self.turn.turn
        span = Span(kind, label, begin, turn=turn)
        self.spans.append(span)
        return span

    def _close(self, span: Span | None, end: Mark, outcome: str = "") -> None:
        if span is not None:
            span.end, span.outcome = end, outcome


def _cancels(events: Sequence[Event], reached: Iterable[Reached]) -> list[Span]:
    """From the first trace of each cancel to the end of its convergence."""
    times = {entry.seq: entry.time for entry in events}
    turns = open_turns_of(events)
    spans: list[Span] = []
    opened: Span | None = None
    for at in reached:
        converging = at.state in (CANCEL_CONVERGENCE, DISPOSAL)
        mark = Mark(at.seq, times.get(at.seq, 0))
        if converging and opened is None:
            opened = Span("cancel", "converging", mark, turn=turns.get(at.seq))
            spans.append(opened)
        elif not converging and opened is not None:
            opened.end = mark
            opened = None
    return spans


def open_turns_of(events: Iterable[Event]) -> dict[int, int]:
    """The turn that is open at each event that lies in one, by seq."""
    turns: dict[int, int] = {}
    current: int | None = None
    for entry in events:
        if isinstance(entry.data, TurnStart):
            current = entry.data.turn
        if current is not None:
            turns[entry.seq] = current
        if isinstance(entry.data, TurnEnd):
            current = None
    return turns
