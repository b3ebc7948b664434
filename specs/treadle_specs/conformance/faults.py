"""Faults to plant in our own driver: each breaks one promise, and every layer that can see it must say so (§8)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from attrs import frozen

from treadle import Cause, State
from treadle.kernel import commands as calls
from treadle.kernel import inputs as i
from treadle.kernel import kernel as kernels
from treadle.kernel import outcomes, verbs
from treadle.kernel.effects import Record
from treadle.kernel.pending import NEXT_TURN, Inbox
from treadle.kernel.state import KernelState, Verb
from treadle.loop import runner
from treadle.session import StepEnd
from treadle.testing import LIFECYCLE, TABLE, Row, Trigger

Patch = tuple[Any, Any, Any]


@frozen
class Fault:
    """One planted fault.

    Attributes:
        name: what goes wrong.
        rules: what it breaks.
        rows: rows of the lifecycle table with other verbs.
        patches: makes (owner, name, replacement) for what is wrong elsewhere.
        seen_by: the layer beside the stateful suite that catches it.
    """

    name: str
    rules: tuple[str, ...]
    rows: tuple[Row, ...] = ()
    patches: Callable[[], Sequence[Patch]] = tuple
    seen_by: str = "explorer"

    @property
    def table(self) -> tuple[Row, ...]:
        """The whole lifecycle table with the fault in it."""
        changed = {(row.source, row.trigger): row for row in self.rows}
        return tuple([changed.get((row.source, row.trigger), row) for row in TABLE])


@contextmanager
def planted(fault: Fault) -> Generator[Fault]:
    """Have the fault in every driver of this process while the block runs."""
    patches = [(LIFECYCLE.move(row.source, row.trigger), "row", row) for row in fault.rows] + [*fault.patches()]
    kept = [(owner, name, _value(owner, name)) for owner, name, _ in patches]
    try:
        for owner, name, replacement in patches:
            _put(owner, name, replacement)
        yield fault
    finally:
        for owner, name, before in kept:
            _put(owner, name, before)


def _value(owner: Any, name: Any) -> Any:
    held = cast("dict[Any, Any]", owner if type(owner) is dict else vars(owner))
    return held[name]


def _put(owner: Any, name: Any, value: Any) -> None:
    if isinstance(owner, dict):
        owner[name] = value
    else:
        setattr(owner, name, value)


# --- what goes wrong --------------------------------------------------------------------------------------------------


def _row(source: State, trigger: Trigger, *doing: Verb) -> Row:
    return Row(source, trigger, LIFECYCLE.move(source, trigger).row.dest, doing)


def _forgets_keep(state: KernelState) -> None:
    state.keep = False
    verbs.end_aborted(state)


def _claims_the_last(state: KernelState) -> None:
    pending = state.inbox.list_of(NEXT_TURN)
    pending.insert(0, pending.pop()) if pending else None
    verbs.claim_turn(state)


def _step_end_again(state: KernelState) -> None:
    state.out.append(Record(StepEnd(state.turn, 1)))


def _records_twice() -> list[Patch]:
    admit = KernelState.admit_accepted

    def twice(state: KernelState) -> None:
        accepted = state.accepted
        admit(state)
        state.accepted = accepted

    return [(KernelState, "admit_accepted", twice)]


def _drops_late_steering() -> list[Patch]:
    return [(outcomes, "_stopped", outcomes._close)]  # pyright: ignore[reportPrivateUsage]  # the fault's place


def _swallows_results() -> list[Patch]:
    settled: Any = outcomes._call_settled  # pyright: ignore[reportPrivateUsage]  # the fault's place

    def swallow(state: KernelState, schedule: Any, given: i.CallSettled) -> None:
        if state.cause is None:
            settled(state, schedule, given)
            return
        started = schedule.settle(given.index)
        state.record_missing_result(given.index, "ABORTED_BEFORE_DISPATCH", with_call=not started)

    return [(outcomes, "_call_settled", swallow)]


def _everything_presses() -> list[Patch]:
    return [(Inbox, "presses", property(lambda inbox: bool(inbox.next_step)))]


def _keeps_the_latch() -> list[Patch]:
    def keeps(state: KernelState, given: Any) -> None:
        latched = state.latched
        calls.inbox_operation(state, given)
        state.latched = latched

    takers: Any = kernels._TAKERS  # pyright: ignore[reportPrivateUsage]  # the fault's place
    return [(takers, kind, keeps) for kind, taker in takers.items() if taker is calls.inbox_operation]


def _goes_on_after_a_cancel() -> list[Patch]:
    abort: Any = runner.Runner.abort

    def only_signals(self: Any, cause: Cause) -> None:
        scope, self._scope = self._scope, None
        abort(self, cause)
        self._scope = scope

    return [(runner.Runner, "abort", only_signals)]


def _cause_of_the_last() -> list[Patch]:
    def overrules(state: KernelState, given: i.Cancel) -> None:
        calls.cancel(state, given)
        if state.cause is not None and not state.gone:
            state.cause = given.cause

    takers: Any = kernels._TAKERS  # pyright: ignore[reportPrivateUsage]  # the fault's place
    return [(takers, i.Cancel, overrules)]


def _never_duplicate() -> list[Patch]:
    def pending_only(state: KernelState, message_id: str) -> bool:
        return message_id in state.inbox.ids

    return [(KernelState, "taken", pending_only)]


def _clears_untold() -> list[Patch]:
    def empty(state: KernelState, target: Any) -> list[Any]:
        count = len(state.inbox.list_of(target))
        return [entry.message for entry in state.inbox.splice(target, 0, count)]

    return [(calls, "_empty", empty)]


S, T = State, Trigger
FAULTS: tuple[Fault, ...] = (
    Fault("a wake is lost on cancel", ("D4", "L2"), (_row(S.CANCEL_CONVERGENCE, T.WAKE),)),
    Fault("a message is delivered twice", ("N2", "I5"), patches=_records_twice),
    Fault("late steering is dropped", ("D6", "T4"), patches=_drops_late_steering),
    Fault("an answer arrives after dispose", ("O4", "L9"), (_row(S.STEP, T.DISPOSE),)),
    Fault(
        "a turn ends twice",
        ("N3",),
        (_row(S.TURN_STOPPING, T.CLOSE, verbs.close_turn, verbs.close_turn, verbs.stop_running),),
    ),
    Fault("a cancel swallows a result", ("K6", "C4"), patches=_swallows_results),
    Fault(
        "keep_inbox loses what was claimed",
        ("C6", "N2"),
        (_row(S.CANCEL_CONVERGENCE, T.CONVERGE, verbs.close_step, _forgets_keep, verbs.stop_running, verbs.reread),),
    ),
    Fault("passive contexts wake", ("D7",), patches=_everything_presses),
    Fault("a latch is tied to nothing", ("D5",), patches=_keeps_the_latch),
    Fault(
        "a replay breaks the queue's order",
        ("I5",),
        (_row(S.IDLE, T.REPLAY, verbs.drop_latch, verbs.start_running, verbs.open_turn, _claims_the_last),),
    ),
    Fault(
        "an event follows the turn's end",
        ("N4", "T10"),
        (_row(S.TURN_STOPPING, T.CLOSE, verbs.close_turn, _step_end_again, verbs.stop_running),),
    ),
    Fault("a request follows a cancel", ("C9", "C4"), patches=_goes_on_after_a_cancel, seen_by="sweep"),
    Fault("the last cause wins", ("C2",), patches=_cause_of_the_last),
    Fault("a recorded id is taken again", ("I1",), patches=_never_duplicate),
    Fault("a cancel clears without a record", ("I6", "C3"), patches=_clears_untold),
    Fault("maintenance loses a wake", ("M2", "D4"), (_row(S.MAINTENANCE, T.WAKE),)),
)
"""The faults that the project's own tests plant."""
