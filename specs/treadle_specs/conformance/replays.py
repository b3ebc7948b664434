"""A saved script, played under the eyes of whoever judges the rule that it shows."""

from __future__ import annotations

from collections.abc import Sequence

from .fair.runs import replay_fair
from .fair_rules import FAIR
from .ledger import Json
from .local import MakeRig, Rig
from .player import replay
from .stakes import Stakes


def play_script(rig: Rig, steps: Sequence[Json], rule: str = "", again: MakeRig | None = None) -> tuple[Rig, Stakes]:
    """Play the steps of a script; a rule of the fair profile is judged as that profile judges.

    Args:
        rig: the driver.
        steps: requests; the opening first.
        rule: the one that is looked for.
        again: starts the driver that takes the place of one that was closed or killed.

    Returns:
        the driver at the end, and what was at stake.

    Raises:
        Violation: a rule is broken.
    """
    if rule in FAIR:
        return rig, replay_fair(rig, steps, rule).judge.stakes
    player = replay(rig, steps, again)
    return player.rig, player.monitor.stakes


def rule_of(script: Json) -> str:
    """The rule that a script shows; empty when it names none."""
    rules: list[str] = script.get("rules") or [""]
    return rules[0]


def replay_script(script: Json, rig: Rig, again: MakeRig | None = None) -> Rig:
    """Play a saved script; returns the driver at the end.

    Raises:
        Violation: the rule is still broken, or another one is.
    """
    opening: Json = {"do": "open", "session": "s1", **script.get("open", {})}
    return play_script(rig, [opening, *script["steps"]], rule_of(script), again)[0]
