"""Faults to plant into the shipped kernel: what every layer of the specification has to notice (§4, §7).

    with planted(FAULTS["lost wake on cancel"]):
        ...  # every kernel of this process has the fault

A fault takes the place of a function's code, so that every reference to it sees the fault, those of the lifecycle table
and of running agents included. Each faulty function below uses the names of the module it is planted into.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, cast

from attrs import frozen

from treadle import calls, outcomes, verbs
from treadle import inputs as i
from treadle.calls import (
    DISPOSE,
    MAINTAIN,
    REPLAY,
    Inserted,
    insert,
    park,
)
from treadle.effects import Admitted, ErrorReported, Publish, Record, Rejected, Settle
from treadle.inbox import NEXT_STEP, Entry, normalize
from treadle.kernel import Kernel
from treadle.lifecycle import CANCEL
from treadle.session.events import Aborted, InboxSpliced, ToolCallStarted, TurnEnd
from treadle.verbs import record_claim, record_lost_call, record_message

_abort: Any = vars(calls)["_abort"]
_accepting: Any = vars(calls)["_accepting"]
_change: Any = vars(calls)["_change"]
_clear: Any = vars(calls)["_clear"]
_edit: Any = vars(calls)["_edit"]
_steer: Any = vars(calls)["_steer"]
_answered: Any = vars(outcomes)["_answered"]
_close: Any = vars(outcomes)["_close"]
_converge: Any = vars(outcomes)["_converge"]
_decide: Any = vars(outcomes)["_decide"]
_expect: Any = vars(outcomes)["_expect"]
_hand_over: Any = vars(outcomes)["_hand_over"]


@frozen
class Fault:
    """One fault: the function it sits in, the faulty code, and the rules that it breaks."""

    name: str
    rules: tuple[str, ...]
    place: Callable[..., Any]
    code: Callable[..., Any]


@contextmanager
def planted(fault: Fault) -> Generator[None]:
    """Run with the fault in place; the shipped code is back afterwards."""
    function = cast("FunctionType", fault.place)
    shipped = function.__code__
    function.__code__ = cast("FunctionType", fault.code).__code__
    try:
        yield
    finally:
        function.__code__ = shipped


# --- the faulty functions ---------------------------------------------------------------------------------------------


def _forgets_the_latch(kernel: Kernel) -> None:
    if not kernel.allows(REPLAY) or kernel.holds_back:
        return
    kernel.latched = False
    park(kernel)


def _claims_and_keeps(self: Kernel, target: Any, count: int) -> Any:
    if not count:
        return []
    messages = [entry.message for entry in self.inbox.list_of(target)[:count]]
    self.claimed += messages
    self.turn_ids.update([message.id for message in messages])
    record_claim(self, target, messages)
    return messages


def _ignores_late_steering(kernel: Kernel) -> None:
    kernel.inbox.splice(NEXT_STEP, 0, len(kernel.inbox.next_step))
    _close(kernel)


def _recovers_after_dispose(kernel: Kernel, given: Any) -> None:
    _expect(kernel, given)
    operation, kernel.owed = kernel.owed, None
    if isinstance(given, i.Answered):
        _answered(kernel, given)
    elif kernel.cause is not None and type(given).__name__ not in ("AttemptFailed", "Retried"):
        if isinstance(given, i.Failed):
            step = getattr(operation, "step", kernel.step)
            kernel.out.append(Publish(ErrorReported(kernel.turn, step, given.failure, given.error)))
        _converge(kernel)
    else:
        _decide(kernel, given, operation)


def _ends_aborted_turns_twice(self: Kernel, reason: Any) -> None:
    self.out.append(Record(TurnEnd(self.turn, reason)))
    if self.cause is not None:
        self.out.append(Record(TurnEnd(self.turn, reason)))
    self.last_reason = reason
    self.turn_open = False
    self.step = 0
    self.truncated = self.owes = self.keep = self.series = False
    self.claimed.clear()
    self.kept, self.detail = (), None
    self.turn_ids.clear()


def _swallows_late_results(kernel: Kernel, schedule: Any, given: i.CallSettled) -> None:
    started = schedule.settle(given.index)
    if kernel.cause is not None:
        record_lost_call(kernel, given.index, "ABORTED_BEFORE_DISPATCH", with_call=not started)
        return
    if not started:
        call = schedule.calls[given.index]
        kernel.out.append(Record(ToolCallStarted(call.call_id, call.name, call.arguments)))
    if given.result.concludes_turn and not given.result.is_error:
        schedule.concluded = True
    kernel.out.append(Record(given.result))
    if given.contexts and not kernel.gone:
        _hand_over(kernel, given.contexts)


def _loses_what_was_to_be_kept(kernel: Kernel) -> None:
    assert kernel.cause is not None
    if kernel.turn_open:
        for message in kernel.claimed:
            kernel.out.append(Settle(message.id, Rejected("aborted")))
        kernel.end_turn(Aborted(kernel.cause))
    kernel.cause, kernel.keep = None, False


def _lets_contexts_press(kernel: Kernel, contexts: Any) -> None:
    fresh = {message.id: message for message in contexts if not kernel.taken(message.id)}
    if len(fresh) == len(contexts):
        insert(kernel, NEXT_STEP, contexts, waking=True)


def _lets_everything_press(kernel: Kernel, target: Any, messages: Any, waking: bool) -> None:
    start = len(kernel.inbox.list_of(target))
    kernel.inbox.splice(target, start, 0, [Entry(message, waking or target == NEXT_STEP) for message in messages])
    kernel.out.append(Record(InboxSpliced(target, start, 0, messages)))
    for message in messages:
        kernel.out.append(Publish(Inserted(message)))


def _leaves_the_latch(kernel: Kernel, given: Any) -> None:
    _accepting(kernel)
    match given:
        case i.Splice():
            length = len(kernel.inbox.list_of(given.target))
            start, count = normalize(length, given.start, given.delete_count)
            _change(kernel, given.target, start, count, given.inserted)
        case i.ReplaceMessage():
            if (place := kernel.inbox.locate(given.message_id)) is not None:
                waking = kernel.inbox.list_of(place[0])[place[1]].waking
                _change(kernel, *place, 1, (given.message,), waking)
        case i.RemoveMessage():
            if (place := kernel.inbox.locate(given.message_id)) is not None:
                _change(kernel, *place, 1, ())
        case i.ClearInbox():
            _clear(kernel)
        case i.EditMessage():
            _edit(kernel, given)
        case _:
            _steer(kernel, given)


def _replays_the_newest(kernel: Kernel) -> None:
    if not kernel.allows(REPLAY) or kernel.holds_back:
        return
    if kernel.poised:
        kernel.inbox.next_turn.reverse()
        kernel.fire(REPLAY)
        return
    kernel.latched = False
    park(kernel)


def _ends_and_then_records(kernel: Kernel) -> None:
    assert kernel.cause is not None
    if kernel.turn_open:
        kept = list(kernel.claimed) if kernel.keep else []
        for message in kernel.claimed:
            if message not in kept:
                kernel.out.append(Settle(message.id, Rejected("aborted")))
        kernel.end_turn(Aborted(kernel.cause))
        for message in kept:
            record_message(kernel, message, Admitted(kernel.turn, None))
    kernel.cause, kernel.keep = None, False


def _does_not_hear_a_cancel(kernel: Kernel, cause: Any, keep: bool) -> None:
    if kernel.gone or kernel.owed == "proceed":
        return
    if kernel.allows(CANCEL):
        _abort(kernel, CANCEL, cause, keep)
    elif not keep:
        _clear(kernel)
        kernel.latched = False


def _drops_the_wake_of_a_cancel(kernel: Kernel, given: Any) -> None:
    if not kernel.allows(DISPOSE):
        return
    if kernel.allows(MAINTAIN):
        kernel.fire(DISPOSE)
        return
    _abort(kernel, DISPOSE, kernel.cause, given.keep_inbox)


_ALL = (
    Fault("lost wake on cancel", ("L2", "D4"), calls.replayed, _forgets_the_latch),
    Fault("duplicate delivery", ("I5", "I6"), Kernel.claim, _claims_and_keeps),
    Fault("late steer dropped", ("T4", "D6"), vars(outcomes)["_stopped"], _ignores_late_steering),
    Fault("answer after dispose", ("L9", "O4"), outcomes.outcome, _recovers_after_dispose),
    Fault("second turn end", ("N3",), Kernel.end_turn, _ends_aborted_turns_twice),
    Fault("result swallowed by cancel", ("C4", "K6"), vars(outcomes)["_call_settled"], _swallows_late_results),
    Fault("claimed message lost on keep_inbox", ("C6", "N2"), verbs.end_aborted, _loses_what_was_to_be_kept),
    Fault("passive context waking", ("C7", "D7"), vars(outcomes)["_hand_over"], _lets_contexts_press),
    Fault("injected message pressing", ("D7",), calls.insert, _lets_everything_press),
    Fault("latch tied to nothing", ("D5",), calls.inbox_operation, _leaves_the_latch),
    Fault("FIFO broken by replay", ("I5",), calls.replayed, _replays_the_newest),
    Fault("event after turn end", ("N4", "T10"), verbs.end_aborted, _ends_and_then_records),
    Fault("request after cancel", ("C9", "C3"), calls.cancel, _does_not_hear_a_cancel),
    Fault("dispose without its cause", ("O4", "C2"), calls.dispose, _drops_the_wake_of_a_cancel),
)

FAULTS: dict[str, Fault] = {fault.name: fault for fault in _ALL}
"""The faults by name."""
