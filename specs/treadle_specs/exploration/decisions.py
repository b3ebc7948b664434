"""What each input must lead to (§2–§8): the contract's table, read as conditions on what was done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel
from treadle.kernel.lifecycle import (
    ADMISSION,
    CANCEL_CONVERGENCE,
    DISPOSAL,
    DISPOSED,
    IDLE,
    MAINTENANCE,
    STEP,
    TURN_STOPPING,
)
from treadle.kernel.pending import NEXT_STEP, NEXT_TURN, normalize
from treadle.words import reasons as why

from .fold import Fold
from .node import Pending
from .violation import require

ACTIVE = (ADMISSION, STEP, TURN_STOPPING, MAINTENANCE)
"""States in which something can be cancelled (§2)."""


def decide(fold: Fold, after: Kernel) -> None:
    """Check that the input led to what the contract says.

    Raises:
        Violation: it led elsewhere.
    """
    kind: type[object] = fold.given.__class__
    if fold.before.cause is not None and kind in _ENDINGS:
        _converged(fold, after)
    else:
        _DECISIONS[kind](fold, after, fold.given)


def _begins(fold: Fold, operation: Any, rule: str) -> None:
    require(fold.begun == [operation], rule, "begins {}, not {}", fold.begun, operation)


# --- calls ------------------------------------------------------------------------------------------------------------


def _delivered(fold: Fold, after: Kernel, given: i.Deliver) -> None:
    """A delivery lands at the end of its list; under a cancel a wake goes to next-turn (D1, D4, D6)."""
    require(not fold.ended, "D6", "a delivery ends a turn")
    if fold.opened:
        return
    moved = given.wakeup and fold.before.cause is not None and not given.own
    expected = {NEXT_TURN: list(fold.view.turns), NEXT_STEP: list(fold.view.steps)}
    expected[NEXT_TURN if moved else given.target].append((given.message.id, given.wakeup))
    require(fold.lists == expected, "D4" if moved else "D1", "the inbox is {}, not {}", fold.lists, expected)
    require(after.state is fold.before.state and not fold.begun, "D6", "a delivery leads to {}", after.state)


def _spliced(fold: Fold, after: Kernel, given: Any) -> None:
    """An inbox operation changes the inbox as it says and nothing else (I2, I7, I9)."""
    expected: dict[str, list[Pending]] = {NEXT_TURN: list(fold.view.turns), NEXT_STEP: list(fold.view.steps)}
    match given:
        case i.Splice():
            entries = expected[given.target]
            start, count = normalize(len(entries), given.start, given.delete_count)
            known = dict(entries[start : start + count])
            entries[start : start + count] = [(new.id, known.get(new.id, False)) for new in given.inserted]
        case i.RemoveMessage():
            expected = {target: _without(entries, given.message_id) for target, entries in expected.items()}
        case i.ReplaceMessage():
            old, new = given.message_id, given.message.id
            for target, entries in expected.items():
                expected[target] = [(new if at == old else at, waking) for at, waking in entries]
        case i.ClearInbox():
            expected = {NEXT_TURN: [], NEXT_STEP: []}
        case i.SteerMessage():
            expected[NEXT_TURN] = _without(expected[NEXT_TURN], given.message_id)
            expected[NEXT_STEP].append((given.message_id, True))
        case _:
            pass
    require(fold.lists == expected, "I2", "the inbox is {}, not {}", fold.lists, expected)
    still = after.state is fold.before.state and not fold.begun and not fold.ended
    require(still, "I2", "an inbox operation does more than change the inbox")


def _without(entries: list[Pending], message_id: str) -> list[Pending]:
    return [entry for entry in entries if entry[0] != message_id]


def _cancelled(fold: Fold, after: Kernel, given: i.Cancel) -> None:
    """A cancel stops what is active, at once and once; without ``keep_inbox`` it clears (C1, C2, C3)."""
    before = fold.before
    if before.state is DISPOSAL or before.state is DISPOSED:
        require(not fold.told, "C1", "a cancel during disposal does something")
        return
    active = before.state in ACTIVE
    expected = CANCEL_CONVERGENCE if active else before.state
    require(after.state is expected, "C3", "a cancel leads to {}", after.state)
    _stopped(fold, after, given.cause, given.keep_inbox, active)


def _disposed(fold: Fold, after: Kernel, given: i.Dispose) -> None:
    """A dispose stops what is active with cause ``disposed``, unless cancelled already; a second one joins (O4)."""
    before = fold.before
    if before.state is DISPOSAL or before.state is DISPOSED:
        require(not fold.told and not fold.begun, "O4", "a second dispose does something")
        return
    expected = DISPOSED if before.state is IDLE else DISPOSAL
    require(after.state is expected, "O4", "a dispose leads to {}", after.state)
    _stopped(fold, after, why.ByDisposal(), given.keep_inbox, before.state in ACTIVE)


def _stopped(fold: Fold, after: Kernel, cause: why.Cause, keep: bool, active: bool) -> None:
    before = fold.before
    expected = before.inbox.ids if keep else {}
    require(after.inbox.ids == expected, "C1", "pending are {}, not {}", after.inbox.ids, expected)
    require(fold.aborted is active, "C3", "the signal is set: {}", fold.aborted)
    require(fold.requested is active, "C2", "the cancel is told: {}", fold.requested)
    first = (cause, keep) if active else (before.cause, before.keep)
    require((after.cause, after.keep) == first, "C2", "cause and keep are {} {}", after.cause, after.keep)
    require(after.owed is before.owed and not fold.ended, "C4", "a cancel does not wait for what was started")


def _maintenance_begun(fold: Fold, after: Kernel, _: i.BeginMaintenance) -> None:
    """Maintenance takes the state in the call, and status stays idle (M1, M2)."""
    require(after.state is MAINTENANCE and not fold.told, "M1", "maintenance leads to {}", after.state)
    _begins(fold, fx.Maintain(), "M1")


def _reserved(fold: Fold, after: Kernel, _: i.Reserve) -> None:
    """A reservation holds back, and does nothing else (D8)."""
    require(after.reserved and after.state is fold.before.state and not fold.told, "D8", "it is not reserved")


def _released(fold: Fold, after: Kernel, _: i.Unreserve) -> None:
    """A release leaves nothing held back (D8, O0)."""
    require(not after.reserved and not after.held, "D8", "admission is still held back")
    require(fold.opened or after.state is fold.before.state, "D8", "a release leads to {}", after.state)


# --- outcomes ---------------------------------------------------------------------------------------------------------


def _converged(fold: Fold, after: Kernel) -> None:
    """Once the operation is over the cancelled activity ends, whatever its outcome, and the latch decides (C4, C8, N7)."""
    before = fold.before
    disposing = before.state is DISPOSAL
    rule = "O4" if disposing else "C4"
    require(len(fold.ended) == int(before.turn_open), rule, "the cancelled turn does not end")
    require(after.state is (DISPOSED if disposing else IDLE), rule, "convergence ends in {}", after.state)
    require(fold.reread is not disposing, "H4", "latch and inbox are read again: {}", fold.reread)
    require(after.inbox.ids == before.inbox.ids, rule, "convergence changes the inbox")
    require(fold.errors == int(type(fold.given) is i.Failed), "L1", "a failure during convergence is not told")
    recorded = [fate for fate in fold.fates.values() if type(fate) is fx.Admitted]
    require(before.keep or not recorded, "C6", "a batch that was to end is recorded")


def _entered(fold: Fold, after: Kernel, given: i.Entered) -> None:
    """A batch, or results owed to the model, open a step; an empty one does not (T2, T3, T8)."""
    if given.messages or fold.before.owes:
        require(fold.steps == 1 and after.state is STEP, "T2", "the step was not entered, but {}", after.state)
        _begins(fold, fx.Request(after.turn, after.step, 1), "T1")
        require(after.series is given.series, "Q12", "the series is lost")
        return
    require(not fold.steps, "T8", "an empty batch spends a model call")
    if fold.view.presses:
        _another(fold, after, owes=False)
    else:
        require(fold.ended, "T8", "nothing is owed, and the turn goes on")


def _step_over(fold: Fold, after: Kernel, _: i.Input) -> None:
    """After a step: another one while results are owed or something presses, else the question for the end (T3, T5)."""
    schedule = fold.before.schedule
    owes = schedule is not None and not schedule.concluded
    if owes or fold.view.presses:
        _another(fold, after, owes=owes)
        return
    require(not fold.ended and after.state is TURN_STOPPING, "T4", "the turn rests in {}", after.state)
    _begins(fold, fx.Stop(after.turn), "T4")


def _stopping_over(fold: Fold, after: Kernel, _: i.Stopped) -> None:
    """Whoever objects steers; the inbox decides (T4)."""
    if fold.view.presses:
        _another(fold, after, owes=False)
    else:
        require(fold.ended, "T4", "nothing is owed, and the turn goes on")


def _another(fold: Fold, after: Kernel, *, owes: bool) -> None:
    """Another step of the same turn, or its end at the step limit, before anything is claimed (T3, D6, T11)."""
    before = fold.before
    if before.max_steps is not None and before.step >= before.max_steps:
        require(fold.ended and type(fold.ended[0]) is why.Errored, "T11", "the step limit is not kept")
        require(after.inbox.ids == before.inbox.ids, "T11", "steering is not left parked")
        return
    require(not fold.ended and after.state is ADMISSION, "T3", "no further step, although one is due")
    require(after.owes is owes, "T3", "results owed to the model: {}", after.owes)


def _ends(fold: Fold, after: Kernel, _: i.Input) -> None:
    """A rejection or failure ends the turn; the inbox stays parked (L3, T9)."""
    require(fold.ended and after.state is IDLE, "L3", "the turn ended {}, in {}", fold.ended, after.state)
    require(after.inbox.ids == fold.before.inbox.ids, "L3", "the inbox does not stay parked")


def _answered(fold: Fold, after: Kernel, given: i.Answered) -> None:
    """A whole answer is recorded, also under a cancel, and its calls are run or settled (T3, T6, C5)."""
    before = fold.before
    require(fold.asked == [call.call_id for call in given.calls], "C5", "the answer is not recorded whole")
    require(after.truncated is (before.truncated or given.truncated), "T6", "truncated is {}", after.truncated)
    require(after.state is before.state, "C4", "an answer leads to {}", after.state)
    _begins(fold, fx.RunTools(before.turn, before.step, given.calls) if given.calls else fx.PROCEED, "T3")


def _attempt_failed(fold: Fold, after: Kernel, given: i.AttemptFailed) -> None:
    """A failed attempt asks for recovery, in the same step (H6)."""
    _begins(fold, fx.Recover(fold.before.turn, fold.before.step, given.failure, given.error), "H6")
    require(after.state is STEP, "H6", "recovery runs in {}", after.state)


def _retried(fold: Fold, after: Kernel, _: i.Retried) -> None:
    """A retry is another attempt of the same step (H6)."""
    before = fold.before
    _begins(fold, fx.Request(before.turn, before.step, before.attempt + 1), "H6")
    require(after.state is STEP, "H6", "the retry runs in {}", after.state)


def _maintenance_over(fold: Fold, after: Kernel, _: i.Maintained) -> None:
    """Afterwards the agent is idle, or serves the latched wake (M3)."""
    require(after.state is (ADMISSION if fold.opened else IDLE), "M3", "released to {}", after.state)
    require(fold.opened or not fold.begun, "M3", "something begins after maintenance")


# --- progress ---------------------------------------------------------------------------------------------------------


def _prepared(fold: Fold, after: Kernel, _: i.Prepared) -> None:
    """The accepted batch enters the history, unless a cancel came first (T1, C6)."""
    before = fold.before
    _reports_only(fold, after)
    expected = before.accepted if before.cause is not None else ()
    require(after.accepted == expected, "T1", "accepted and not recorded: {}", after.accepted)
    require(before.cause is not None or not after.series, "Q12", "the series does not begin")


def _reports_only(fold: Fold, after: Kernel) -> None:
    still = after.state is fold.before.state and after.owed is fold.before.owed
    require(still and not fold.begun and not fold.ended, "L7", "progress does more than report")


def _progress(fold: Fold, after: Kernel, given: Any) -> None:
    """Progress of an operation neither ends nor begins one; contexts press or stay, or are dropped (C7, T5)."""
    _reports_only(fold, after)
    if type(given) is not i.CallSettled:
        return
    before = fold.before
    entries = list(fold.view.steps)
    if before.state is not DISPOSAL:
        taken = fold.view.live
        for message in given.contexts:
            if message.id not in taken:
                entries.append((message.id, before.cause is None))
                taken.add(message.id)
        handed = len(entries) - len(fold.view.steps)
        require(fold.errors == len(given.contexts) - handed, "N8", "a refused context is not told")
    require(fold.lists[NEXT_STEP] == entries, "C7", "next-step holds {}, not {}", fold.lists[NEXT_STEP], entries)
    concluded = before.schedule.concluded if before.schedule is not None else False
    concludes = given.result.concludes_turn and not given.result.is_error
    now = after.schedule is not None and after.schedule.concluded
    require(now is (concluded or concludes), "T5", "the turn is concluded: {}", now)


def _finished(fold: Fold, after: Kernel, given: i.CallFinished) -> None:
    """What a body came to counts, also under a cancel; otherwise the result says how it was stopped (C4, K6)."""
    _reports_only(fold, after)
    match given.ending:
        case i.Returned():
            code = None
        case i.LetThrough():
            code = "ABORTED" if given.ending.started else "ABORTED_BEFORE_DISPATCH"
        case i.TimedOut():
            code = "TOOL_TIMEOUT"
    chosen = after.schedule.stand_ins.get(given.index) if after.schedule is not None else None
    require((chosen.code if chosen is not None else None) == code, "C4", "{} gets the result {}", given.ending, chosen)


def _proceeds(fold: Fold, after: Kernel, given: i.Replayed) -> None:
    """Reading again replays or leaves things as they are (H4)."""
    require(fold.opened or after.state is fold.before.state, "H4", "reading again leads to {} {}", after.state, given)


_ENDINGS = frozenset[Any](
    {
        *(i.Entered, i.Refused, i.AttemptFailed, i.Retried, i.ToolsSettled, i.Stopped, i.Maintained, i.Failed),
        *(i.Interrupted, i.Proceeded),
    }
)
"""Inputs that end the operation, and with it a cancelled activity. A whole answer does not: its calls come first."""

_DECISIONS: dict[Any, Callable[[Fold, Kernel, Any], None]] = {
    i.Deliver: _delivered,
    i.Splice: _spliced,
    i.ReplaceMessage: _spliced,
    i.RemoveMessage: _spliced,
    i.ClearInbox: _spliced,
    i.EditMessage: _spliced,
    i.SteerMessage: _spliced,
    i.Cancel: _cancelled,
    i.Dispose: _disposed,
    i.BeginMaintenance: _maintenance_begun,
    i.Reserve: _reserved,
    i.Unreserve: _released,
    i.Entered: _entered,
    i.Refused: _ends,
    i.Failed: _ends,
    i.Answered: _answered,
    i.AttemptFailed: _attempt_failed,
    i.Retried: _retried,
    i.ToolsSettled: _step_over,
    i.Proceeded: _step_over,
    i.Stopped: _stopping_over,
    i.Maintained: _maintenance_over,
    i.Prepared: _prepared,
    i.AttemptRecorded: _progress,
    i.CallStarted: _progress,
    i.CallRefused: _progress,
    i.CallFinished: _finished,
    i.CallSettled: _progress,
    i.CallDropped: _progress,
    i.Replayed: _proceeds,
}
