"""A saved script, played under the eyes of whoever judges the rule that it shows."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from ..run_cases import fill
from .fair.runs import replay_fair
from .fair_rules import FAIR
from .ledger import Json
from .local import Rig
from .player import replay


def play_script(rig: Rig, steps: Sequence[Json], rule: str = "") -> None:
    """Play the steps of a script; a rule of the fair profile is judged as that profile judges.

    Args:
        rig: the driver.
        steps: requests; the opening first.
        rule: the one that is looked for.

    Raises:
        Violation: a rule is broken.
    """
    if rule in FAIR:
        replay_fair(rig, steps, rule)
    else:
        replay(rig, steps)


def rule_of(script: Json) -> str:
    """The rule that a script shows; empty when it names none."""
    rules: list[str] = script.get("rules") or [""]
    return rules[0]


def replay_script(script: Json, rig: Rig) -> None:
    """Play a saved script.

    Raises:
        Violation: the rule is still broken, or another one is.
    """
    opening: Json = {"do": "open", "session": "s1", **script.get("open", {})}
    with tempfile.TemporaryDirectory() as folder:
        play_script(rig, [fill(step, folder) for step in [opening, *script["steps"]]], rule_of(script))
