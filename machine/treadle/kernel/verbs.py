"""What rows of the lifecycle table do: a closed vocabulary of small functions over the state.

Each appends effects in the order in which they are performed. Verbs decide nothing about where the agent goes.
"""

from __future__ import annotations

from ..words.events import StepEnd, StepStart, TurnStart
from ..words.reasons import COMPLETED, MAX_TOKENS, Aborted, Blocked, Errored
from .effects import (
    Abort,
    Admit,
    Admitted,
    CancelRequested,
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
from .pending import NEXT_STEP, NEXT_TURN
from .state import KernelState


def start_running(state: KernelState) -> None:
    """Status becomes ``running`` (L5)."""
    state.running = True
    state.out.append(Publish(StatusChanged("running")))


def stop_running(state: KernelState) -> None:
    """Status becomes ``idle``, if it was not (maintenance is idle all along)."""
    if state.running:
        state.running = False
        state.out.append(Publish(StatusChanged("idle")))


def open_turn(state: KernelState) -> None:
    """The next turn opens (L4)."""
    state.turn += 1
    state.turn_open = True
    state.out.append(Record(TurnStart(state.turn)))


def claim_turn(state: KernelState) -> None:
    """Claim all of next-step, then one next-turn entry, for the turn's first step (I5)."""
    state.claim(NEXT_STEP, len(state.inbox.next_step))
    prompts = state.claim(NEXT_TURN, min(1, len(state.inbox.next_turn)))
    state.begin(Admit(state.turn, state.step + 1, state.claimed, prompts[0] if prompts else None))


def claim_step(state: KernelState) -> None:
    """Claim all of next-step for another step of the open turn (I5)."""
    state.claim(NEXT_STEP, len(state.inbox.next_step))
    state.begin(Admit(state.turn, state.step + 1, state.claimed, None))


def open_step(state: KernelState) -> None:
    """Enter the step with the decided batch (T0)."""
    state.step += 1
    state.step_open = True
    state.attempt = 1
    accepted = tuple([message.id for message in state.accepted])
    state.out.append(Record(StepStart(state.turn, state.step, accepted, state.amended)))
    state.amended = ()
    state.begin(Request(state.turn, state.step, 1))


def close_step(state: KernelState) -> None:
    """End the step, if one is open: what it accepted and asked for is settled first (T12, C4, K7)."""
    if not state.step_open:
        return
    state.settle_accepted()
    state.settle_calls()
    state.step_open = False
    state.out.append(Record(StepEnd(state.turn, state.step)))


def stop_turn(state: KernelState) -> None:
    """Ask whether anyone objects to the turn's end (T4)."""
    state.begin(Stop(state.turn))


def close_turn(state: KernelState) -> None:
    """End the turn: nothing is owed (T6, T7)."""
    state.end_turn(MAX_TOKENS if state.truncated else COMPLETED)


def block_turn(state: KernelState) -> None:
    """End the turn because a hook rejected its step; the claimed batch ends here (T2, H10)."""
    kept = {message.id for message in state.kept}
    for message in state.kept:
        state.record_message(message, Admitted(state.turn, None))
    for message in state.claimed:
        if message.id not in kept:
            state.out.append(Settle(message.id, Rejected("blocked")))
    state.end_turn(Blocked(state.detail))


def fail_turn(state: KernelState) -> None:
    """Report the failure and end the turn with it (T9)."""
    assert state.failure is not None
    failure = state.failure[0]
    _tell_failure(state)
    for message in state.claimed:
        state.out.append(Settle(message.id, Rejected("failed")))
    state.end_turn(Errored(failure))


def _tell_failure(state: KernelState) -> None:
    if state.failure is not None:
        failure, error, step = state.failure
        state.failure = None
        state.out.append(Publish(ErrorReported(state.turn, step, failure, error)))


def end_aborted(state: KernelState) -> None:
    """End the turn, if one is open, with the first cause; a claimed batch is kept or ends here (C2, C6, L1)."""
    cause = state.cause
    assert cause is not None
    if state.turn_open:
        for message in state.claimed:
            if state.keep:
                state.record_message(message, Admitted(state.turn, None))
            else:
                state.out.append(Settle(message.id, Rejected("aborted")))
        _tell_failure(state)
        state.end_turn(Aborted(cause))
    state.cause, state.keep = None, False


def abort_activity(state: KernelState) -> None:
    """Set the signal, cancel the running operation, and say so once (C2, C3)."""
    assert state.cause is not None
    state.out.append(Abort(state.cause))
    state.out.append(Publish(CancelRequested(state.cause)))


def latch_wake(state: KernelState) -> None:
    """Keep the wake for replay (D4)."""
    state.latched = True


def drop_latch(state: KernelState) -> None:
    """The latched wake is used up, or finds nothing to do (D5)."""
    state.latched = False


def begin_maintenance(state: KernelState) -> None:
    """Start the maintenance task (M1)."""
    state.begin(Maintain())


def reread(state: KernelState) -> None:
    """Read latch and inbox again, once the notifications have run (H4)."""
    state.out.append(Reread())


def park(state: KernelState) -> None:
    """Tell what waking input the ended activity left behind (L3)."""
    waiting = state.inbox.waking()
    if waiting:
        state.out.append(Publish(Parked(waiting)))


def finish_disposal(state: KernelState) -> None:
    """Nothing is active: the agent can be unwound (O4)."""
    state.latched = state.reserved = False
    state.out.append(Finish())
