"""What rows of the lifecycle table do: a closed vocabulary of small functions over the kernel.

Each appends effects in the order in which they are performed. Verbs decide nothing about where the agent goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .effects import (
    Abort,
    Admit,
    Admitted,
    CancelRequested,
    Claimed,
    ErrorReported,
    Finish,
    Maintain,
    Parked,
    Publish,
    Record,
    Rejected,
    Request,
    Reread,
    Settle,
    StatusChanged,
    Stop,
)
from .inbox import NEXT_STEP, NEXT_TURN
from .models.failures import Failure
from .models.messages import Text, UserMessage
from .session.events import (
    InboxSpliced,
    StepEnd,
    StepStart,
    ToolCallStarted,
    ToolResultAdded,
    TurnStart,
    UserMessageAdded,
)
from .session.reasons import COMPLETED, MAX_TOKENS, Aborted, Blocked, Errored

if TYPE_CHECKING:
    from .kernel import Kernel

Verb = Callable[["Kernel"], None]

NEVER_RAN = {
    "ABORTED_BEFORE_DISPATCH": "This tool call was not started: the turn was stopped first. Nothing was done.",
    "TOOL_NOT_STARTED": "This tool call was never started: the turn broke off before it. Nothing was done.",
    "TOOL_OUTCOME_UNKNOWN": (
        "This tool call was started, but the turn broke off before its result was recorded. "
        "It may or may not have taken effect; check before repeating it."
    ),
}
"""What the model reads for calls without a result of their own (C4, P4), by code."""


def start_running(kernel: Kernel) -> None:
    """Status becomes ``running`` (L5)."""
    kernel.running = True
    kernel.out.append(Publish(StatusChanged("running")))


def stop_running(kernel: Kernel) -> None:
    """Status becomes ``idle``, if it was not (maintenance is idle all along)."""
    if kernel.running:
        kernel.running = False
        kernel.out.append(Publish(StatusChanged("idle")))


def open_turn(kernel: Kernel) -> None:
    """The next turn opens (L4)."""
    kernel.turn += 1
    kernel.turn_open = True
    kernel.out.append(Record(TurnStart(kernel.turn)))


def claim_turn(kernel: Kernel) -> None:
    """Claim all of next-step, then one next-turn entry, for the turn's first step (I5)."""
    kernel.claim(NEXT_STEP, len(kernel.inbox.next_step))
    prompts = kernel.claim(NEXT_TURN, min(1, len(kernel.inbox.next_turn)))
    kernel.begin(Admit(kernel.turn, kernel.step + 1, tuple(kernel.claimed), prompts[0] if prompts else None))


def claim_step(kernel: Kernel) -> None:
    """Claim all of next-step for another step of the open turn (I5)."""
    kernel.claim(NEXT_STEP, len(kernel.inbox.next_step))
    kernel.begin(Admit(kernel.turn, kernel.step + 1, tuple(kernel.claimed), None))


def open_step(kernel: Kernel) -> None:
    """Enter the step with the decided batch (T0)."""
    kernel.step += 1
    kernel.step_open = True
    kernel.attempt = 1
    accepted = tuple([message.id for message in kernel.accepted])
    kernel.out.append(Record(StepStart(kernel.turn, kernel.step, accepted, kernel.amended)))
    kernel.amended = ()
    kernel.begin(Request(kernel.turn, kernel.step, 1))


def close_step(kernel: Kernel) -> None:
    """End the step, if one is open: what it accepted and asked for is settled first (T12, C4, K7)."""
    if not kernel.step_open:
        return
    kernel.settle_accepted()
    kernel.settle_calls()
    kernel.step_open = False
    kernel.out.append(Record(StepEnd(kernel.turn, kernel.step)))


def stop_turn(kernel: Kernel) -> None:
    """Ask whether anyone objects to the turn's end (T4)."""
    kernel.begin(Stop(kernel.turn))


def close_turn(kernel: Kernel) -> None:
    """End the turn: nothing is owed (T6, T7)."""
    kernel.end_turn(MAX_TOKENS if kernel.truncated else COMPLETED)


def block_turn(kernel: Kernel) -> None:
    """End the turn because a hook rejected its step; the claimed batch ends here (T2, H10)."""
    kept = {message.id for message in kernel.kept}
    for message in kernel.kept:
        record_message(kernel, message, Admitted(kernel.turn, None))
    for message in kernel.claimed:
        if message.id not in kept:
            kernel.out.append(Settle(message.id, Rejected("blocked")))
    kernel.end_turn(Blocked(kernel.detail))


def fail_turn(kernel: Kernel) -> None:
    """Report the failure and end the turn with it (T9)."""
    assert kernel.failure is not None
    failure, error, step = kernel.failure
    kernel.failure = None
    kernel.out.append(Publish(ErrorReported(kernel.turn, step, failure, error)))
    for message in kernel.claimed:
        kernel.out.append(Settle(message.id, Rejected("failed")))
    kernel.end_turn(Errored(failure))


def end_aborted(kernel: Kernel) -> None:
    """End the turn, if one is open, with the first cause; a claimed batch is kept or ends here (C2, C6)."""
    cause = kernel.cause
    assert cause is not None
    if kernel.turn_open:
        for message in kernel.claimed:
            if kernel.keep:
                record_message(kernel, message, Admitted(kernel.turn, None))
            else:
                kernel.out.append(Settle(message.id, Rejected("aborted")))
        kernel.end_turn(Aborted(cause))
    kernel.cause, kernel.keep = None, False


def abort_activity(kernel: Kernel) -> None:
    """Set the signal, cancel the running operation, and say so once (C2, C3)."""
    assert kernel.cause is not None
    kernel.out.append(Abort(kernel.cause))
    kernel.out.append(Publish(CancelRequested(kernel.cause)))


def latch_wake(kernel: Kernel) -> None:
    """Keep the wake for replay (D4)."""
    kernel.latched = True


def drop_latch(kernel: Kernel) -> None:
    """The latched wake is used up, or finds nothing to do (D5)."""
    kernel.latched = False


def begin_maintenance(kernel: Kernel) -> None:
    """Start the maintenance task (M1)."""
    kernel.begin(Maintain())


def reread(kernel: Kernel) -> None:
    """Read latch and inbox again, once the notifications have run (H4)."""
    kernel.out.append(Reread())


def park(kernel: Kernel) -> None:
    """Tell what waking input the ended activity left behind (L3)."""
    waiting = kernel.inbox.waking()
    if waiting:
        kernel.out.append(Publish(Parked(waiting)))


def finish_disposal(kernel: Kernel) -> None:
    """Nothing is active: the agent can be unwound (O4)."""
    kernel.latched = kernel.reserved = False
    kernel.out.append(Finish())


# --- pieces that verbs and the kernel share ---------------------------------------------------------------------------


def record_message(kernel: Kernel, message: UserMessage, fate: Admitted) -> None:
    """A user message enters the history (N2)."""
    kernel.recorded.add(message.id)
    kernel.out.append(Record(UserMessageAdded(message)))
    kernel.out.append(Settle(message.id, fate))


def record_claim(kernel: Kernel, target: str, messages: list[UserMessage]) -> None:
    """A claim is a pure deletion without outcome, told per message (I3, I4)."""
    kernel.out.append(Record(InboxSpliced(target, 0, len(messages))))  # type: ignore[arg-type]
    for message in messages:
        kernel.out.append(Publish(Claimed(message, kernel.turn)))


def record_lost_call(kernel: Kernel, index: int, code: str, with_call: bool) -> None:
    """Give a call without a result of its own one that says what is known (C4, P4)."""
    assert kernel.schedule is not None
    call = kernel.schedule.calls[index]
    if with_call:
        kernel.out.append(Record(ToolCallStarted(call.call_id, call.name, call.arguments)))
    kernel.out.append(Record(ToolResultAdded(call.call_id, (Text(NEVER_RAN[code]),), True, code)))


def limit_failure(limit: int) -> Failure:
    """What a turn that reached its step limit fails with (T11)."""
    return Failure(
        f"the turn reached max_steps_per_turn = {limit} (T11); raise the option or end the turn", "STEP_LIMIT"
    )
