"""The shipped kernel beside the model of the contract: fed the same inputs, it must lead to the same, step by step.

The model is folded from inputs alone and is told nothing of the kernel, so whatever an input does not concern is unchanged
in it: a field of the kernel that changes when it should not is seen at once. What the contract leaves open is listed here:
texts, the exception beside a failure, and where in a commit a fate or an operation stands among what is told.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import attrs

from treadle import TreadleError
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.kernel.effects import PROCEED, Admit, RunTools
from treadle.kernel.kernel import Kernel
from treadle.kernel.pending import Entry
from treadle.kernel.state import State
from treadle.words import events as ev
from treadle.words import reasons as why

from ..model.agent import STEP, TURN
from ..model.model import Model
from .violation import Violation

Key = tuple[Any, ...]
"""What tells two states apart; message ids appear as numbers in the order in which they are met."""

_SHARED = ("latched", "reserved", "held", "cause", "turn", "step", "turn_open", "step_open", "running", "last_reason")
_SHARED_OF = attrgetter(*_SHARED, "owed")
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

# --- one state --------------------------------------------------------------------------------------------------------


class Pair:
    """Kernel and model between two inputs.

    Attributes:
        kernel: the shipped kernel.
        model: what the contract promises of it.
        reread: the notifications of a convergence are running: only calls, and then ``Replayed``, can come (H4).
        key: tells states apart: the model's state, and a fingerprint of all that the kernel holds besides.
    """

    __slots__ = ("_spare", "kernel", "key", "model", "reread")

    def __init__(self, kernel: Kernel, model: Model, reread: bool = False) -> None:
        self.kernel, self.model, self.reread = kernel, model, reread
        self.key = (canonical(model), reread, fingerprint(kernel))
        self._spare: Model | None = None

    def expect(self, given: i.Input) -> tuple[Model, list[fx.Effect]]:
        """What the model comes to by an input, and what that leads to.

        A copy that refused an input is as it was, and serves for the next one.

        Raises:
            TreadleError: the contract refuses it.
        """
        model = self._spare = self._spare or self.model.copy()
        expected = model.receive(given)
        self._spare = None
        return model, expected


def beginning(max_steps: int | None = None, pool: int = 10, *, held: bool = False, **more: Any) -> Pair:
    """An empty agent: a kernel made with ``more``, and its model."""
    return Pair(Kernel(max_steps=max_steps, pool=pool, held=held, **more), Model(max_steps, pool, held=held))


_MODEL_SCALARS = attrgetter(
    *("state", "modes", "latched", "reserved", "held", "keep", "truncated", "owes", "series", "concluded"),
    *("turn_open", "step_open", "running", "max_steps", "pool"),
)


def canonical(model: Model) -> Key:
    """The model's state, with symmetric message ids merged.

    Left out is what no rule can tell apart: the texts of messages, turn and attempt numbers, the last reason, the step
    number of a turn without a step limit, and the results that stand in for a body's own.
    """
    names: dict[str, int] = {}
    number = names.setdefault
    turns = tuple([(number(message.id, len(names)), waking) for message, waking in model.next_turn])
    steps = tuple([(number(message.id, len(names)), waking) for message, waking in model.next_step])
    claimed = tuple([number(message.id, len(names)) for message in model.claimed])
    accepted = tuple([number(message.id, len(names)) for message in model.accepted])
    owed: Any = model.owed
    if type(owed) is Admit:
        owed = names.get(owed.prompt.id) if owed.prompt is not None else -1
    elif owed is not PROCEED:
        owed = owed.__class__
    step = model.step if model.max_steps is not None else 0
    return turns, steps, claimed, accepted, owed, step, model.cause.__class__, _MODEL_SCALARS(model)


_COMPARED = {
    "lifecycle",
    "recorded",
    "inbox",
    "claimed",
    "accepted",
    "turn_ids",
    "out",
    "attempt",
    "schedule",
    "failure",
}
_HIDDEN = [
    known.name
    for known in attrs.fields(Kernel)
    if known.name not in _COMPARED and known.name not in _SHARED and known.name not in ("state", "owed")
]
_HIDDEN_OF = attrgetter(*_HIDDEN)


def fingerprint(kernel: Kernel) -> Key:
    """All that the kernel holds beside what is compared: two states that the model cannot tell apart may differ there."""
    schedule = kernel.schedule
    if schedule is None:
        return _HIDDEN_OF(kernel), kernel.failure is None, None
    calls = (schedule.next_start, schedule.next_settle, schedule.running, schedule.exclusive, schedule.concluded)
    return _HIDDEN_OF(kernel), kernel.failure is None, calls


# --- one input --------------------------------------------------------------------------------------------------------


def follow(pair: Pair, given: i.Input) -> Pair | None:
    """Feed both one input, and compare; returns where it leads, ``None`` when it was rightly refused.

    A refused input is fed to the pair's own kernel, which it must not change: ``unchanged`` says whether it did.

    Raises:
        Violation: the kernel does other than the model.
    """
    try:
        model, expected = pair.expect(given)
    except TreadleError as refusal:
        _refused(pair, given, refusal.with_traceback(None))
        return None
    kernel = pair.kernel.copy()
    effects = _taken(pair, kernel, given)
    compare_effects(effects, expected)
    forget(kernel, model, expected)
    compare(kernel, model)
    reread = pair.reread and type(given) is not i.Replayed
    if expected and type(expected[-1]) is fx.Reread:
        reread = True
    return Pair(kernel, model, reread)


def unchanged(pair: Pair) -> None:
    """Check that the inputs which were refused changed nothing.

    Raises:
        Violation: one of them did.
    """
    compare(pair.kernel, pair.model)
    if pair._spare is not None and canonical(pair._spare) != pair.key[0]:  # pyright: ignore[reportPrivateUsage]
        raise Violation("L1", "an input that the model refuses changes it")
    if pair.key[2] != fingerprint(pair.kernel):
        raise Violation("L1", "a refused input changes something that only the kernel knows")


def _taken(pair: Pair, kernel: Kernel, given: i.Input) -> tuple[fx.Effect, ...]:
    try:
        return kernel.receive(given)
    except TreadleError as error:
        raise Violation("L1", f"{_name(given)} is refused in {pair.model.state}: {error!r}") from None
    except Exception as error:
        raise Violation("L1", f"the kernel breaks on {_name(given)} in {pair.model.state}: {error!r}") from error


def _refused(pair: Pair, given: i.Input, refusal: TreadleError) -> None:
    try:
        pair.kernel.receive(given)
    except TreadleError as error:
        if type(error) is not type(refusal):
            raise Violation(_rule(refusal), f"{_name(given)} is refused with {error!r}, not {refusal!r}") from None
        return
    except Exception as error:
        raise Violation("L1", f"the kernel breaks on {_name(given)} in {pair.model.state}: {error!r}") from error
    raise Violation(_rule(refusal), f"{_name(given)} is taken in {pair.model.state}")


def _rule(refusal: TreadleError) -> str:
    return "I1" if refusal.code == "DUPLICATE_MESSAGE" else str(refusal)


def _name(given: Any) -> str:
    return type(given).__name__


def forget(kernel: Kernel, model: Model, effects: list[fx.Effect]) -> None:
    """Check which ids are taken (I1), then let those that met their fate be used again, as if they were fresh.

    A real session never sees an id twice; to an agent one fresh id is like another, so that bounded ids stand for
    unbounded runs.
    """
    for effect in effects:
        if type(effect) is fx.Settle:
            known = effect.message_id
            if kernel.taken(known) is not model.taken(known):
                raise Violation("I1", f"{known} met {effect.fate}; its id is taken: {kernel.taken(known)}")
            kernel.recorded.discard(known)
            kernel.turn_ids.discard(known)
            model.recorded -= {known}
            model.here -= {known}


# --- comparing --------------------------------------------------------------------------------------------------------


def compare(kernel: Kernel, model: Model) -> None:
    """Check that all that can be seen of the kernel is what the model says.

    Raises:
        Violation: something differs.
    """
    if _STATES[kernel.state] != model.state:
        raise Violation("L1", f"the agent is in {kernel.state.value}, not {model.state}")
    if (theirs := _SHARED_OF(kernel)) != (ours := _SHARED_OF(model)):
        if not _open(kernel.last_reason, model.last_reason):
            raise Violation("T7", f"the last turn ended {kernel.last_reason}, not {model.last_reason}")
        for name, their, our in zip((*_SHARED, "owed"), theirs, ours, strict=True):
            if their != our and name != "last_reason":
                rule = _RULES.get(name) or ("D4" if our else "D5")
                raise Violation(rule, f"{name} is {their}, not {our}")
    inbox = kernel.inbox
    if inbox.next_turn or model.next_turn:
        _compare_list(TURN, inbox.next_turn, model.next_turn)
    if inbox.next_step or model.next_step:
        _compare_list(STEP, inbox.next_step, model.next_step)
    if tuple(kernel.claimed) != model.claimed or kernel.accepted != model.accepted:
        raise Violation(
            "I5", f"claimed and accepted are {kernel.claimed} {kernel.accepted}, not {model.claimed} {model.accepted}"
        )
    if kernel.turn_ids != model.here:
        raise Violation("I1", f"the open turn took {model.here}, and refuses {kernel.turn_ids}")
    if len(inbox.ids) != len(model.next_turn) + len(model.next_step):
        raise Violation("I1", f"the index of pending ids is {inbox.ids}")
    if kernel.schedule is not None or model.modes:
        _compare_calls(kernel, model)


def _compare_list(target: str, entries: list[Entry], expected: tuple[tuple[Any, bool], ...]) -> None:
    if tuple([(entry.message, entry.waking) for entry in entries]) != expected:
        raise Violation("I6", f"{target} is {entries}, not {expected}")


def _open(their: Any, our: Any) -> bool:
    """Whether two reasons are the same but for a text that the contract leaves open."""
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


def compare_readers(pair: Pair) -> None:
    """Check what else the shell and its users read off the kernel (D8, L6, M1, I1).

    Raises:
        Violation: it is not what the model says.
    """
    kernel, model = pair.kernel, pair.model
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
    if type(told) is tuple and isinstance(told[0], str):
        return {"agent/error": "N8", "tool/result": "C4"}.get(told[0], "T11")
    return _TOLD_RULES.get(type(told[0] if type(told) is tuple else told), "T1")
