"""The state of one agent, and the pieces that claim, record and settle: what the verbs of the lifecycle are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, unique
from typing import Any, Protocol

from attrs import define, field

from ..errors import InvalidTrigger
from ..words.events import InboxSpliced, Target, ToolCallStarted, TurnEnd, UserMessageAdded
from ..words.failures import Failure
from ..words.messages import UserMessage
from ..words.reasons import Cause, EndReason
from .effects import Admitted, Begin, Claimed, Effect, Inserted, Operation, Publish, Record, Rejected, Settle
from .missing_results import missing_result
from .pending import NEXT_STEP, Entry, Inbox
from .schedule import PENDING, REFUSED, Schedule

DEFAULT_POOL = 10
"""How many parallel tool calls run at once unless told otherwise (K4)."""


@unique
class State(Enum):
    """Where an agent is in its life."""

    IDLE = "idle"
    ADMISSION = "admission"
    STEP = "step"
    TURN_STOPPING = "turn_stopping"
    CANCEL_CONVERGENCE = "cancel_convergence"
    MAINTENANCE = "maintenance"
    DISPOSAL = "disposal"
    DISPOSED = "disposed"

    __hash__ = object.__hash__


@unique
class Trigger(Enum):
    """What can happen to an agent, refined so that each leads to one state only."""

    WAKE = "wake"
    LATCH = "latch"
    REPLAY = "replay"
    ENTER = "enter"
    REFUSE = "refuse"
    EMPTY = "empty"
    CONTINUE = "continue"
    REST = "rest"
    OBJECT = "object"
    CLOSE_TO_NEXT = "close_to_next"
    CLOSE = "close"
    FAIL = "fail"
    CANCEL = "cancel"
    CONVERGE = "converge"
    MAINTAIN = "maintain"
    RELEASE = "release"
    RELEASE_TO_NEXT = "release_to_next"
    DISPOSE = "dispose"
    DRAIN = "drain"

    __hash__ = object.__hash__


INITIAL = State.IDLE
_NONE: frozenset[str] = frozenset()
_WAKE, _MAINTAIN, _CANCEL = Trigger.WAKE, Trigger.MAINTAIN, Trigger.CANCEL

Verb = Callable[["KernelState"], None]
"""What a row of the lifecycle has the kernel do."""


class TakenRow(Protocol):
    """What the lifecycle gives back for a transition that was made."""

    @property
    def verbs(self) -> tuple[Verb, ...]:
        """What it has the kernel do, in order."""
        ...


class Table(Protocol):
    """What the state asks of its lifecycle. The table itself stands above: its rows name verbs, and verbs know the state."""

    @property
    def allowed(self) -> Mapping[State, frozenset[Trigger]]:
        """The triggers that the table lists for each state."""
        ...

    def fire(self, model: KernelState, trigger: Trigger) -> TakenRow:
        """Move ``model`` along its row."""
        ...


@define(eq=False)
class KernelState:
    """All that the kernel knows of one agent. It is changed by inputs only, through ``Kernel.receive``.

    Attributes:
        lifecycle: the table in use.
        max_steps: steps a turn may have, ``None`` for no bound (T11).
        pool: parallel tool calls that may run at once (K4).
        recorded: ids of the user messages in the session's history (I1); a dictionary, as ``Session.call_ids``.
        state: where in the lifecycle the agent is.
        turn: number of the open or last turn (L4).
        step: number of the last step entered in the open turn.
        held: creation is not complete: the next claim waits (O0).
        reserved: admission is reserved: the next claim waits (D8).
        cause: why the activity is being cancelled, ``None`` while it is not (C2).
        owed: the operation whose outcome is the next input, ``PROCEED`` between two commits, or ``None`` (L7).
        out: the effects of the input that is being taken.
    """

    lifecycle: Table
    max_steps: int | None = None
    pool: int = DEFAULT_POOL
    recorded: dict[str, None] = field(factory=lambda: {})
    inbox: Inbox = field(factory=Inbox)
    state: State = INITIAL
    turn: int = 0
    step: int = 0
    turn_open: bool = False
    step_open: bool = False
    running: bool = False
    latched: bool = False
    reserved: bool = False
    held: bool = False
    cause: Cause | None = None
    keep: bool = False
    truncated: bool = False
    series: bool = False
    owes: bool = False
    attempt: int = 0
    owed: Operation | str | None = None
    claimed: tuple[UserMessage, ...] = ()
    accepted: tuple[UserMessage, ...] = ()
    amended: tuple[UserMessage, ...] = ()
    kept: tuple[UserMessage, ...] = ()
    detail: str | None = None
    turn_ids: frozenset[str] = _NONE
    schedule: Schedule | None = None
    failure: tuple[Failure, Any, int] | None = None
    last_reason: EndReason | None = None
    out: list[Effect] = field(factory=lambda: [])

    # --- what may be read ---------------------------------------------------------------------------------------------

    def allows(self, trigger: Trigger) -> bool:
        """Whether the table lists ``trigger`` for the present state."""
        return trigger in self.lifecycle.allowed[self.state]

    @property
    def gone(self) -> bool:
        """Whether the agent is in disposal or disposed: nothing is accepted (L9)."""
        return _WAKE not in self.lifecycle.allowed[self.state]

    @property
    def holds_back(self) -> bool:
        """Whether the next claim is held back, by creation or a reservation (O0, D8)."""
        return self.held or self.reserved

    @property
    def poised(self) -> bool:
        """Whether a latched wake is about to be replayed (L6)."""
        return self.latched and self.inbox.can_use_wake

    @property
    def truly_idle(self) -> bool:
        """Whether maintenance or a reservation may begin: idle, nothing held back, no replay due (M1, D8)."""
        return self.allows(_MAINTAIN) and not self.holds_back and not self.poised

    @property
    def quiet(self) -> bool:
        """Whether nothing is active and nothing will start by itself (L6)."""
        return self.truly_idle or (self.gone and self.owed is None)

    @property
    def accepts_next_step(self) -> bool:
        """Whether a next-step delivery would enter the open turn (D8)."""
        return self.turn_open and self.allows(_CANCEL)

    def taken(self, message_id: str) -> bool:
        """Whether an id is pending, claimed by the open turn, or recorded (I1)."""
        return message_id in self.inbox.ids or message_id in self.turn_ids or message_id in self.recorded

    # --- claiming -----------------------------------------------------------------------------------------------------

    def insert(self, target: Target, messages: tuple[UserMessage, ...], waking: bool) -> None:
        """Put messages at the end of a list, recorded and told (I3, I4)."""
        inbox = self.inbox
        pending = inbox.next_step if target == NEXT_STEP else inbox.next_turn
        self.out.append(Record(InboxSpliced(target, len(pending), 0, messages)))
        for message in messages:
            pending.append(Entry(message, waking))
            inbox.ids[message.id] = target
            self.out.append(Publish(Inserted(message)))

    def claim(self, target: Target, count: int) -> tuple[UserMessage, ...]:
        """Take the first ``count`` entries of a list for the open turn: a deletion without outcome (I3, I4, I5)."""
        if not count:
            return ()
        inbox = self.inbox
        pending = inbox.next_step if target == NEXT_STEP else inbox.next_turn
        messages = tuple([entry.message for entry in pending[:count]])
        del pending[:count]
        self.claimed += messages
        self.out.append(Record(InboxSpliced(target, 0, count)))
        for message in messages:
            del inbox.ids[message.id]
            self.turn_ids |= {message.id}
            self.out.append(Publish(Claimed(message, self.turn)))
        return messages

    # --- recording and settling ---------------------------------------------------------------------------------------

    def begin(self, operation: Operation) -> None:
        """Owe the outcome of an operation (L7)."""
        if self.owed is not None:
            raise InvalidTrigger(f"{operation} would be a second operation beside {self.owed} (L7)")
        self.owed = operation
        self.out.append(Begin(operation))

    def record_message(self, message: UserMessage, fate: Admitted) -> None:
        """A user message enters the history (N2)."""
        self.recorded[message.id] = None
        self.out.append(Record(UserMessageAdded(message)))
        self.out.append(Settle(message.id, fate))

    def admit_accepted(self) -> None:
        """The accepted batch enters the history, in order (T1)."""
        for message in self.accepted:
            self.record_message(message, Admitted(self.turn, self.step))
        self.accepted = ()

    def settle_accepted(self) -> None:
        """What a step accepted but has not recorded is kept, unless a cancel ends it (T12, C6)."""
        if self.cause is None or self.keep:
            self.admit_accepted()
        for message in self.accepted:
            self.out.append(Settle(message.id, Rejected("aborted")))
        self.accepted = ()

    def record_missing_result(self, index: int, code: str, *, with_call: bool) -> None:
        """Give a call without a result of its own one that says what is known (C4, P4)."""
        assert self.schedule is not None
        call = self.schedule.calls[index]
        if with_call:
            self.out.append(Record(ToolCallStarted(call.call_id, call.name, call.arguments)))
        self.out.append(Record(missing_result(call.call_id, code)))

    def settle_calls(self) -> None:
        """Give every call without a result one, so that history stays paired (K7, C4)."""
        schedule = self.schedule
        if schedule is None:
            return
        for index in range(schedule.next_settle, len(schedule.calls)):
            if schedule.status[index] not in (PENDING, REFUSED):
                self.record_missing_result(index, "TOOL_OUTCOME_UNKNOWN", with_call=False)
            elif self.cause is not None:
                self.record_missing_result(index, "ABORTED_BEFORE_DISPATCH", with_call=True)
            else:
                self.record_missing_result(index, "TOOL_NOT_STARTED", with_call=False)
        self.schedule = None

    def end_turn(self, reason: EndReason) -> None:
        """Record the turn's one end and forget the turn (N3)."""
        self.out.append(Record(TurnEnd(self.turn, reason)))
        self.last_reason = reason
        self.turn_open = False
        self.step = 0
        self.truncated = self.owes = self.keep = self.series = False
        self.claimed = self.kept = ()
        self.detail = None
        self.turn_ids = _NONE
