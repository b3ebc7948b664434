"""Faults of the kernel alone, planted as an outsider would: in the code that decides, and where no listener need hear it.

Exploration has to catch each. Beside those of ``faults`` these change what an input does not concern, what is refused,
what stands in which order inside a commit, arithmetic at its bounds, and what others read off the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from treadle import State
from treadle.kernel import commands as calls
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.kernel import kernel as kernels
from treadle.kernel import outcomes
from treadle.kernel.pending import Inbox, normalize
from treadle.kernel.schedule import Schedule
from treadle.kernel.state import KernelState
from treadle.words import events as ev

from .faults import Fault, Patch

Around = Callable[[Callable[[Any, Any], None], Any, Any], None]
"""What is done in the place of a taker: it is given the taker, the kernel's state and the input."""

_TAKERS: Any = kernels._TAKERS  # pyright: ignore[reportPrivateUsage]  # the faults' place


def _around(kind: Any, does: Around) -> Callable[[], Sequence[Patch]]:
    """Have ``does`` take an input of one kind."""
    taker = _TAKERS[kind]

    def instead(state: Any, given: Any) -> None:
        does(taker, state, given)

    return _instead(_TAKERS, kind, instead)


def _instead(owner: Any, name: Any, replacement: Any) -> Callable[[], Sequence[Patch]]:
    return lambda: [(owner, name, replacement)]


# --- what goes wrong, where it takes more than a line -----------------------------------------------------------------


def _reverse_marks(taker: Any, state: Any, given: i.Prepared) -> None:
    """Header and context change places."""
    at = len(state.out)
    taker(state, given)
    marks = [n for n, one in enumerate(state.out) if n >= at and type(getattr(one, "data", None)) in _MARKS]
    if len(marks) == 2:
        first, second = marks
        state.out[first], state.out[second] = state.out[second], state.out[first]


_MARKS = (ev.RequestHeader, ev.RequestContext)


def _series_last(taker: Any, state: Any, given: i.Prepared) -> None:
    """A series' header comes behind the messages that it should stand before."""
    state.series = False
    taker(state, given)


def _second_cancel_decides(taker: Any, state: Any, given: i.Cancel) -> None:
    taker(state, given)
    if state.cause is not None and not given.keep_inbox:
        state.keep = False


def _refused_but_latched(taker: Any, state: Any, given: i.Deliver) -> None:
    """A duplicate is refused, and yet something of it stays."""
    if state.state is State.MAINTENANCE and state.taken(given.message.id) and state.inbox.can_use_wake:
        state.latched = True
    taker(state, given)


def _drops_what_finished(taker: Any, state: Any, given: i.CallDropped) -> None:
    """A call whose body is over is dropped all the same."""
    schedule = state.schedule
    if schedule is None or not 0 <= given.index < len(schedule.calls) or schedule.status[given.index] != "finished":
        taker(state, given)
        return
    if state.cause is None:
        taker(state, given)
    schedule.settle(given.index)
    state.record_missing_result(given.index, "ABORTED_BEFORE_DISPATCH", with_call=False)


def _releases_nothing(taker: Any, state: Any, given: i.Unreserve) -> None:
    if state.holds_back:
        taker(state, given)


def _parks_while_reserved(taker: Any, state: Any, given: i.Replayed) -> None:
    taker(state, given)
    waiting = state.inbox.waking()
    if state.holds_back and state.state is State.IDLE and not state.latched and waiting:
        state.out.append(fx.Publish(fx.Parked(waiting)))


def _error_last(taker: Any, state: Any, given: i.Failed) -> None:
    """A failure under a cancel is told after the turn's end."""
    taker(state, given)
    errors = [one for one in state.out if type(getattr(one, "notice", None)) is fx.ErrorReported]
    if errors and type(state.out[-1]) is fx.Reread:
        state.out.remove(errors[0])
        state.out.insert(-1, errors[0])


def _normalize_loosely(length: int, start: int, delete_count: int) -> tuple[int, int]:
    """A start beyond the end is recorded as it came."""
    resolved, count = normalize(length, start, delete_count)
    return (start if start > length else resolved), count


def _normalize_from_zero(length: int, start: int, delete_count: int) -> tuple[int, int]:
    """A start before the beginning counts from the end again."""
    return normalize(length, start % length if start < 0 and length else start, delete_count)


def _small_pool(schedule: Schedule, parallel: bool) -> bool:
    """Three slots are used as two."""
    return schedule.may_consider and schedule.running < min(schedule.pool, 2) and (parallel or schedule.running == 0)


def _large_pool(schedule: Schedule, parallel: bool) -> bool:
    """One body more than there are slots."""
    unstarted = schedule.next_start < len(schedule.calls) and not schedule.exclusive
    return unstarted and schedule.running <= schedule.pool and (parallel or schedule.running == 0)


def _exclusive_beside(schedule: Schedule, _parallel: bool) -> bool:
    """An exclusive call begins although a parallel one runs."""
    return schedule.may_consider


def _concludes_by_error(state: KernelState, schedule: Schedule, given: i.CallSettled) -> None:
    schedule.concluded = schedule.concluded or given.result.concludes_turn
    _SETTLED(state, schedule, given)


_SETTLED: Any = outcomes._call_settled  # pyright: ignore[reportPrivateUsage]  # the fault's place
_HAND_OVER: Any = outcomes._hand_over  # pyright: ignore[reportPrivateUsage]  # the fault's place


def _contexts_press(state: KernelState, contexts: Any) -> None:
    cause, state.cause = state.cause, None
    _HAND_OVER(state, contexts)
    state.cause = cause


def _passive_steer(state: KernelState, given: i.SteerMessage) -> None:
    _STEER(state, given)
    state.inbox.next_step[-1].waking = False


_STEER: Any = calls._steer  # pyright: ignore[reportPrivateUsage]  # the fault's place


def _objection_beyond_the_limit(state: KernelState) -> None:
    if state.inbox.presses:
        outcomes.fire(state, outcomes.OBJECT)
    else:
        outcomes._close(state)  # pyright: ignore[reportPrivateUsage]  # the fault's place


def _let_through(call_id: str, ending: i.Ending) -> Any:
    """A body that never began is said to have been stopped in the middle."""
    if type(ending) is i.LetThrough:
        ending = msgspec.structs.replace(ending, started=True)
    return _RESULT_OF(call_id, ending)


_RESULT_OF = outcomes.result_of


def _ends_the_reservation(taker: Any, state: Any, given: i.Cancel) -> None:
    taker(state, given)
    state.reserved = False


def _forgets_the_cut(taker: Any, state: Any, given: i.Answered) -> None:
    cut = state.truncated
    taker(state, given)
    if cut and not given.truncated:
        state.truncated = False


def _leaves_owed(taker: Any, state: Any, given: i.Proceeded) -> None:
    taker(state, given)
    state.owes = state.turn_open


def _disposal_takes_over(taker: Any, state: Any, given: i.Dispose) -> None:
    taker(state, given)
    if state.cause is not None:
        state.cause = calls.ByDisposal()


def _idle_although_reserved(state: KernelState) -> bool:
    return state.allows(calls.MAINTAIN) and not state.poised


def _deaf_when_stopping(state: KernelState) -> bool:
    return state.turn_open and state.state in (State.ADMISSION, State.STEP)


def _all_waking(inbox: Inbox) -> tuple[Any, ...]:
    return tuple([entry.message for entry in (*inbox.next_step, *inbox.next_turn)])


def _unchecked(*_: Any) -> None:
    """What should have been refused is not."""


_CHECKS: Any = outcomes._CHECKS  # pyright: ignore[reportPrivateUsage]  # the faults' place

KERNEL_FAULTS: tuple[Fault, ...] = (
    Fault("a cancel ends a reservation", ("D8",), patches=_around(i.Cancel, _ends_the_reservation)),
    Fault("a new answer forgets that one was cut off", ("T6",), patches=_around(i.Answered, _forgets_the_cut)),
    Fault("an answer without calls leaves the results owed", ("T3",), patches=_around(i.Proceeded, _leaves_owed)),
    Fault("a splice beyond the end is recorded as it came", ("I2", "I6"), patches=_instead(calls, "normalize", _normalize_loosely)),
    Fault("a splice before the beginning comes round", ("I2",), patches=_instead(calls, "normalize", _normalize_from_zero)),
    Fault("a series begins behind its messages", ("Q12",), patches=_around(i.Prepared, _series_last)),
    Fault("header and context change places", ("T1",), patches=_around(i.Prepared, _reverse_marks)),
    Fault("a second cancel decides about the batch", ("C2",), patches=_around(i.Cancel, _second_cancel_decides)),
    Fault("a refused delivery leaves a latch", ("I1", "D3"), patches=_around(i.Deliver, _refused_but_latched)),
    Fault("a drop replaces a result", ("K6",), patches=_around(i.CallDropped, _drops_what_finished)),
    Fault("a release of nothing is taken", ("D8",), patches=_around(i.Unreserve, _releases_nothing)),
    Fault("parked is told while admission is reserved", ("L3", "D8"), patches=_around(i.Replayed, _parks_while_reserved)),
    Fault("a failure is told after the turn's end", ("L1", "N4"), patches=_around(i.Failed, _error_last)),
    Fault("three slots are used as two", ("K4",), patches=_instead(Schedule, "may_start", _small_pool)),
    Fault("the pool has a slot too many", ("K4",), patches=_instead(Schedule, "may_start", _large_pool)),
    Fault("an exclusive call runs beside others", ("K4",), patches=_instead(Schedule, "may_start", _exclusive_beside)),
    Fault("an error result concludes the turn", ("T5",), patches=_instead(outcomes, "_call_settled", _concludes_by_error)),
    Fault("contexts press under a cancel", ("C7",), patches=_instead(outcomes, "_hand_over", _contexts_press)),
    Fault("a steered message is passive", ("I3", "I9"), patches=_instead(calls, "_steer", _passive_steer)),
    Fault("an objection takes a turn beyond its limit", ("T11",), patches=_instead(outcomes, "_stopped", _objection_beyond_the_limit)),
    Fault("a body that never began counts as stopped", ("C4",), patches=_instead(outcomes, "result_of", _let_through)),
    Fault("a disposal takes over the cause", ("C2", "O4"), patches=_around(i.Dispose, _disposal_takes_over)),
    Fault("a reserved agent looks idle", ("M1", "L6"), patches=_instead(KernelState, "truly_idle", property(_idle_although_reserved))),
    Fault("a turn about to stop takes no steering", ("D8", "I9"), patches=_instead(KernelState, "accepts_next_step", property(_deaf_when_stopping))),
    Fault("a passive message is told as parked", ("L3",), patches=_instead(Inbox, "waking", _all_waking)),
    Fault("an edited message is told as inserted", ("I4",), patches=_instead(calls, "Updated", fx.Inserted)),
    Fault("a batch may hold what is pending", ("I1", "L1"), patches=_instead(_CHECKS, i.Entered, _unchecked)),
    Fault("an answer is taken before its batch is recorded", ("T1", "L1"), patches=_instead(outcomes, "_check_prepared", _unchecked)),
)  # fmt: skip
"""What exploration alone must catch."""
