"""What must hold of every commit and in every state.

A law compares what the kernel did, as its effects add up, with what the contract wants. None looks at the lifecycle
table: they would hold of any kernel that keeps the contract.
"""

from __future__ import annotations

from typing import Any

from treadle import State
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
from treadle.kernel.pending import NEXT_STEP, NEXT_TURN
from treadle.words import reasons as why

from .decisions import decide
from .fold import Fold
from .node import Pending, View
from .violation import require

CONVERGING = (CANCEL_CONVERGENCE, DISPOSAL)
IN_TURN = (ADMISSION, STEP, TURN_STOPPING)

_FITS: dict[State, tuple[Any, ...]] = {
    IDLE: (),
    DISPOSED: (),
    ADMISSION: (fx.Admit,),
    STEP: (fx.Request, fx.Recover, fx.RunTools, str),
    TURN_STOPPING: (fx.Stop,),
    MAINTENANCE: (fx.Maintain,),
}


def check_commit(
    before: Kernel, view: View, given: i.Input, effects: tuple[fx.Effect, ...], after: Kernel, *, reread: bool
) -> tuple[Fold, View]:
    """Check one accepted input.

    Args:
        before: the kernel as it was.
        view: what the laws compare of it.
        given: the input.
        effects: what the kernel asked for.
        after: the kernel as it is now.
        reread: whether ``Replayed`` was still due before.

    Returns:
        The fold of the commit, and the view of the kernel as it is now.

    Raises:
        Violation: a rule is broken.
    """
    fold = Fold(before, view, given)
    fold.take(effects)
    now = View(after)
    told_the_truth(fold, after, now)
    coherent(after, now, reread=fold.reread or (reread and type(given) is not i.Replayed))
    once_gone(fold, after)
    if fold.ended:
        reasons(fold)
    claims(fold, after)
    opening(fold, after)
    latching(fold, after)
    parking(fold, after)
    decide(fold, after)
    return fold, now


# --- every state ------------------------------------------------------------------------------------------------------


def told_the_truth(fold: Fold, after: Kernel, now: View) -> None:
    """Log and notifications add up to the kernel's own state (I6, L5, T10, I5)."""
    require(fold.turn_open is after.turn_open and fold.turn == after.turn, "T10", "the log's turn is not the kernel's")
    require(fold.step_open is after.step_open and fold.step == after.step, "T10", "the log's step is not the kernel's")
    require(fold.running is after.running, "L5", "the status told is not the kernel's")
    require(fold.lists[NEXT_TURN] == now.turns, "I6", "next-turn is {}, not {}", now.turns, fold.lists)
    require(fold.lists[NEXT_STEP] == now.steps, "I6", "next-step is {}, not {}", now.steps, fold.lists)
    require(fold.claimed == now.claimed, "I5", "claimed are {}, not {}", now.claimed, fold.claimed)
    require(fold.accepted == now.accepted, "I5", "accepted are {}, not {}", now.accepted, fold.accepted)
    require(fold.asked == now.asked, "N1", "results are due for {}, and the log wants {}", now.asked, fold.asked)


def coherent(kernel: Kernel, now: View, *, reread: bool) -> None:
    """State, owed operation, status and latch fit each other (L5, L6, L7, D5)."""
    state, owed = kernel.state, kernel.owed
    if state in CONVERGING:
        require(owed is not None, "L7", "{} waits for nothing", state)
        require(kernel.cause is not None, "C2", "{} without a cause", state)
    else:
        fits = owed is None if not _FITS[state] else isinstance(owed, _FITS[state])
        require(fits, "L7", "{} is owed in {}", owed, state)
        require(kernel.cause is None and not kernel.keep, "C2", "a cause is left in {}", state)
        require(kernel.turn_open is (state in IN_TURN), "T10", "turn_open is {} in {}", kernel.turn_open, state)
        require(kernel.step_open is (state is STEP), "T10", "step_open is {} in {}", kernel.step_open, state)
    require(kernel.running is kernel.turn_open, "L5", "status running is {} in {}", kernel.running, state)
    require((kernel.schedule is not None) is (type(owed) is fx.RunTools), "N1", "calls are kept beyond their step")
    if not kernel.turn_open:
        require(not now.claimed and not now.accepted, "I5", "a batch is left outside a turn")
        require(not (kernel.truncated or kernel.owes or kernel.series), "T6", "a turn leaks into the next")
    if kernel.latched and state is not DISPOSAL and state is not DISPOSED:
        _latch_is_tied(kernel, now, reread=reread)
    if kernel.reserved or kernel.held:
        require(state is IDLE or state is DISPOSED, "D8", "admission is held back in {}", state)
    ids = kernel.inbox.ids
    fits = len(ids) == len(now.turns) + len(now.steps)
    for message_id, _ in now.turns:
        fits = fits and ids.get(message_id) == NEXT_TURN
    for message_id, _ in now.steps:
        fits = fits and ids.get(message_id) == NEXT_STEP
    require(fits, "I1", "the index of pending ids is {}", ids)


def _latch_is_tied(kernel: Kernel, now: View, *, reread: bool) -> None:
    require(now.turns or now.presses, "D5", "a latched wake is tied to nothing")
    require(kernel.state not in IN_TURN, "D4", "a wake is latched in {}", kernel.state)
    replays = kernel.state is not IDLE or kernel.reserved or kernel.held or reread
    require(replays, "L2", "a wake is lost: idle, and nothing replays it")


def once_gone(fold: Fold, after: Kernel) -> None:
    """Nothing is accepted or begun after a dispose; it ends in ``disposed`` and stays there (L9, O4, I5)."""
    before = fold.before.state
    if before is DISPOSAL or before is DISPOSED:
        require(not fold.opened and not fold.steps and not fold.news, "L9", "something starts after the dispose")
        require(after.state is before or after.state is DISPOSED, "O4", "from {} to {}", before, after.state)
        require(fold.before.inbox.ids == after.inbox.ids, "L9", "the inbox changes after the dispose")
    if before is DISPOSED:
        require(not fold.told and not fold.begun, "O4", "something happens once disposed")
    ends = after.state is DISPOSED and before is not DISPOSED
    require(fold.finished is ends, "O4", "the end is told: {}, in {}", fold.finished, after.state)
    require(not ends or not (after.latched or after.reserved), "O4", "a latch or reservation outlives the agent")


# --- turns ------------------------------------------------------------------------------------------------------------


def reasons(fold: Fold) -> None:
    """A turn's end says why: the first cause, the failure, the rejection, or completion (T6, T7, C2, C11)."""
    require(len(fold.ended) == 1, "N3", "{} turns end in one commit", len(fold.ended))
    (reason,) = fold.ended
    given, before = fold.given, fold.before
    if before.cause is not None:
        require(reason == why.Aborted(before.cause), "C2", "cancelled by {} and ended {}", before.cause, reason)
    elif type(given) is i.Refused:
        require(reason == why.Blocked(given.detail), "T7", "rejected and ended {}", reason)
    elif type(given) is i.Failed:
        require(reason == why.Errored(given.failure), "T9", "failed and ended {}", reason)
        require(fold.errors == 1, "N8", "a failure ended the turn and was not told")
    elif fold.errors:
        limit = type(reason) is why.Errored and reason.failure.code == "STEP_LIMIT"
        require(limit, "T11", "the step limit ended the turn {}", reason)
    else:
        expected = why.MAX_TOKENS if before.truncated else why.COMPLETED
        require(reason == expected, "T6", "the turn ended {}, not {}", reason, expected)


def claims(fold: Fold, after: Kernel) -> None:
    """A claim takes all of next-step, at a turn boundary then the first next-turn entry, in order (I5)."""
    admits = [operation for operation in fold.begun if type(operation) is fx.Admit]
    if not admits:
        require(not fold.claims, "I5", "something is claimed for no step")
        return
    due = {NEXT_TURN: list(fold.view.turns), NEXT_STEP: list(fold.view.steps)}
    given = fold.given
    if type(given) is i.Deliver:
        due[given.target].append((given.message.id, given.wakeup))
    expected = [message_id for message_id, _ in due[NEXT_STEP]]
    prompt = None
    if fold.opened and due[NEXT_TURN]:
        prompt = due[NEXT_TURN].pop(0)[0]
        expected.append(prompt)
    require(fold.claims == expected, "I5", "claimed {}, due were {}", fold.claims, expected)
    require(not fold.lists[NEXT_STEP], "I5", "a claim leaves {} in next-step", fold.lists)
    require(fold.lists[NEXT_TURN] == due[NEXT_TURN], "I5", "a claim leaves {} in next-turn", fold.lists)
    (admit,) = admits
    require([message.id for message in admit.batch] == expected, "I5", "the batch is {}", admit.batch)
    require((admit.prompt.id if admit.prompt is not None else None) == prompt, "H10", "the prompt is {}", admit.prompt)
    require((admit.turn, admit.step) == (after.turn, after.step + 1), "L4", "{} is not next", admit)


def opening(fold: Fold, after: Kernel) -> None:
    """A turn opens when a wake says so, and only then (L2, D4, D7, M2, §2)."""
    before, given = fold.before, fold.given
    kind: type[object] = given.__class__
    due, rule = False, "D7"
    if kind is i.Deliver:
        due, rule = before.state is IDLE and not before.holds_back and given.wakeup, "L2"
    elif kind is i.Unreserve or (kind is i.Replayed and not before.holds_back):
        due, rule = before.state is IDLE and _poised(fold), "D4"
    elif kind is i.Maintained:
        due, rule = before.cause is None and _poised(fold), "M2"
    elif fold.ended and type(fold.ended[0]) in (why.Completed, why.MaxTokens):
        due, rule = bool(fold.view.turns), "I5"
    require(fold.opened == int(due), rule, "{} turns open, {} were due", fold.opened, int(due))
    if fold.ended and not due:
        require(after.state is IDLE or after.state is DISPOSED, "L3", "the turn ended, and then {}", after.state)


def _poised(fold: Fold) -> bool:
    return fold.before.latched and bool(fold.view.turns or fold.view.presses)


def latching(fold: Fold, after: Kernel) -> None:
    """A wake is kept exactly while it cannot be served and still finds work (D4, D5, D8, M2)."""
    if after.state is DISPOSAL or after.state is DISPOSED:
        return
    before, given = fold.before, fold.given
    latched = before.latched
    match given:
        case i.Deliver():
            serves = given.wakeup and not (before.cause is not None and given.own)
            waits = before.state is CANCEL_CONVERGENCE or before.state is MAINTENANCE or before.holds_back
            latched = latched or (serves and waits)
        case i.Cancel():
            latched = latched and given.keep_inbox
        case i.Replayed():
            latched = latched and (before.holds_back or before.state is not IDLE)
        case i.Unreserve():
            latched = False
        case i.Maintained():
            latched = latched and before.cause is not None
        case i.Splice() | i.ReplaceMessage() | i.RemoveMessage() | i.ClearInbox() | i.EditMessage() | i.SteerMessage():
            latched = latched and _usable(fold.lists)
        case _:
            pass
    latched = latched and not fold.opened
    require(after.latched is latched, "D4" if latched else "D5", "latched is {} after {}", after.latched, given)


def _usable(lists: dict[str, list[Pending]]) -> bool:
    return bool(lists[NEXT_TURN]) or any(presses for _, presses in lists[NEXT_STEP])


def parking(fold: Fold, after: Kernel) -> None:
    """An activity that ends and leaves waking input behind tells so, once nothing will replay it (L3)."""
    before = fold.before
    kind: type[object] = fold.given.__class__
    ended = bool(fold.ended) or kind is i.Maintained
    if kind is i.Replayed:
        ended = before.state is IDLE and not after.latched
    require(ended or fold.parked is None, "L3", "parked was told of {}, and nothing ended", fold.parked)
    silent = not ended or after.state is not IDLE or fold.reread
    if silent and fold.parked is None:
        return
    waking = [message_id for target in (NEXT_STEP, NEXT_TURN) for message_id, wakes in fold.lists[target] if wakes]
    left = tuple(waking) or None
    require(fold.parked == left, "L3", "parked was told of {}, left behind are {}", fold.parked, left)
    require(after.state is IDLE and not after.latched, "L3", "parked although the agent goes on")
