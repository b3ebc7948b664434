"""The options of the model: who can take which step, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from . import calls as c
from . import outcomes as o
from .fields import Abstract


@frozen
class Option:
    """One step: ``act`` with constant arguments, possible when ``when`` holds of them."""

    name: str
    client: bool
    when: Callable[..., bool]
    act: Callable[..., None]
    when_arguments: tuple[int, ...] = ()
    arguments: tuple[int, ...] = ()

    def possible(self, s: Abstract) -> bool:
        """Whether it can be taken; callers that have fallen silent take none."""
        return not (self.client and s.quiet) and self.when(s, *self.when_arguments)

    def take(self, s: Abstract) -> None:
        """Take it."""
        self.act(s, *self.arguments)


def _call(name: str, when: Any, act: Any, *arguments: int, guarded: bool = False) -> Option:
    return Option(name, True, when, act, arguments if guarded else (), arguments)


def _outcome(name: str, when: Any, act: Any, *arguments: int, guarded: bool = False) -> Option:
    return Option(name, False, when, act, arguments if guarded else (), arguments)


def _deliveries() -> list[Option]:
    options: list[Option] = []
    for target, turn in (("next_turn", 1), ("next_step", 0)):
        for mark in (0, 1):
            for wakes, own, how in ((1, 0, "wake"), (0, 0, "silent"), (1, 1, "own")):
                name = f"deliver_{target}_{how}{'_tagged' if mark else ''}"
                options.append(_call(name, c.may_deliver, c.deliver, turn, wakes, own, mark, guarded=True))
    return options


OPTIONS: tuple[Option, ...] = (
    *_deliveries(),
    _call("remove_turn", c.may_remove_turn, c.remove_turn),
    _call("remove_turn_last", c.may_remove_turn_last, c.remove_turn_last),
    _call("remove_step", c.may_remove_step, c.remove_step),
    _call("replace", c.may_replace, c.replace),
    _call("steer", c.may_steer, c.steer),
    _call("clear", c.may_clear, c.clear),
    _call("cancel", c.may_cancel, c.cancel, 0),
    _call("cancel_keeping", c.may_cancel, c.cancel, 1),
    _call("dispose", c.may_dispose, c.dispose, 0),
    _call("dispose_keeping", c.may_dispose, c.dispose, 1),
    _call("maintain", c.may_maintain, c.maintain),
    _call("reserve", c.may_maintain, c.reserve),
    _call("release", c.may_release, c.release),
    _call("fall_silent", c.may_fall_silent, c.fall_silent),
    _outcome("enter", o.may_enter, o.enter, 1, 1, guarded=True),
    _outcome("enter_without_tagged", o.may_enter, o.enter, 1, 0, guarded=True),
    _outcome("enter_empty", o.may_enter, o.enter, 0, 0, guarded=True),
    _outcome("refuse", o.may_refuse, o.refuse),
    _outcome("prepare", o.may_prepare, o.prepare),
    _outcome("answer_with_calls", o.may_answer, o.answer_with_calls),
    _outcome("answer_without", o.may_answer, o.answer_without),
    _outcome("fail_attempt", o.may_answer, o.fail_attempt),
    _outcome("retry", o.may_retry, o.retry),
    _outcome("hand_over", o.may_hand_over, o.hand_over),
    _outcome("settle_tools", o.may_settle_tools, o.settle_tools, 1),
    _outcome("settle_tools_concluding", o.may_settle_tools, o.settle_tools, 0),
    _outcome("proceed", o.may_proceed, o.proceed),
    _outcome("stop", o.may_stop, o.stop),
    _outcome("end_maintenance", o.may_end_maintenance, o.end_maintenance),
    _outcome("break_down", o.may_break, o.break_down),
    _outcome("replayed", o.may_replay, o.replayed),
)
"""Everything that can happen: first what callers do, then what the agent does."""
