"""Short plays that bring a driver where chance seldom does: a stream cut off, calls stopped, a hook overtaken (§4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .answers import STOP, answer
from .ledger import NEXT_STEP, NEXT_TURN, Json
from .requests import CANCEL_WINS

ROUNDS = 8
"""So many gates are served on the way to a place."""


class Stage(Protocol):
    """What a play may do."""

    def request(self, request: Json) -> None:
        """Make a request; the driver does not run."""
        ...

    def settle(self) -> None:
        """Let the driver run until it needs the tester."""
        ...

    def name(self) -> str:
        """A fresh id."""
        ...

    def waiting(self) -> list[Json]:
        """The gates that wait."""
        ...

    def over(self) -> bool:
        """Whether the run takes no more."""
        ...


def play(stage: Stage, which: int, *, keep: bool, choice: int, core: bool) -> None:
    """Play one of them.

    Args:
        stage: where.
        which: its number.
        keep: cancels keep the inbox.
        choice: what varies otherwise.
        core: keep to what every driver can do.
    """
    plays = _CORE if core else _ALL
    plays[which % len(plays)](stage, keep, choice)


def _deliver(stage: Stage, box: str) -> None:
    name = stage.name()
    stage.request({"do": "deliver", "message": {"id": name, "text": name}, "target": box, "wakeup": True})


def _cancel(stage: Stage, keep: bool) -> None:
    stage.request({"do": "cancel", "cause": "user", "reason": "r", "keep_inbox": keep})


def _pass(stage: Stage, gate: Json, given: Json) -> None:
    call = f" {gate['call']}" if "call" in gate else ""
    stage.request({"do": "pass", "gate": gate["kind"] + call, **given})


def _reach(stage: Stage, kinds: frozenset[str]) -> Json | None:
    """Serve gates plainly until one of some kind waits; begins a turn when none is under way."""
    stage.settle()
    if not stage.waiting() and not stage.over():
        _deliver(stage, NEXT_TURN)
        stage.settle()
    for _ in range(ROUNDS):
        if stage.over() or not stage.waiting():
            break
        for gate in stage.waiting():
            if gate["kind"] in kinds:
                return gate
        gate = stage.waiting()[0]
        _pass(stage, gate, STOP if gate["kind"] == "model" else answer(gate, 0, stage.name))
        stage.settle()
    return None


_MODEL = frozenset({"model"})


def go_to_work(stage: Stage, choice: int) -> None:
    """Bring a turn to where its model streams, or some of its calls are over, and leave passive input behind."""
    if gate := _reach(stage, _MODEL):
        name = stage.name()
        passive: Json = {"message": {"id": name, "text": name}, "target": NEXT_STEP, "wakeup": False}
        stage.request({"do": "deliver", **passive})
        if choice % 3:
            _pass(stage, gate, answer(gate, 1 + choice % 2, stage.name))
            stage.settle()
        tools = [one for one in stage.waiting() if one["kind"] in ("tool", "stubborn-tool")]
        if choice % 3 == 1 and tools:
            _pass(stage, tools[0], answer(tools[0], 0, stage.name))
            stage.settle()


def _stop_the_stream(stage: Stage, keep: bool, choice: int) -> None:
    """Text has arrived when the turn is cancelled (C5)."""
    del choice
    if gate := _reach(stage, _MODEL):
        _pass(stage, gate, {"chunks": [{"text": "half"}], "end": None})
        stage.settle()
        _cancel(stage, keep)
        stage.settle()


def _stop_the_calls(stage: Stage, keep: bool, choice: int) -> None:
    """Some calls are over, some run, some are not started when the turn is cancelled (C4, K6)."""
    if gate := _reach(stage, _MODEL):
        _pass(stage, gate, answer(gate, 2, stage.name))
        stage.settle()
        tools = [one for one in stage.waiting() if one["kind"] in ("tool", "stubborn-tool")]
        if choice % 2 and tools:
            _pass(stage, tools[-1], answer(tools[-1], 0, stage.name))
            stage.settle()
        _cancel(stage, keep)
        stage.settle()


def _go_on(stage: Stage, keep: bool, choice: int) -> None:
    """Results are owed to the model, and steering waits for them (T3, D6, K5, K3)."""
    if gate := _reach(stage, _MODEL):
        _pass(stage, gate, answer(gate, 1 + choice % 2, stage.name))
        stage.settle()
        if keep:
            _deliver(stage, NEXT_STEP)
        _reach(stage, _MODEL)


def _cancel_idle(stage: Stage, keep: bool, choice: int) -> None:
    """Nothing runs when a cancel comes; what is pending is cleared, or stays (C1, C3, D5)."""
    if _reach(stage, _MODEL):
        name = stage.name()
        passive: Json = {"message": {"id": name, "text": name}, "target": NEXT_STEP, "wakeup": False}
        _reach(stage, frozenset())
        stage.request({"do": "deliver", **passive})
        for _ in range(1 + choice % 2):
            _cancel(stage, keep)
        stage.settle()


def _send_again(stage: Stage, keep: bool, choice: int) -> None:
    """An id that is pending, claimed or recorded is sent once more (I1)."""
    del keep
    if not _reach(stage, _MODEL):
        return
    name = stage.name()
    twice: Json = {"message": {"id": name, "text": name}, "target": (NEXT_TURN, NEXT_STEP)[choice % 2], "wakeup": True}
    stage.request({"do": "deliver", **twice})
    if choice % 3:
        _reach(stage, frozenset())
    stage.settle()
    stage.request({"do": "deliver", **twice})
    stage.settle()


def _fail_the_request(stage: Stage, keep: bool, choice: int) -> None:
    """Preparing a request fails: what was accepted is recorded (T12), and the next turn works (L8)."""
    del keep, choice
    if gate := _reach(stage, frozenset({"request"})):
        _pass(stage, gate, {"raise": "no"})
        stage.settle()
        _reach(stage, _MODEL)


def _odd_calls(stage: Stage, keep: bool, choice: int) -> None:
    """Calls are named alike or not at all, or run while they ignore a cancel (K3, K5, C4)."""
    if gate := _reach(stage, _MODEL):
        _pass(stage, gate, answer(gate, (9, 4)[choice % 2], stage.name))
        stage.settle()
        if keep:
            _cancel(stage, keep)
        _reach(stage, _MODEL)


def _empty_the_latch(stage: Stage, keep: bool, choice: int) -> None:
    """A wake is kept, and then the last message goes that could use it: what comes later is not woken (D5, D7)."""
    if not _reach(stage, _MODEL):
        return
    _cancel(stage, keep)
    _deliver(stage, (NEXT_TURN, NEXT_STEP)[choice % 2])
    stage.request({"do": "inbox", "op": "clear"})
    name = stage.name()
    stage.request({"do": "inbox", "op": "append", "target": NEXT_TURN, "message": {"id": name, "text": name}})
    stage.settle()


def _cut_off(stage: Stage, keep: bool, choice: int) -> None:
    """An answer reaches its limit (T6), or the model fails, and the next turn works all the same (T9, L8)."""
    del keep
    if gate := _reach(stage, _MODEL):
        _pass(stage, gate, answer(gate, (5, 8, 5, 6)[choice % 4], stage.name))
        stage.settle()
        _reach(stage, _MODEL)


def _overtake(stage: Stage, keep: bool, choice: int) -> None:
    """A cancel comes in one breath with the answer of a hook (C8)."""
    if gate := _reach(stage, CANCEL_WINS):
        _pass(stage, gate, answer(gate, choice, stage.name))
        _cancel(stage, keep)
        stage.settle()


_Play = Callable[[Stage, bool, int], None]
_CORE: tuple[_Play, ...] = (_stop_the_stream, _stop_the_calls, _go_on, _cancel_idle, _send_again)
_ALL: tuple[_Play, ...] = (*_CORE, _odd_calls, _empty_the_latch, _cut_off, _overtake, _fail_the_request)
