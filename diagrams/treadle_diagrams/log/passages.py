"""Reads the walked path out of a session log.

The log holds facts, not triggers, so what a log cannot tell is not drawn. What it tells for certain: turns, steps,
claims, and how each turn ended. What is concluded from it:

- An insertion while a turn is open is a ``WAKE`` when it went to next-turn, or to next-step from a user or an agent
  (steering and injection look alike in the log; what tools and hooks hand over is not counted).
- A turn that starts right behind an insertion was woken by it; one that starts without is a ``REPLAY`` (a latched
  wake), or ``CLOSE_TO_NEXT`` when the turn before ended by itself just then.
- A cancel is placed where its first trace is: an inbox that was cleared right before an interrupted answer, a call
  that was not run, or the turn's end; else these themselves.
  Whether it came inside a complete step or after it is told by the times of ``step/end`` and ``turn/end``.
- A failure behind a complete step happened in the next admission when results were owed to the model, in
  ``turn_stopping`` when none were.
- What leaves no fact is missing: maintenance, latches of a reservation, disposal of an agent that was idle. A turn
  that repair closed (``interrupted``) has no last row, and what a fork inherited is its parent's walk.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import zip_longest
from typing import Any, NamedTuple

from treadle import Aborted, Blocked, ByDisposal, Completed, EndReason, Errored, Event, Interrupted, MaxTokens
from treadle.kernel import lifecycle as lc
from treadle.models import AgentSource, UserSource
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    EndSeed,
    InboxSpliced,
    StepEnd,
    StepStart,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
)

from ..lifecycle.walk import Passage, Walk, walk_through
from .clock import steadied

_TOLD = (
    TurnStart,
    TurnEnd,
    StepStart,
    StepEnd,
    InboxSpliced,
    AssistantMessageAdded,
    AssistantAttempt,
    ToolResultAdded,
    EndSeed,
)
_NOT_RUN = {"ABORTED", "ABORTED_BEFORE_DISPATCH"}
_BROKEN_OFF = {"TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN"}
_BUSY = (lc.ADMISSION, lc.STEP, lc.TURN_STOPPING)


def walk_of(events: Iterable[Event]) -> Walk:
    """The walk of a session log, as far as the log tells it; the module says what is concluded and what is missing.

    Args:
        events: the log, from its beginning and in order. Events of plugins are passed over.
    """
    return walk_through(passages_of(events))


def passages_of(events: Iterable[Event]) -> tuple[Passage, ...]:
    """The transitions of a session log in order, with the times and seqs of the events that tell them."""
    return tuple(_read(events, inherited=False).passages)


class Clearing(NamedTuple):
    """Events in a row that cleared the inbox: the first and the last, and the time of the first."""

    first: int
    last: int
    time: int


class Reached(NamedTuple):
    """A state of the lifecycle that was reached with the event ``seq``, by the row of ``passage``.

    ``passage`` is ``None`` where the log does not tell the row: behind a turn that repair closed, or where a log
    begins in the middle.
    """

    seq: int
    state: lc.State
    passage: Passage | None = None


def states_of(events: Iterable[Event]) -> tuple[Reached, ...]:
    """The states that a session was in, in order, those that it inherited included; loops are told as well."""
    reader = _read(events, inherited=True)
    dests: dict[tuple[Enum, Enum], lc.State] = {(row.source, row.trigger): row.dest for row in lc.TABLE}
    told = [Reached(passage.seq or 0, dests[passage.state, passage.trigger], passage) for passage in reader.passages]
    return tuple(sorted([*told, *reader.jumps], key=lambda reached: reached.seq))


def _read(events: Iterable[Event], *, inherited: bool) -> _Reader:
    told = steadied([entry for entry in events if isinstance(entry.data, _TOLD)])
    ends = {entry.data.turn: entry.data.reason for entry in told if isinstance(entry.data, TurnEnd)}
    reader = _Reader(ends, inherited=inherited)
    for entry, following in zip_longest(told, told[1:]):
        reader.take(entry, following)
    return reader


def _is_claim(data: Any) -> bool:
    """Whether it is a claim of next-step: a pure deletion without outcome (I3)."""
    return isinstance(data, InboxSpliced) and data.target == "next-step" and _takes(data)


def _takes(data: InboxSpliced) -> bool:
    return bool(data.removed_count) and not data.inserted and data.outcome is None


class _Reader:
    """Follows a log with the lifecycle's states. ``ends`` tells ahead how each turn will end."""

    def __init__(self, ends: dict[int, EndReason], *, inherited: bool) -> None:
        self.ends = ends
        self.inherited = inherited
        self.passages: list[Passage] = []
        self.jumps: list[Reached] = []
        self.seq = 0
        self.state = lc.IDLE
        self.turn = 0
        self.claiming = False
        """Whether the claims that belong to the last transition may still follow."""
        self.arrived = False
        """Whether the event before was a delivery."""
        self.moving = False
        """Whether the event before took a message out to steer it."""
        self.waiting = 0
        """How many next-step entries are pending."""
        self.cleared: Clearing | None = None
        """The clearing of the inbox that the last events were."""
        self._fresh_step()

    def _fresh_step(self) -> None:
        self.answered = self.cut = self.called = self.concluded = False

    def _pass(self, trigger: lc.Trigger, time: int, seq: int | None = None) -> None:
        """Walk the row of ``trigger``; a log that no lifecycle wrote gives none."""
        if lc.LIFECYCLE.allows(self.state, trigger):
            self.passages.append(Passage(self.state, trigger, time, self.seq if seq is None else seq))
            lc.LIFECYCLE.fire(self, trigger)

    def _jump(self, state: lc.State) -> None:
        """Be in a state, whatever the log told."""
        if self.state is not state:
            self.state = state
            self.jumps.append(Reached(self.seq, state))

    def take(self, entry: Event, following: Event | None) -> None:
        """Take one event, knowing the one behind it."""
        data, time, self.seq = entry.data, entry.time, entry.seq
        if isinstance(data, InboxSpliced):
            self._spliced(data, time)
            return
        arrived, self.arrived, self.moving, self.claiming = self.arrived, False, False, False
        match data:
            case TurnStart():
                self._turn_start(data.turn, time, arrived=arrived)
            case TurnEnd():
                self._turn_end(data.reason, time, following)
            case StepStart():
                self._fresh_step()
                self._pass(lc.ENTER, time)
            case StepEnd():
                self._step_end(time, following)
            case EndSeed():
                if not self.inherited:
                    self.passages.clear()
            case _:
                self._progress(data, time)

    # --- turns --------------------------------------------------------------------------------------------------------

    def _turn_start(self, turn: int, time: int, *, arrived: bool) -> None:
        self.turn = turn
        if self.state is lc.IDLE:
            if not arrived:
                self._find_latch()
            self._pass(lc.WAKE if arrived else lc.REPLAY, time)
        self._jump(lc.ADMISSION)
        self.claiming = True

    def _find_latch(self) -> None:
        """A replay needs a wake that was latched during convergence: the last one came behind the cancel."""
        if [passage.trigger for passage in self.passages[-3:]] != [lc.WAKE, lc.CANCEL, lc.CONVERGE]:
            return
        wake, cancel, converge = self.passages[-3:]
        latched = wake._replace(state=lc.CANCEL_CONVERGENCE)
        self.passages[-3:] = [cancel._replace(time=wake.time, seq=wake.seq), latched, converge]

    def _turn_end(self, reason: EndReason, time: int, following: Event | None) -> None:
        match reason:
            case Aborted():
                self._cancelled(reason, time)
                self._pass(lc.DRAIN if self.state is lc.DISPOSAL else lc.CONVERGE, time)
            case Errored():
                self._pass(lc.FAIL, time)
            case Blocked():
                self._pass(lc.REFUSE, time)
            case Completed() | MaxTokens():
                goes_on = following is not None and isinstance(following.data, TurnStart)
                self._pass(lc.CLOSE_TO_NEXT if goes_on else lc.CLOSE, time)
                if goes_on:
                    return
            case _:
                pass
        if self.state is lc.DISPOSED:
            self.state = lc.IDLE  # what follows was written after a resume
        else:
            self._jump(lc.IDLE)

    def _cancelled(self, reason: EndReason | None, time: int) -> None:
        """The turn was aborted, at the latest now."""
        if isinstance(reason, Aborted) and self.state in _BUSY:
            trigger = lc.DISPOSE if isinstance(reason.reason, ByDisposal) else lc.CANCEL
            cleared = self.cleared
            if cleared is not None and cleared.last == self.seq - 1:
                self._pass(trigger, cleared.time, cleared.first)
            else:
                self._pass(trigger, time)

    # --- steps --------------------------------------------------------------------------------------------------------

    def _progress(self, data: Any, time: int) -> None:
        if isinstance(data, ToolResultAdded):
            self.called = True
            self.cut = self.cut or data.code in _BROKEN_OFF
            self.concluded = self.concluded or (data.concludes_turn and not data.is_error)
            stopped = data.code in _NOT_RUN
        else:
            self.answered = self.answered or isinstance(data, AssistantMessageAdded)
            stopped = bool(data.interrupted)
        if stopped:
            self._cancelled(self.ends.get(self.turn), time)

    def _step_end(self, time: int, following: Event | None) -> None:
        if self.state is not lc.STEP:
            return
        owes = self.called and not self.concluded
        if following is not None and self._ended_inside(following.data, owes=owes, pause=following.time - time):
            return
        goes_on = owes or (following is not None and _is_claim(following.data))
        self._pass(lc.CONTINUE if goes_on else lc.REST, time)
        self.claiming = True

    def _ended_inside(self, after: Any, *, owes: bool, pause: int) -> bool:
        """Whether what follows the step is the turn's end, and came to the step itself, not to what comes after it."""
        complete = self.answered and not self.cut
        match after:
            case TurnEnd(reason=Aborted()):
                return not complete or pause == 0
            case TurnEnd(reason=Errored() as reason):
                limited = reason.failure.code == "STEP_LIMIT" and (owes or self.waiting > 0)
                return not complete or limited
            case TurnEnd(reason=Interrupted()):
                return True
            case _:
                return False

    # --- the inbox ----------------------------------------------------------------------------------------------------

    def _spliced(self, data: InboxSpliced, time: int) -> None:
        steered, self.arrived, self.moving = self.moving, False, False
        if data.target == "next-step":
            self.waiting += len(data.inserted) - data.removed_count
        if data.outcome is not None and data.start == 0 and not data.inserted:
            follows = self.cleared is not None and self.cleared.last == self.seq - 1
            begun = self.cleared if follows and self.cleared else Clearing(self.seq, self.seq, time)
            self.cleared = begun._replace(last=self.seq)
        if _is_claim(data):
            if not self.claiming:
                self._pass(lc.OBJECT if self.state is lc.TURN_STOPPING else lc.EMPTY, time)
            self.claiming = data.target == "next-step"
        elif _takes(data):
            self.moving, self.claiming = not self.claiming, False
        elif not data.removed_count and not steered:
            self.claiming, self.arrived = False, True
            if self.state is not lc.IDLE and _may_wake(data):
                self._pass(lc.WAKE, time)
        else:
            self.claiming = False


def _may_wake(data: InboxSpliced) -> bool:
    sources = [message.source for message in data.inserted]
    return data.target == "next-turn" or any(isinstance(source, (UserSource, AgentSource)) for source in sources)
