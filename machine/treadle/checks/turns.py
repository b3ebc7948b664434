"""Turns, steps, answers, calls and results: balanced, nested, numbered, paired (L4, T10, N1, N3, K5)."""

from __future__ import annotations

from ..words.events import (
    AssistantAttempt,
    AssistantMessageAdded,
    Event,
    StepEnd,
    StepStart,
    ToolCallStarted,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
)
from ..words.reasons import Aborted, Blocked, Completed, Interrupted, MaxTokens
from .inbox import decide_batch, settle_move
from .state import Breach, LogState, Step, Turn


def turn_start(log: LogState, data: TurnStart, _: Event) -> None:
    """A turn opens outside any other, under the next number, with something to claim (T10, L4, D7, I5)."""
    last = log.turn
    if last.open:
        log.note("T10", f"turn {data.turn} opens inside turn {last.number}")
    if data.turn != last.number + 1:
        log.note("L4", f"turn {data.turn} follows turn {last.number}")
    if log.not_resumed is not None and log.not_resumed.seq == log.seq - 1:
        log.not_resumed = None  # it leads on at once
    turn = log.turn = Turn(data.turn, open=True)
    log.step = Step()
    if steering := log.lists["next-step"]:
        turn.due.append(("next-step", len(steering)))
    if log.lists["next-turn"]:
        turn.due.append(("next-turn", 1))
    if not turn.due:
        log.note("D7", f"turn {data.turn} opens, and nothing is pending")


def turn_end(log: LogState, data: TurnEnd, _: Event) -> None:
    """The open turn ends once, outside any step, and its reason fits what happened in it (N3, T10, T7)."""
    turn, step = log.turn, log.step
    if not turn.open or data.turn != turn.number:
        log.note(
            "N3", f"turn {data.turn} ends, and " + (f"turn {turn.number} is open" if turn.open else "none is open")
        )
    if step.open:
        log.note("T10", f"turn {data.turn} ends inside step {step.number}")
        step.open = False
    settle_move(log)
    _reason_fits(log, turn, data)
    turn.open = False
    turn.number = max(turn.number, data.turn)
    turn.ids.clear()
    turn.claimed.clear()


def _reason_fits(log: LogState, turn: Turn, data: TurnEnd) -> None:
    reason = data.reason
    kind = type(reason)
    if kind is Interrupted:
        if turn.claimed:
            log.note("P4", f"claimed and not kept by the repair: {', '.join(turn.claimed)}")
        return
    log.breaches += turn.doubtful
    if turn.due:
        log.note("I5", f"turn {data.turn} ends before it has claimed what was pending")
    completed = kind is Completed or kind is MaxTokens
    if completed and (kind is MaxTokens) is not turn.truncated:
        cut = "an answer" if turn.truncated else "no answer"
        log.note("T6", f"{cut} was cut off by the output limit, and the turn ends {reason}")
    if completed and turn.owes:
        log.note("T3", "tool results are owed to the model, and the turn is completed")
    if completed and log.step.number and not log.step.answered:
        log.note("T3", f"step {log.step.number} has no answer, and the turn is completed")
    if completed and log.lists["next-turn"]:
        log.not_resumed = Breach("I5", f"turn {data.turn} is completed, and does not lead to what waits", log.seq)
    if type(reason) is Blocked and reason.detail is not None:
        _companions_kept(log, turn)
    if turn.cut and kind is not Aborted:
        log.note("C11", f"an answer was cut off by a cancel, and the turn ends {reason}")
    if turn.unrecorded and kind is not Aborted:
        log.note("T12", f"accepted, and not recorded before the step's end: {', '.join(turn.unrecorded)}")
    if turn.kept and (completed or (kind is not Aborted and turn.unrecorded)):
        log.note("N2", f"recorded outside a step although the turn ran on: {', '.join(turn.kept)}")


def _companions_kept(log: LogState, turn: Turn) -> None:
    """A blocked prompt ends; what was claimed with it is recorded (H10)."""
    lost = [message_id for message_id in turn.claimed if message_id != turn.prompt]
    if lost:
        log.note("H10", f"claimed with the blocked prompt, and not recorded: {', '.join(lost)}")


def step_start(log: LogState, data: StepStart, _: Event) -> None:
    """A step opens inside the turn, outside any other, under the next number, with a decided batch (T10, L4, T0)."""
    turn, last = log.turn, log.step
    settle_move(log)
    if not turn.open or data.turn != turn.number:
        log.note(
            "T10", f"step {data.turn}.{data.step} opens, and turn {turn.number} is {'open' if turn.open else 'over'}"
        )
    if last.open:
        log.note("T10", f"step {data.step} opens inside step {last.number}")
    if data.step != last.number + 1:
        log.note("L4", f"step {data.step} follows step {last.number}")
    if turn.due:
        log.note("I5", f"step {data.step} opens before the turn has claimed what was pending")
        turn.due.clear()
    if last.waiting:
        log.note("I5", f"step {data.step} opens, and {last.waiting} entries of next-step were not claimed for it")
    if turn.unrecorded or turn.kept:
        log.note("T12", f"step {data.step} opens after messages were given up: {turn.unrecorded or turn.kept}")
    if last.number and not last.answered:
        log.note("T3", f"step {data.step} opens, and step {last.number} has no answer")
    if not data.accepted and not turn.owes:
        log.note("T8", f"step {data.step} opens for an empty batch, and nothing is owed to the model")
    accepted = decide_batch(log, data)
    log.step = Step(data.step, open=True, batch=len(accepted), accepted=accepted)
    turn.owes = False


def step_end(log: LogState, data: StepEnd, _: Event) -> None:
    """The open step ends, with a result for every call (T10, N1)."""
    turn, step = log.turn, log.step
    if not step.open or (data.turn, data.step) != (turn.number, step.number):
        where = f"step {turn.number}.{step.number} is open" if step.open else "none is open"
        log.note("T10", f"step {data.turn}.{data.step} ends, and {where}")
    if step.asked:
        log.note("N1", f"calls without a result: {', '.join([call.call_id for call in step.asked])}")
        step.asked.clear()
    turn.unrecorded += [message.id for message in step.accepted]
    turn.owes = step.calls and not step.concluded
    step.open = False
    step.accepted.clear()
    step.waiting = len(log.lists["next-step"])


# --- answers ----------------------------------------------------------------------------------------------------------


def answer(log: LogState, data: AssistantMessageAdded, _: Event) -> None:
    """One answer per step, after the accepted batch; its calls are new (T1, T6, C5, K3)."""
    _attempt(log, data, "an answer")
    step, calls = log.step, data.message.calls
    step.answered = True
    if data.interrupted:
        log.turn.cut = True
    if data.finish is not None and data.finish.kind == "max-tokens":
        log.turn.truncated = True
        if calls:
            log.note("T6", "an answer that was cut off by the output limit keeps its calls")
    if data.interrupted and calls:
        log.note("C5", "an answer that was cut off by a cancel keeps its calls")
    for call in calls:
        if call.call_id in log.call_ids:
            log.note("K3", f"call id {call.call_id!r} is used twice")
        log.call_ids.add(call.call_id)
    step.asked = list(calls)
    step.called.clear()
    step.calls = bool(calls)


def attempt(log: LogState, data: AssistantAttempt, _: Event) -> None:
    """An attempt that gave no answer (Q9)."""
    _attempt(log, data, "an attempt")
    log.step.attempts += 1
    if data.interrupted:
        log.turn.cut = True


def _attempt(log: LogState, data: AssistantMessageAdded | AssistantAttempt, what: str) -> None:
    step = log.step
    if not step.open:
        log.note("T10", f"{what} outside a step")
    if step.answered:
        log.note("T3", f"{what} follows the answer of step {step.number}")
    if step.asked:
        log.note("N1", f"{what} stands between a call and its result")
    if step.accepted:
        missing = ", ".join([message.id for message in step.accepted])
        log.note("T1", f"{what} precedes the messages that the step accepted: {missing}")
        step.accepted.clear()
    log.was_not_resumed()
    if data.attempt_id in log.attempt_ids:
        log.note("Q9", f"attempt {data.attempt_id!r} is recorded twice")
    log.attempt_ids.add(data.attempt_id)
    if step.retry is not None and not step.retry[1]:
        log.note("Q6", f"{what} comes before the scheduled retry was started")
    step.retry, step.marked = None, False
    header, context = log.header, log.context
    if header is None or context is None:
        log.note("Q2", f"{what} without a request {'header' if header is None else 'context'}")
    elif (context.provider, context.model) != (header.config.provider, header.config.model):
        log.note("Q2", f"{what} by {header.config.provider}/{header.config.model}, and the context says otherwise")


# --- tools ------------------------------------------------------------------------------------------------------------


def tool_call(log: LogState, data: ToolCallStarted, entry: Event) -> None:
    """A call that was asked for is dispatched once, as the model wrote it (K5)."""
    step = log.step
    if not step.open:
        log.note("T10", f"call {data.call_id!r} outside a step")
    if data.call_id in step.called:
        log.note("K5", f"call {data.call_id!r} is recorded twice")
    step.called[data.call_id] = entry.seq
    for call in step.asked:
        if call.call_id == data.call_id:
            if (call.name, call.arguments) != (data.name, data.arguments):
                log.note("K5", f"call {data.call_id!r} is not as the model wrote it")
            return
    log.note("K5", f"call {data.call_id!r} was not asked for, or has its result")


def tool_result(log: LogState, data: ToolResultAdded, entry: Event) -> None:
    """Results come in the model's order, each once, and cite their call (N1, K5)."""
    step = log.step
    if not step.open:
        log.note("T10", f"a result of {data.call_id!r} outside a step")
    called = step.called.get(data.call_id)
    due = None
    for place, call in enumerate(step.asked):
        if call.call_id == data.call_id:
            due = place
            break
    if due is None:
        log.note("N1", f"a result of {data.call_id!r}, which waits for none")
    elif due:
        log.note("K5", f"a result of {data.call_id!r} before that of {step.asked[0].call_id!r}")
    if due is not None:
        del step.asked[due]
    cites = entry.source_event_seqs or ()
    if called is None:
        if data.code not in ("TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN"):
            log.note("K5", f"a result of {data.call_id!r} without its call")
    elif called not in cites:
        log.note("K5", f"the result of {data.call_id!r} does not cite its call, event {called}")
    if data.concludes_turn and not data.is_error:
        step.concluded = True
