"""What can be seen of the kernel, against what the model says: its state, what it led to, and what others read off it."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, cast

from treadle import State
from treadle.kernel import effects as fx
from treadle.kernel.effects import RunTools
from treadle.kernel.kernel import Kernel
from treadle.kernel.pending import Entry
from treadle.words import events as ev
from treadle.words import reasons as why

from ..model.agent import STEP, TURN
from ..model.model import Model
from .violation import Violation

SHARED = ("latched", "reserved", "held", "cause", "turn", "step", "turn_open", "step_open", "running", "last_reason")
_SHARED_OF = attrgetter(*SHARED, "owed")
_RULES = {
    "reserved": "D8",
    "held": "O0",
    "cause": "C2",
    "turn": "L4",
    "step": "L4",
    "turn_open": "T10",
    "step_open": "T10",
    "running": "L5",
    "last_reason": "T7",
    "owed": "L7",
}
_STATES = {state: state.value for state in State}
_IN_KERNEL = {"parallel": "started", "exclusive": "started", "unstarted": "pending"}


def compare(kernel: Kernel, model: Model) -> None:
    """Check that all that can be seen of the kernel is what the model says.

    Raises:
        Violation: something differs.
    """
    if _STATES[kernel.state] != model.state:
        raise Violation("L1", f"the agent is in {kernel.state.value}, not {model.state}")
    if (theirs := _SHARED_OF(kernel)) != (ours := _SHARED_OF(model)):
        _compare_scalars(theirs, ours)
    inbox = kernel.inbox
    if inbox.next_turn or model.next_turn:
        _compare_list(TURN, inbox.next_turn, model.next_turn)
    if inbox.next_step or model.next_step:
        _compare_list(STEP, inbox.next_step, model.next_step)
    if (kernel.claimed or model.claimed) and tuple(kernel.claimed) != model.claimed:
        raise Violation("I5", f"claimed are {kernel.claimed}, not {model.claimed}")
    if kernel.accepted != model.accepted:
        raise Violation("I5", f"accepted are {kernel.accepted}, not {model.accepted}")
    if kernel.turn_ids ^ model.here:
        raise Violation("I1", f"the open turn took {model.here}, and refuses {kernel.turn_ids}")
    if len(inbox.ids) != len(model.next_turn) + len(model.next_step):
        raise Violation("I1", f"the index of pending ids is {inbox.ids}")
    if kernel.schedule is not None or model.modes:
        _compare_calls(kernel, model)


def _compare_scalars(theirs: tuple[Any, ...], ours: tuple[Any, ...]) -> None:
    for name, their, our in zip((*SHARED, "owed"), theirs, ours, strict=True):
        if not _same(their, our):
            rule = _RULES.get(name) or ("D4" if our else "D5")
            raise Violation(rule, f"{name} is {their}, not {our}")


def _compare_list(target: str, entries: list[Entry], expected: tuple[tuple[Any, bool], ...]) -> None:
    if tuple([(entry.message, entry.waking) for entry in entries]) != expected:
        raise Violation("I6", f"{target} is {entries}, not {expected}")


def _same(their: Any, our: Any) -> bool:
    """Whether two values are the same but for the text of a reason that the contract leaves open."""
    limits = [type(one) is why.Errored and one.failure.code == "STEP_LIMIT" for one in (their, our)]
    return all(limits) or their == our


def _compare_calls(kernel: Kernel, model: Model) -> None:
    """What the scheduler reads: how far each call is, and which result stands for it (K4 to K6, C4)."""
    schedule = kernel.schedule
    if schedule is None or type(model.owed) is not RunTools:
        raise Violation("N1", f"calls are kept beyond their step: {schedule} and {model.modes}")
    status = tuple([_IN_KERNEL.get(mode, mode) for mode in model.modes])
    if tuple(schedule.status) != status or schedule.calls != model.calls:
        raise Violation("K5", f"the calls are {schedule.status}, not {status}")
    endings = {index: stand_in.code for index, stand_in in schedule.stand_ins.items()}
    if endings != dict(model.endings):
        raise Violation("C4", f"what stands for the calls is {endings}, not {model.endings}")
    due = next((mode for mode in status if mode != "settled"), None)
    if schedule.due is not (due in ("finished", "refused")) or schedule.done is not (due is None):
        raise Violation(
            "K5", f"a result is due: {schedule.due}, all are recorded: {schedule.done}; the calls are {status}"
        )


def compare_readers(kernel: Kernel, model: Model) -> None:
    """Check what else the shell and its users read off the kernel (D8, L6, M1, I1).

    Raises:
        Violation: it is not what the model says.
    """
    for rule, name, ours in (
        ("D8", "accepts_next_step", model.accepts_next_step),
        ("M1", "truly_idle", model.truly_idle),
        ("L6", "poised", model.latched and model.usable),
        ("L9", "gone", model.leaving),
        ("D8", "holds_back", model.held_back),
        ("L6", "quiet", model.truly_idle or (model.leaving and model.owed is None)),
    ):
        if getattr(kernel, name) is not ours:
            raise Violation(rule, f"{name} is {getattr(kernel, name)} in {model.state}")
    places = {message.id: target for target, _, message, _ in model.pending()}
    if kernel.inbox.ids != places:
        raise Violation("I1", f"the index of pending ids is {kernel.inbox.ids}, not {places}")
    waking = tuple([message for _, _, message, waking in model.pending() if waking])
    if kernel.inbox.waking() != waking:
        raise Violation("L3", f"{kernel.inbox.waking()} would be parked, not {waking}")


def compare_effects(effects: tuple[fx.Effect, ...], expected: list[fx.Effect]) -> None:
    """Check that a commit leads to what the model says: all that is told in exact order.

    Raises:
        Violation: it leads to something else.
    """
    if effects == tuple(expected):
        return
    told, ours = _told(effects), _told(expected)
    if told != ours:
        at = next((n for n, (one, other) in enumerate(zip(told, ours, strict=False)) if one != other), None)
        at = min(len(told), len(ours)) if at is None else at
        one, other = (told[at] if at < len(told) else None), (ours[at] if at < len(ours) else None)
        raise Violation(_rule_of(other or one), f"{one} is told where the contract has {other}")
    for kinds, rule in (((fx.Settle,), "D8"), ((fx.Begin, fx.Abort, fx.Proceed, fx.Reread, fx.Finish), "L7")):
        one = [effect for effect in effects if type(effect) in kinds]
        other = [effect for effect in expected if type(effect) in kinds]
        if sorted(map(repr, one)) != sorted(map(repr, other)):
            raise Violation(rule, f"{one} where the contract has {other}")


def _told(effects: Any) -> list[Any]:
    return [_masked(effect) for effect in effects if type(effect) in (fx.Record, fx.Publish)]


def _masked(effect: Any) -> Any:
    """What is told without what the contract leaves open: texts, and exceptions."""
    if type(effect) is fx.Publish:
        notice = effect.notice
        if type(notice) is fx.ErrorReported and notice.failure.code in ("DUPLICATE_MESSAGE", "STEP_LIMIT"):
            return "agent/error", notice.turn, notice.step, notice.failure.code
        return notice
    data = effect.data
    if type(data) is ev.ToolResultAdded and data.code is not None:
        return "tool/result", data.call_id, data.is_error, data.code
    if type(data) is ev.TurnEnd and type(data.reason) is why.Errored and data.reason.failure.code == "STEP_LIMIT":
        return "turn/end", data.turn, "STEP_LIMIT"
    return data, effect.replaces


_TOLD_RULES: dict[Any, str] = {
    ev.TurnStart: "L2",
    ev.TurnEnd: "N3",
    ev.StepStart: "T0",
    ev.StepEnd: "T10",
    ev.UserMessageAdded: "N2",
    ev.InboxSpliced: "I3",
    ev.ToolCallStarted: "K5",
    ev.ToolResultAdded: "N1",
    ev.AssistantMessageAdded: "Q9",
    fx.Inserted: "I4",
    fx.Discarded: "I4",
    fx.Updated: "I4",
    fx.Claimed: "I5",
    fx.Parked: "L3",
    fx.StatusChanged: "L5",
    fx.ErrorReported: "N8",
    fx.CancelRequested: "C2",
}


def _rule_of(told: Any) -> str:
    what = cast("Any", told[0]) if isinstance(told, tuple) else told
    if isinstance(what, str):
        return {"agent/error": "N8", "tool/result": "C4"}.get(what, "T11")
    return _TOLD_RULES.get(what.__class__, "T1")
