"""Outcomes and progress of operations, as the kernel takes them: which trigger each means (§5, §6, §11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from . import inputs as i
from .calls import insert
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
from .errors import DuplicateMessage, InvalidTrigger
from .inbox import NEXT_STEP
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
)
from .models.failures import Failure
from .models.messages import UserMessage
from .schedule import Schedule
from .session.events import ToolCallStarted
from .verbs import limit_failure, record_lost_call

if TYPE_CHECKING:
    from .kernel import Kernel

Decision = i.Entered | i.Refused | i.AttemptFailed | i.Retried | i.ToolsSettled | i.Stopped | i.Maintained | i.Failed
"""Outcomes that decide where the agent goes, unless it is being cancelled."""

# --- outcomes -----------------------------------------------------------------------------------------------------


def outcome(kernel: Kernel, given: i.Outcome) -> None:
    """The owed operation is over: a cancel wins over whatever it decided (C8)."""
    _expect(kernel, given)
    operation, kernel.owed = kernel.owed, None
    if isinstance(given, i.Answered):
        _answered(kernel, given)
    elif kernel.cause is None and not isinstance(given, i.Interrupted):
        _decide(kernel, given, operation)
    else:
        if isinstance(given, i.Failed):
            step = getattr(operation, "step", kernel.step)
            kernel.out.append(Publish(ErrorReported(kernel.turn, step, given.failure, given.error)))
        _converge(kernel)


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


def _expect(kernel: Kernel, given: i.Outcome) -> None:
    owed = kernel.owed
    wanted = _ANSWERS.get(type(given))
    if wanted is not None:
        fits = type(owed) is wanted
        if wanted is RunTools:
            fits = fits and kernel.schedule is not None and kernel.schedule.done
    elif isinstance(given, i.Interrupted):
        fits = owed is not None and owed is not PROCEED and kernel.cause is not None
    else:
        fits = owed is not None and owed is not PROCEED and type(owed) is not Maintain
    if not fits:
        raise InvalidTrigger(f"{type(given).__name__} is no outcome of what is owed: {kernel.owed} (L7)")


def _decide(kernel: Kernel, given: Decision, operation: Any) -> None:
    match given:
        case i.Entered():
            _entered(kernel, given)
        case i.Refused():
            kernel.kept, kernel.detail = given.kept, given.detail
            kernel.fire(REFUSE)
        case i.AttemptFailed():
            kernel.begin(Recover(kernel.turn, kernel.step, given.failure, given.error))
        case i.Retried():
            kernel.attempt += 1
            kernel.begin(Request(kernel.turn, kernel.step, kernel.attempt))
        case i.ToolsSettled():
            _step_over(kernel)
        case i.Stopped():
            _stopped(kernel)
        case i.Maintained():
            kernel.fire(RELEASE_TO_NEXT if kernel.poised else RELEASE)
        case i.Failed():
            _fail(kernel, given.failure, given.error, getattr(operation, "step", kernel.step))
        case _:
            assert_never(given)


def _fail(kernel: Kernel, failure: Failure, error: Any, step: int) -> None:
    kernel.failure = (failure, error, step)
    kernel.fire(FAIL)


def _converge(kernel: Kernel) -> None:
    """Everything that was started has settled."""
    kernel.fire(CONVERGE if kernel.allows(CONVERGE) else DRAIN)


def _entered(kernel: Kernel, given: i.Entered) -> None:
    if given.messages != tuple(kernel.claimed):
        _amend(kernel, given.messages)
    kernel.claimed.clear()
    if given.messages or kernel.owes:
        kernel.accepted, kernel.series = given.messages, given.series
        kernel.fire(ENTER)
    elif kernel.inbox.presses:
        kernel.fire(EMPTY)
    else:
        _close(kernel)


def _amend(kernel: Kernel, messages: tuple[UserMessage, ...]) -> None:
    """The batch that enters is another one than was claimed: what was left out ends, what is new is noted (T0, T2)."""
    claimed = {message.id: message for message in kernel.claimed}
    entered = {message.id for message in messages}
    for message in kernel.claimed:
        if message.id not in entered:
            kernel.out.append(Settle(message.id, Rejected("left-out")))
    kernel.amended = tuple([message for message in messages if claimed.get(message.id) != message])
    kernel.turn_ids.update(entered)


def _close(kernel: Kernel) -> None:
    kernel.fire(CLOSE_TO_NEXT if kernel.inbox.next_turn else CLOSE)


def _stopped(kernel: Kernel) -> None:
    if not kernel.inbox.presses:
        _close(kernel)
    elif not _limited(kernel):
        kernel.fire(OBJECT)


def _answered(kernel: Kernel, given: i.Answered) -> None:
    kernel.out.append(Record(given.fact))
    kernel.truncated = kernel.truncated or given.truncated
    kernel.owes = False
    if given.calls:
        kernel.schedule = Schedule(given.calls, kernel.pool)
        kernel.begin(RunTools(kernel.turn, kernel.step, given.calls))
    else:
        kernel.owed = PROCEED
        kernel.out.append(Proceed())


def proceeded(kernel: Kernel) -> None:
    """The notifications of a whole answer have run: the step may end (H4)."""
    if kernel.owed is not PROCEED:
        raise InvalidTrigger(f"nothing proceeds: {kernel.owed} is owed (L7)")
    kernel.owed = None
    if kernel.cause is not None:
        _converge(kernel)
    else:
        _step_over(kernel)


def _step_over(kernel: Kernel) -> None:
    kernel.owes = kernel.schedule is not None and not kernel.schedule.concluded
    kernel.schedule = None
    if not kernel.owes and not kernel.inbox.presses:
        kernel.fire(REST)
    elif not _limited(kernel):
        kernel.fire(CONTINUE)


def _limited(kernel: Kernel) -> bool:
    """End a turn that has had all its steps, before anything more is claimed (T11)."""
    if kernel.max_steps is None or kernel.step < kernel.max_steps:
        return False
    _fail(kernel, limit_failure(kernel.max_steps), None, kernel.step)
    return True


# --- progress within a step ---------------------------------------------------------------------------------------


def request_progress(kernel: Kernel, given: i.Prepared | i.AttemptRecorded) -> None:
    """A request is prepared, or an attempt ended without a whole answer (T1, C5)."""
    if not isinstance(kernel.owed, Request):
        raise InvalidTrigger(f"no request is under way: {kernel.owed} is owed (L7)")
    if isinstance(given, i.AttemptRecorded):
        kernel.out.append(Record(given.fact))
    elif kernel.cause is None:
        kernel.out += [Record(change.data, change.replaces) for change in given.system]
        marks = [Record(mark) for mark in (given.header, given.context) if mark is not None]
        if kernel.series:
            kernel.out += marks
        kernel.admit_accepted()
        if not kernel.series:
            kernel.out += marks
        kernel.series = False


def tool_progress(
    kernel: Kernel, given: i.CallStarted | i.CallRefused | i.CallFinished | i.CallSettled | i.CallDropped
) -> None:
    """A call starts, finishes, is refused, settled or dropped (§11)."""
    schedule = kernel.schedule
    if schedule is None or not isinstance(kernel.owed, RunTools):
        raise InvalidTrigger(f"no tools are running: {kernel.owed} is owed (L7)")
    match given:
        case i.CallStarted():
            if kernel.cause is not None:
                raise InvalidTrigger("nothing starts while the turn is being cancelled (K6)")
            schedule.start(given.index, given.parallel)
            call = schedule.calls[given.index]
            kernel.out.append(Record(ToolCallStarted(call.call_id, call.name, call.arguments)))
        case i.CallFinished():
            schedule.finish(given.index)
        case i.CallSettled():
            _call_settled(kernel, schedule, given)
        case i.CallRefused():
            schedule.refuse(given.index)
        case i.CallDropped():
            schedule.settle(given.index)
            record_lost_call(kernel, given.index, "ABORTED_BEFORE_DISPATCH", with_call=True)
        case _:
            assert_never(given)


def _call_settled(kernel: Kernel, schedule: Schedule, given: i.CallSettled) -> None:
    call = schedule.calls[given.index]
    if not schedule.settle(given.index):
        kernel.out.append(Record(ToolCallStarted(call.call_id, call.name, call.arguments)))
    if given.result.concludes_turn and not given.result.is_error:
        schedule.concluded = True
    kernel.out.append(Record(given.result))
    if given.contexts and not kernel.gone:
        _hand_over(kernel, given.contexts)


def _hand_over(kernel: Kernel, contexts: tuple[UserMessage, ...]) -> None:
    """A tool's contexts press, unless the turn is being cancelled (C7, T5)."""
    fresh: dict[str, UserMessage] = {}
    for message in contexts:
        if message.id in fresh or kernel.taken(message.id):
            error = DuplicateMessage(message.id)
            failure = Failure(str(error), error.code)
            kernel.out.append(Publish(ErrorReported(kernel.turn, kernel.step, failure, error)))
        else:
            fresh[message.id] = message
    if fresh:
        insert(kernel, NEXT_STEP, tuple(fresh.values()), waking=kernel.cause is None)
