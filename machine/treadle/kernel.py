"""The kernel: decides everything the lifecycle does, and does nothing itself (design: the one idea).

``receive`` takes one input and returns the effects to perform, in order. The kernel knows no clock, no task, no
identity but those it is given, so the shipped code itself can be explored, replayed and model-checked.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, get_args

from attrs import define, field, fields

from . import calls, outcomes
from . import inputs as i
from .effects import Admitted, Begin, Effect, Operation, Record, Rejected, Settle
from .errors import InvalidTrigger
from .inbox import Inbox
from .lifecycle import CANCEL, INITIAL, LIFECYCLE, MAINTAIN, WAKE, Lifecycle, State, Trigger
from .models.failures import Failure
from .models.messages import UserMessage
from .schedule import PENDING, REFUSED, Schedule
from .session.events import Target, TurnEnd
from .session.reasons import Cause, EndReason
from .verbs import record_claim, record_lost_call, record_message

DEFAULT_POOL = 10
"""How many parallel tool calls run at once unless told otherwise (K4)."""


@define(eq=False)
class Kernel:
    """The state of one agent's lifecycle. Change it through ``receive`` only.

    Attributes:
        max_steps: steps a turn may have, ``None`` for no bound (T11).
        pool: parallel tool calls that may run at once (K4).
        recorded: ids of the user messages in the session's history (I1).
        state: where in the lifecycle the agent is.
        turn: number of the open or last turn (L4).
        step: number of the last step entered in the open turn.
        owed: the operation whose outcome is the next input, ``PROCEED`` between two commits, or ``None`` (L7).
        held: creation is not complete: the next claim waits (O0).
        reserved: admission is reserved: the next claim waits (D8).
        cause: why the activity is being cancelled, ``None`` while it is not (C2).
    """

    max_steps: int | None = None
    pool: int = DEFAULT_POOL
    recorded: set[str] = field(factory=set[str])
    inbox: Inbox = field(factory=Inbox)
    lifecycle: Lifecycle = LIFECYCLE
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
    claimed: list[UserMessage] = field(factory=list[UserMessage])
    accepted: tuple[UserMessage, ...] = ()
    amended: tuple[UserMessage, ...] = ()
    kept: tuple[UserMessage, ...] = ()
    detail: str | None = None
    turn_ids: set[str] = field(factory=set[str])
    schedule: Schedule | None = None
    failure: tuple[Failure, Any, int] | None = None
    last_reason: EndReason | None = None
    out: list[Effect] = field(factory=list[Effect])

    # --- what may be read ---------------------------------------------------------------------------------------------

    def allows(self, trigger: Trigger) -> bool:
        """Whether the table lists ``trigger`` for the present state."""
        return self.lifecycle.allows(self.state, trigger)

    @property
    def gone(self) -> bool:
        """Whether the agent is in disposal or disposed: nothing is accepted (L9)."""
        return not self.allows(WAKE)

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
        return self.allows(MAINTAIN) and not self.holds_back and not self.poised

    @property
    def quiet(self) -> bool:
        """Whether nothing is active and nothing will start by itself (L6)."""
        return self.truly_idle or (self.gone and self.owed is None)

    @property
    def accepts_next_step(self) -> bool:
        """Whether a next-step delivery would enter the open turn (D8)."""
        return self.turn_open and self.allows(CANCEL)

    def taken(self, message_id: str) -> bool:
        """Whether an id is pending, claimed by the open turn, or recorded (I1)."""
        return message_id in self.inbox.ids or message_id in self.turn_ids or message_id in self.recorded

    # --- the one entry ------------------------------------------------------------------------------------------------

    def receive(self, given: i.Input) -> tuple[Effect, ...]:
        """Take one input; return the effects to perform, in order.

        Raises:
            AgentDisposed: the agent accepts nothing any more (L9).
            AgentBusy: maintenance was asked for outside true idle (M1).
            DuplicateMessage: a message id is taken (I1).
            InvalidTrigger: an outcome that is not owed, or a trigger without a row (L1).
        """
        self.out = []
        _TAKERS[type(given)](self, given)
        return tuple(self.out)

    def fire(self, trigger: Trigger) -> None:
        """Move along the row of ``trigger`` and run its verbs."""
        for verb in self.lifecycle.fire(self, trigger).verbs:
            verb(self)

    def begin(self, operation: Operation) -> None:
        """Owe the outcome of an operation (L7)."""
        if self.owed is not None:
            raise InvalidTrigger(f"{operation} would be a second operation beside {self.owed} (L7)")
        self.owed = operation
        self.out.append(Begin(operation))

    # --- pieces that verbs share ------------------------------------------------------------------------------------------

    def claim(self, target: Target, count: int) -> list[UserMessage]:
        """Take the first ``count`` entries of a list for the open turn (I5)."""
        if not count:
            return []
        messages = [entry.message for entry in self.inbox.splice(target, 0, count)]
        self.claimed += messages
        self.turn_ids.update([message.id for message in messages])
        record_claim(self, target, messages)
        return messages

    def admit_accepted(self) -> None:
        """The accepted batch enters the history, in order (T1)."""
        for message in self.accepted:
            record_message(self, message, Admitted(self.turn, self.step))
        self.accepted = ()

    def settle_accepted(self) -> None:
        """What a step accepted but has not recorded is kept, unless a cancel ends it (T12, C6)."""
        if self.cause is None or self.keep:
            self.admit_accepted()
        for message in self.accepted:
            self.out.append(Settle(message.id, Rejected("aborted")))
        self.accepted = ()

    def settle_calls(self) -> None:
        """Give every call without a result one, so that history stays paired (K7, C4)."""
        schedule = self.schedule
        if schedule is None:
            return
        for index in range(schedule.next_settle, len(schedule.calls)):
            if schedule.status[index] not in (PENDING, REFUSED):
                record_lost_call(self, index, "TOOL_OUTCOME_UNKNOWN", with_call=False)
            elif self.cause is not None:
                record_lost_call(self, index, "ABORTED_BEFORE_DISPATCH", with_call=True)
            else:
                record_lost_call(self, index, "TOOL_NOT_STARTED", with_call=False)
        self.schedule = None

    def end_turn(self, reason: EndReason) -> None:
        """Record the turn's one end and forget the turn (N3)."""
        self.out.append(Record(TurnEnd(self.turn, reason)))
        self.last_reason = reason
        self.turn_open = False
        self.step = 0
        self.truncated = self.owes = self.keep = self.series = False
        self.claimed.clear()
        self.kept, self.detail = (), None
        self.turn_ids.clear()

    def copy(self) -> Kernel:
        """An independent copy, for exploring what else could follow."""
        twin = Kernel(*_ALL(self))
        twin.recorded, twin.turn_ids = set(self.recorded), set(self.turn_ids)
        twin.inbox, twin.claimed = self.inbox.copy(), list(self.claimed)
        twin.schedule = self.schedule.copy() if self.schedule is not None else None
        twin.out = []
        return twin


_ALL = attrgetter(*[known.name for known in fields(Kernel)])

_TAKERS: dict[type[i.Input], Callable[[Kernel, Any], None]] = {
    i.Deliver: calls.deliver,
    **dict.fromkeys(
        (i.Splice, i.ReplaceMessage, i.RemoveMessage, i.ClearInbox, i.EditMessage, i.SteerMessage),
        calls.inbox_operation,
    ),
    i.Cancel: lambda kernel, given: calls.cancel(kernel, given.cause, given.keep_inbox),
    i.Dispose: calls.dispose,
    i.BeginMaintenance: lambda kernel, _given: calls.maintain(kernel),
    i.Reserve: lambda kernel, _given: calls.reserve(kernel),
    i.Unreserve: lambda kernel, _given: calls.unreserve(kernel),
    i.Replayed: lambda kernel, _given: calls.replayed(kernel),
    i.Proceeded: lambda kernel, _given: outcomes.proceeded(kernel),
    **dict.fromkeys((i.Prepared, i.AttemptRecorded), outcomes.request_progress),
    **dict.fromkeys(
        (i.CallStarted, i.CallRefused, i.CallFinished, i.CallSettled, i.CallDropped), outcomes.tool_progress
    ),
    **dict.fromkeys(get_args(i.Outcome), outcomes.outcome),
}
"""Who takes which input; a table, since ``receive`` is called several times in every step."""

assert set(_TAKERS) == set(get_args(i.Input)), "every input has exactly one taker"
