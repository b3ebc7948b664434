"""Every disturbance that a scenario has room for, read off its undisturbed run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, get_args

from treadle import MisuseError

from .disturbance import Disturbance, Harm, Harmed, Ordered, Placed
from .notes import Baseline
from .run import Seen

Sweep = Literal["harm", "cancel", "dispose", "die", "steer", "followup", "order"]
"""Which disturbances: ``harm`` lets each call fail, hang and take long once; the others are done at each place."""
SWEEPS: tuple[Sweep, ...] = get_args(Sweep)
_HARMS: dict[str, tuple[Harm, ...]] = {
    "tool": ("fail", "hang", "slow"),
    "hook": ("fail", "hang", "slow"),
    "listener": ("fail",),
    "model": ("fail", "twice", "break", "refuse", "hang", "slow"),
    "store": ("fail", "hang", "slow"),
}
_UNSTOPPABLE = ("session/flush:", "agent/created:", "agent/session-start:")
"""Hooks that nobody can stop when they hang: the turn does not own them."""


def sweeps_of(given: Iterable[str]) -> tuple[Sweep, ...]:
    """Sweeps by their names.

    Raises:
        MisuseError: there is none of a name.
    """
    names = (given,) if isinstance(given, str) else tuple(given)
    unknown = [name for name in names if name not in SWEEPS]
    if unknown:
        raise MisuseError(f"no sweep {unknown[0]!r}; there are {', '.join(SWEEPS)}")
    return tuple([sweep for sweep in SWEEPS if sweep in names])


def disturbances(sweep: Sweep, seen: Seen, orders: int) -> Iterator[Disturbance]:
    """The disturbances of one sweep.

    Args:
        sweep: which.
        seen: the undisturbed run.
        orders: how many other orders of tasks are tried.
    """
    match sweep:
        case "harm":
            for (kind, name), count in seen.calls.items():
                for nth in range(1, count + 1):
                    for harm in _HARMS[kind] if not name.startswith(_UNSTOPPABLE) else ("fail", "slow"):
                        yield Harmed(harm, kind, name, nth)
        case "die":
            for at, kept in seen.deaths:
                yield Placed("die", at, kept)
        case "order":
            for seed in range(1, orders + 1):
                yield Ordered(seed)
        case _:
            for at in range(seen.places):
                yield Placed(sweep, at)


def baseline_of(seen: Seen) -> Baseline:
    """What is the same at each rest of an undisturbed run, from when it is there."""
    found = Baseline(tasks=seen.tasks)
    known = {key for free in seen.free for key in free}
    for key in known:
        values = {free[key][0] for free in seen.free if key in free}
        if len(values) == 1:
            found.free[key] = values.pop()
    return found
