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
from treadle.kernel.effects import PROCEED, Admit
from treadle.kernel.kernel import Kernel

from ..model.model import Model
from .comparison import SHARED, compare, compare_effects
from .violation import Violation

Key = tuple[Any, ...]
"""What tells two states apart; message ids appear as numbers in the order in which they are met."""

# --- one state --------------------------------------------------------------------------------------------------------


class Pair:
    """Kernel and model between two inputs.

    Attributes:
        kernel: the shipped kernel.
        model: what the contract promises of it.
        spare: a copy of the model that has refused all it was given, and serves for the next input.
        reread: the notifications of a convergence are running: only calls, and then ``Replayed``, can come (H4).
        key: tells states apart: the model's state, and a fingerprint of all that the kernel holds besides.
    """

    __slots__ = ("kernel", "key", "model", "reread", "spare")

    def __init__(self, kernel: Kernel, model: Model, reread: bool = False) -> None:
        self.kernel, self.model, self.reread = kernel, model, reread
        self.key = (canonical(model), reread, fingerprint(kernel))
        self.spare: Model | None = None


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
    if known.name not in _COMPARED and known.name not in SHARED and known.name not in ("state", "owed")
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
    model = pair.spare or pair.model.copy()
    try:
        expected = model.receive(given)
    except TreadleError as refusal:
        pair.spare = model
        _refused(pair, given, refusal)
        return None
    pair.spare = None
    kernel = pair.kernel.copy()
    effects = _taken(pair, kernel, given)
    if effects or expected:
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
    if pair.spare is not None and canonical(pair.spare) != pair.key[0]:
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
            kernel.recorded.pop(known, None)
            kernel.turn_ids -= {known}
            model.recorded -= {known}
            model.here -= {known}
