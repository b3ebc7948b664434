"""The shortest script that still shows a finding: requests are left out as long as it does, within bounds (§7)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ..exploration.violation import Violation
from ..protocol.fault import RigFault
from .findings import RIG, TESTER, Broken
from .ledger import Json
from .local import MakeRig
from .replays import play_script
from .stakes import Stakes

TRIES = 300
"""So often at most a script is played while it is shortened."""


def shorten(found: Broken, make_rig: MakeRig, seconds: float) -> None:
    """Shorten the script of a finding in place.

    Args:
        found: what was found.
        make_rig: starts a fresh driver for each try.
        seconds: how long to try at most.
    """
    deadline = time.monotonic() + seconds
    tries = TRIES

    def shows(steps: list[Json]) -> bool:
        nonlocal tries
        tries -= 1
        message = broken_by(make_rig, steps, found.rule)
        if message is None:
            return False
        found.steps, found.message = steps, message
        return True

    _reduce(found, shows, lambda: tries > 0 and time.monotonic() < deadline)


def _reduce(found: Broken, shows: Callable[[list[Json]], bool], goes_on: Callable[[], bool]) -> None:
    size = max(1, len(found.steps) // 2)
    while goes_on():
        before = len(found.steps)
        at = 0
        while at < len(found.steps) and goes_on():
            shorter = found.steps[:at] + found.steps[at + size :]
            kept_open = any(step["do"] == "open" for step in shorter)
            if not (kept_open and shows(shorter)):
                at += size
        if size == 1 and len(found.steps) == before:
            break
        size = max(1, size // 2)
    for simpler in _simpler(found.steps):
        if not goes_on():
            return
        shows(simpler)


def _simpler(steps: list[Json]) -> Iterator[list[Json]]:
    """The same requests, the first with fewer kinds of gates and without options."""
    opening = next((index for index, step in enumerate(steps) if step["do"] == "open"), None)
    if opening is None:
        return
    step = steps[opening]
    used = {str(other.get("gate", "")).partition(" ")[0] for other in steps}
    few = [kind for kind in step.get("gates", []) if kind in used]
    yield [*steps[:opening], {**step, "gates": few, "options": {}}, *steps[opening + 1 :]]


def broken_by(make_rig: MakeRig, steps: list[Json], rule: str | None = None) -> str | None:
    """What a script shows: the message of a rule that it breaks, of that one if it is named; nothing when none."""
    try:
        played(make_rig, steps, rule or "")
    except Violation as broken:
        return broken.message if rule in (None, broken.rule) else None
    except RigFault as fault:
        return str(fault) if rule in (None, RIG) else None
    except Exception as error:
        return f"{error!r}" if rule in (None, TESTER) else None
    return None


def played(make_rig: MakeRig, steps: list[Json], rule: str = "") -> Stakes:
    """Play the steps of a script on a fresh rig, looking for a rule, and end it; returns what was at stake."""
    rig = make_rig()
    try:
        last, stakes = play_script(rig, steps, rule, make_rig)
    except BaseException:
        drop: Callable[[], None] = getattr(rig, "drop", rig.stop)
        drop()
        raise
    last.stop()
    return stakes
