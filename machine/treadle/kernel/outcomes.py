"""Outcomes and progress of operations, as the kernel takes them: which trigger each means (§5, §6, §11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from ..errors import DuplicateMessage, InvalidTrigger
from ..words.events import ToolCallStarted
from ..words.failures import Failure
from ..words.messages import UserMessage
from . import inputs as i
from .effects import (
    PROCEED,
    Admit,
    ErrorReported,
    Maintain,
    Operation,
    Proceed,
    Publish,
    Record,
    Recover,
    Rejected,
    Request,
    RunTools,
    Settle,
    Stop,
)
from .lifecycle import (
    CLOSE,
    CLOSE_TO_NEXT,
    CONTINUE,
    CONVERGE,
    DRAIN,
    EMPTY,
    ENTER,
    FAIL,
    OBJECT,
    REFUSE,
    RELEASE,
    RELEASE_TO_NEXT,
    REST,
    fire,
)
from .missing_results import result_of
from .pending import NEXT_STEP
from .schedule import Schedule
from .state import KernelState

Decision = i.Entered | i.Refused | i.AttemptFailed | i.Retried | i.ToolsSettled | i.Stopped | i.Maintained | i.Failed
"""Outcomes that decide where the agent goes, unless it is being cancelled."""

# --- outcomes -----------------------------------------------------------------------------------------------------


def outcome(state: KernelState, given: i.Outcome) -> None:
    """The owed operation is over: a cancel wins over whatever it decided (C8)."""
    _expect(state, given)
    operation, state.owed = state.owed, None
    if type(given) is i.Answered:
        _answered(state, given)
    elif state.cause is None and type(given) is not i.Interrupted:
        _decide(state, given, operation)
    else:
        if type(given) is i.Failed:
            state.failure = (given.failure, given.error, getattr(operation, "step", state.step))
        _converge(state)


_ANSWERS: dict[type[i.Outcome], type[Operation]] = {
    i.Entered: Admit,
    i.Refused: Admit,
    i.Answered: Request,
    i.AttemptFailed: Request,
    i.Retried: Recover,
    i.ToolsSettled: RunTools,
    i.Stopped: Stop,
    i.Maintained: Maintain,
}
"""Which operation an outcome answers; ``Failed`` and ``Interrupted`` may answer others (L7)."""


def _expect(state: KernelState, given: i.Outcome) -> None:
    owed = state.owed
    wanted = _ANSWERS.get(type(given))
    if wanted is not None:
        fits = type(owed) is wanted
        if wanted is RunTools:
            fits = fits and state.schedule is not None and state.schedule.done
    elif isinstance(given, i.Interrupted):
        fits = owed is not None and owed is not PROCEED and state.cause is not None
    else:
        fits = owed is not None and owed is not PROCEED and type(owed) is not Maintain
    if not fits:
        raise InvalidTrigger(f"{type(given).__name__} is no outcome of what is owed: {_named(state.owed)} (L7)")
    check = _CHECKS.get(type(given))
    if check is not None:
        check(state, given)


def _named(owed: Operation | str | None) -> str:
    """What is owed, in a word: messages have no place in the text of an error."""
    return owed if isinstance(owed, str) else "nothing" if owed is None else type(owed).__name__


def _check_entered(state: KernelState, given: i.Entered) -> None:
    """The batch may hold what was claimed, and messages whose ids are free, each once (I1, T2)."""
    if given.messages == state.claimed:
        return
    claimed = {message.id for message in state.claimed}
    seen: set[str] = set()
    for message in given.messages:
        if message.id in seen or (message.id not in claimed and state.taken(message.id)):
            raise DuplicateMessage(message.id)
        seen.add(message.id)


def _check_refused(state: KernelState, given: i.Refused) -> None:
    """What a blocked turn keeps are companions out of its batch, each once (H10)."""
    if given.kept:
        left = list(state.claimed)
        for message in given.kept:
            if message not in left:
                raise InvalidTrigger(f"message {message.id!r} is not in the batch that was claimed (H10)")
            left.remove(message)


def _check_answered(state: KernelState, given: i.Answered) -> None:
    _check_prepared(state)
    if given.truncated and given.calls:
        raise InvalidTrigger("the calls of a truncated answer are not run (T6)")


def _check_prepared(state: KernelState) -> None:
    """What a request was made with is recorded before what came of it (T1)."""
    if state.accepted:
        raise InvalidTrigger("the accepted batch is not recorded yet: feed Prepared first (T1)")


_CHECKS: dict[type[i.Outcome], Callable[[KernelState, Any], None]] = {
    i.Entered: _check_entered,
    i.Refused: _check_refused,
    i.Answered: _check_answered,
}
"""What an outcome must not say, although it is owed (L1)."""


def _decide(state: KernelState, given: Decision, operation: Any) -> None:
    match given:
        case i.Entered():
            _entered(state, given)
        case i.ToolsSettled():
            _step_over(state)
        case i.Stopped():
            _stopped(state)
        case i.Refused():
            state.kept, state.detail = given.kept, given.detail
            fire(state, REFUSE)
        case i.AttemptFailed():
            state.begin(Recover(state.turn, state.step, given.failure, given.error))
        case i.Retried():
            state.attempt += 1
            state.begin(Request(state.turn, state.step, state.attempt))
        case i.Maintained():
            fire(state, RELEASE_TO_NEXT if state.poised else RELEASE)
        case i.Failed():
            _fail(state, given.failure, given.error, getattr(operation, "step", state.step))
        case _:
            assert_never(given)


def _fail(state: KernelState, failure: Failure, error: Any, step: int) -> None:
    state.failure = (failure, error, step)
    fire(state, FAIL)


def _converge(state: KernelState) -> None:
    """Everything that was started has settled."""
    fire(state, CONVERGE if state.allows(CONVERGE) else DRAIN)


def _entered(state: KernelState, given: i.Entered) -> None:
    if given.messages != state.claimed:
        _amend(state, given.messages)
    state.claimed = ()
    if given.messages or state.owes:
        state.accepted, state.series = given.messages, given.series
        fire(state, ENTER)
    elif state.inbox.presses:
        fire(state, EMPTY)
    else:
        _close(state)


def _amend(state: KernelState, messages: tuple[UserMessage, ...]) -> None:
    """The batch that enters is another one than was claimed: what was left out ends, what is new is noted (T0, T2)."""
    claimed = {message.id: message for message in state.claimed}
    entered = {message.id for message in messages}
    for message in state.claimed:
        if message.id not in entered:
            state.out.append(Settle(message.id, Rejected("left-out")))
    state.amended = tuple([message for message in messages if claimed.get(message.id) != message])
    state.turn_ids |= entered


def _close(state: KernelState) -> None:
    following = bool(state.inbox.next_turn)
    state.latched = state.latched or (following and state.holds_back)
    fire(state, CLOSE_TO_NEXT if following and not state.holds_back else CLOSE)


def _stopped(state: KernelState) -> None:
    if not state.inbox.presses:
        _close(state)
    elif not _limited(state):
        fire(state, OBJECT)


def _answered(state: KernelState, given: i.Answered) -> None:
    state.out.append(Record(given.fact))
    state.truncated = state.truncated or given.truncated
    state.owes = False
    if given.calls:
        state.schedule = Schedule(given.calls, state.pool)
        state.begin(RunTools(state.turn, state.step, given.calls))
    else:
        state.owed = PROCEED
        state.out.append(Proceed())


def proceeded(state: KernelState, _given: i.Proceeded) -> None:
    """The notifications of a whole answer have run: the step may end (H4)."""
    if state.owed is not PROCEED:
        raise InvalidTrigger(f"nothing proceeds: {_named(state.owed)} is owed (L7)")
    state.owed = None
    if state.cause is not None:
        _converge(state)
    else:
        _step_over(state)


def _step_over(state: KernelState) -> None:
    state.owes = state.schedule is not None and not state.schedule.concluded
    state.schedule = None
    if not state.owes and not state.inbox.presses:
        fire(state, REST)
    elif not _limited(state):
        fire(state, CONTINUE)


def _limited(state: KernelState) -> bool:
    """End a turn that has had all its steps, before anything more is claimed (T11)."""
    if state.max_steps is None or state.step < state.max_steps:
        return False
    said = f"the turn reached max_steps_per_turn = {state.max_steps} (T11), and what is due would take another; raise the option or end the turn"
    _fail(state, Failure(said, "STEP_LIMIT"), None, state.step)
    return True


# --- progress within a step ---------------------------------------------------------------------------------------


def request_progress(state: KernelState, given: i.Prepared | i.AttemptRecorded) -> None:
    """A request is prepared, or an attempt ended without a whole answer (T1, C5)."""
    if type(state.owed) is not Request:
        raise InvalidTrigger(f"no request is under way: {_named(state.owed)} is owed (L7)")
    if type(given) is i.AttemptRecorded:
        _check_prepared(state)
        state.out.append(Record(given.fact))
    elif state.cause is None:
        state.out += [Record(change.data, change.replaces) for change in given.system]
        marks = [Record(mark) for mark in (given.header, given.context) if mark is not None]
        if state.series:
            state.out += marks
        state.admit_accepted()
        if not state.series:
            state.out += marks
        state.series = False


def tool_progress(
    state: KernelState, given: i.CallStarted | i.CallRefused | i.CallFinished | i.CallSettled | i.CallDropped
) -> None:
    """A call starts, finishes, is refused, settled or dropped (§11)."""
    schedule = state.schedule
    if schedule is None or type(state.owed) is not RunTools:
        raise InvalidTrigger(f"no tools are running: {_named(state.owed)} is owed (L7)")
    if not 0 <= given.index < len(schedule.calls):
        raise InvalidTrigger(f"the answer asked for no call {given.index} (K5)")
    match given:
        case i.CallStarted():
            if state.cause is not None:
                raise InvalidTrigger("nothing starts while the turn is being cancelled (K6)")
            schedule.start(given.index, given.parallel)
            call = schedule.calls[given.index]
            state.out.append(Record(ToolCallStarted(call.call_id, call.name, call.arguments)))
        case i.CallFinished():
            call_id = schedule.calls[given.index].call_id
            schedule.finish(given.index, result_of(call_id, given.ending))
        case i.CallSettled():
            _call_settled(state, schedule, given)
        case i.CallRefused():
            schedule.refuse(given.index)
        case i.CallDropped():
            if state.cause is None:
                raise InvalidTrigger("a call is dropped only while the turn is being cancelled (C4)")
            schedule.drop(given.index)
            state.record_missing_result(given.index, "ABORTED_BEFORE_DISPATCH", with_call=True)
        case _:
            assert_never(given)


def _call_settled(state: KernelState, schedule: Schedule, given: i.CallSettled) -> None:
    call = schedule.calls[given.index]
    if given.result.call_id != call.call_id:
        raise InvalidTrigger(f"a result of {given.result.call_id!r} is none of call {call.call_id!r} (K5)")
    if not schedule.settle(given.index):
        state.out.append(Record(ToolCallStarted(call.call_id, call.name, call.arguments)))
    if given.result.concludes_turn and not given.result.is_error:
        schedule.concluded = True
    state.out.append(Record(given.result))
    if given.contexts and not state.gone:
        _hand_over(state, given.contexts)


def _hand_over(state: KernelState, contexts: tuple[UserMessage, ...]) -> None:
    """A tool's contexts press, unless the turn is being cancelled (C7, T5)."""
    fresh: dict[str, UserMessage] = {}
    for message in contexts:
        if message.id in fresh or state.taken(message.id):
            error = DuplicateMessage(message.id)
            failure = Failure(str(error), error.code)
            state.out.append(Publish(ErrorReported(state.turn, state.step, failure, error)))
        else:
            fresh[message.id] = message
    if fresh:
        state.insert(NEXT_STEP, tuple(fresh.values()), waking=state.cause is None)
