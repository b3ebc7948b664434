"""The fold of a log into what it used."""

from __future__ import annotations

import msgspec

from ...models import Usage
from ...session import (
    AssistantAttempt,
    AssistantMessageAdded,
    EndSeed,
    Event,
    Interrupted,
    Projection,
    Replace,
    RequestHeader,
    Session,
    StepStart,
    ToolCallStarted,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
)
from .charge import UNKNOWN, Charge, SubAgentUsage, charge_of_message
from .guesses import answer_size, node_size
from .spent import Spent

PER_TOKEN = 4
"""Characters per token of what nobody has counted yet."""


class UsageLedger(msgspec.Struct, omit_defaults=True):
    """What a session used so far. What a fork inherited was used by its parent, and is not counted.

    It is a struct of plain values, so that it can be kept as JSON and gone on with.

    Attributes:
        own: of the session's own attempts.
        below: of the attempts of agents below it.
        turn: of the open turn's own attempts, or of the last one's.
        turn_below: of those of agents below it during that turn.
        number: that turn's number, 0 before the first.
        turn_open: whether it is open.
        step_counted: whether the open step has had an attempt.
        seconds: how long the turns that have ended took, by the log's clock.
        last: the latest attempt, as it was charged.
    """

    own: Spent = msgspec.field(default_factory=Spent)
    below: Spent = msgspec.field(default_factory=Spent)
    turn: Spent = msgspec.field(default_factory=Spent)
    turn_below: Spent = msgspec.field(default_factory=Spent)
    number: int = 0
    turn_open: bool = False
    step_counted: bool = False
    seconds: float = 0.0
    last: Charge | None = None
    _model: str = UNKNOWN
    _began: int = 0
    _active: int = 0
    _nodes: dict[int, int] = msgspec.field(default_factory=dict[int, int])
    _size: int = 0
    _input: tuple[int, int] = (0, 0)
    _output: tuple[int, int] = (1, PER_TOKEN)

    @property
    def tree(self) -> Spent:
        """Of the session and all below it."""
        return self.own.plus(self.below)

    @property
    def whole_turn(self) -> Spent:
        """Of the turn, those below included."""
        return self.turn.plus(self.turn_below)

    @property
    def model(self) -> str:
        """The model of the requests, as they name it."""
        return self._model

    @property
    def next_input(self) -> int:
        """How many tokens the next request is estimated to take: what the last one did, and what came since."""
        return self._input_of(self._size)

    def output_of(self, size: int) -> int:
        """How many tokens an answer of so many characters is estimated to be, by the reports so far."""
        tokens, known = self._output
        return round(size * tokens / known)

    # --- the fold -----------------------------------------------------------------------------------------------------

    def take(self, entry: Event) -> None:
        """Count one more event."""
        data = entry.data
        if entry.surface_op is not None:
            self._surface(entry)
        if isinstance(data, (AssistantMessageAdded, AssistantAttempt)):
            self._active = entry.time
            self._attempt(entry)
        elif type(data) is SubAgentUsage:
            self._active = entry.time
            self.below.add(data.charge)
            if self.turn_open:
                self.turn_below.add(data.charge)
        elif type(data) is UserMessageAdded:
            charge = charge_of_message(data.message)
            if charge is not None:
                self._charge(charge)
        elif type(data) is RequestHeader:
            self._model = data.config.model or UNKNOWN
        elif type(data) is EndSeed:
            self._inherited()
        else:
            self._bound(entry)

    def _bound(self, entry: Event) -> None:
        """A turn or a step begins or ends, or a call begins."""
        data = entry.data
        if type(data) is StepStart:
            self.step_counted = False
            self._active = entry.time
        elif type(data) is ToolCallStarted:
            self._active = entry.time
        elif type(data) is TurnStart:
            self.turn, self.turn_below = Spent(), Spent()
            self.number, self.turn_open = data.turn, True
            self._began = self._active = entry.time
        elif type(data) is TurnEnd:
            self.turn_open = False
            # Repair ends a turn when the session is resumed, which may be weeks after the crash.
            until = self._active if type(data.reason) is Interrupted else entry.time
            self.seconds += max(0, until - self._began) / 1000

    def _attempt(self, entry: Event) -> None:
        data: AssistantMessageAdded | AssistantAttempt = entry.data
        usage, said = data.usage, answer_size(data)
        asked = self._size - self._nodes.get(entry.seq, 0)  # its answer was no part of what it was asked
        guessed: Usage | None = None
        if usage is None:
            guessed = Usage(input_tokens=self._input_of(asked), output_tokens=self.output_of(said))
        else:
            if usage.input_tokens:
                self._input = (usage.input_tokens, asked)
            if usage.output_tokens and said:
                self._output = (usage.output_tokens, said)
        outcome = "interrupted" if data.interrupted else "answered"
        if type(data) is AssistantAttempt and not data.interrupted:
            outcome = "failed"
        self._charge(Charge(self._model, outcome, usage, guessed, not self.step_counted))
        self.step_counted = True

    def _charge(self, charge: Charge) -> None:
        self.last = charge
        self.own.add(charge)
        if self.turn_open:
            self.turn.add(charge)

    def _input_of(self, size: int) -> int:
        tokens, then = self._input
        if size < then:  # cut since
            return round(tokens * size / then)
        return tokens + round((size - then) / PER_TOKEN)

    def _surface(self, entry: Event) -> None:
        op = entry.surface_op
        if type(op) is Replace:
            for seq in entry.source_event_seqs or ():
                self._size -= self._nodes.pop(seq, 0)
        self._nodes[entry.seq] = size = node_size(entry.data)
        self._size += size

    def _inherited(self) -> None:
        self.own, self.below, self.turn, self.turn_below = Spent(), Spent(), Spent(), Spent()
        self.seconds = 0.0


def _take(ledger: UsageLedger, entry: Event) -> UsageLedger:
    ledger.take(entry)
    return ledger


def charged(session: Session, entry: Event) -> Charge | None:
    """What the latest event of a live session was charged, ``None`` where it was nothing."""
    data = entry.data
    if isinstance(data, (AssistantMessageAdded, AssistantAttempt)):
        return USAGE.of(session).last
    return charge_of_message(data.message) if type(data) is UserMessageAdded else None


USAGE: Projection[UsageLedger] = Projection("usage", UsageLedger, _take)
"""What a session used: ``USAGE.of(session)`` live, ``USAGE.over(events)`` of a cold log (S9)."""
