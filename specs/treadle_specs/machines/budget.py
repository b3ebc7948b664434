"""How much a machine is run: the same programs every time where ``CI`` is set, fresh ones elsewhere."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test  # pyright: ignore[reportUnknownVariableType]  # it does not say

PROGRAMS = 60
"""Programs that a machine is run with unless told otherwise: its budget in the project's own tests."""
STEPS = 30
"""Steps of a program."""


def chosen(
    programs: int = PROGRAMS, steps: int = STEPS, *, repeat: bool | None = None, shrink: bool = True
) -> settings:
    """Settings of a run: no database, no deadline.

    Args:
        programs: how many are drawn.
        steps: of each, at most.
        repeat: draw the same ones each time; where ``CI`` is set unless given.
        shrink: look for the shortest program that breaks a rule.
    """
    return settings(
        max_examples=programs,
        stateful_step_count=steps,
        derandomize=bool(os.environ.get("CI")) if repeat is None else repeat,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=tuple(HealthCheck),  # pyright: ignore[reportArgumentType]  # its metaclass iterates members
        print_blob=False,
        report_multiple_bugs=False,
    )


def run_machine(kind: Any, given: settings | None = None, *, start: int | None = None) -> None:
    """Run a machine; what breaks is raised with its program.

    Args:
        kind: the machine.
        given: how much.
        start: the seed of the programs; Hypothesis tells the one it took where a rule is broken.

    Raises:
        Violation: a rule is broken.
    """
    made: Any = kind if start is None else seed(start)(type(kind.__name__, (kind,), {}))
    run_state_machine_as_test(made, settings=given or chosen())
