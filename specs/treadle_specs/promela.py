"""``treadle export promela``: the lifecycle table with its verbs as a model for spin, and spin's verdict on it (§3).

    python -m treadle_specs.promela > treadle.pml
    python -m treadle_specs.promela --check

The model holds one tagged message among arbitrary others, which by data independence stands for each of any number. Its
rows come from the table; verbs, calls, outcomes and laws are the functions of ``treadle_specs.abstract``, translated.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from attrs import frozen

from treadle.lifecycle import TABLE, Row

from .abstract import calls, laws, options, outcomes, verbs
from .abstract.fields import CONSTANTS, FIELDS, SCRATCH
from .abstract.options import OPTIONS, Option
from .abstract.translation import TRIGGERS, functions_of, translate
from .abstract.walk import walk

LTL: dict[str, tuple[str, str]] = {
    "no_lost_wake": (
        "[] ((wanted == 1 && reserved == 0) -> <> (wanted == 0 || reserved == 1))",
        "a wake that was accepted and still finds work is served, unless admission is held back (L2, D4, D5)",
    ),
    "cancel_converges": (
        "[] (state == CANCEL_CONVERGENCE -> <> (state != CANCEL_CONVERGENCE))",
        "a cancel converges (C4, N7)",
    ),
    "dispose_ends": ("[] (state == DISPOSAL -> <> (state == DISPOSED))", "a dispose ends (O4)"),
    "maintenance_ends": (
        "[] (state == MAINTENANCE -> <> (state != MAINTENANCE))",
        "maintenance does not starve turns (M2, M3)",
    ),
    "quiet_rests": (
        "[] (quiet == 1 -> <> [] ((state == IDLE && reread == 0) || state == DISPOSED))",
        "once nobody calls the agent comes to rest, so that turns do not starve maintenance (M1, L6)",
    ),
    "claimed_meets_its_fate": (
        "[] ((tag == CLAIMED || tag == ACCEPTED) -> <> (tag != CLAIMED && tag != ACCEPTED))",
        "with the assertions: every message that a turn took reaches exactly one fate (I5, N2)",
    ),
}
"""Liveness, by name: the formula, and what it says. Safety is the model's assertions."""


# --- writing the model ------------------------------------------------------------------------------------------------


def promela(rows: Iterable[Row] = TABLE) -> str:
    """The model of a table."""
    table = tuple(rows)
    parts = [
        "/* The lifecycle of an agent, generated from treadle's table: do not edit. */",
        *[f"#define {name} {value}" for name, value in CONSTANTS.items()],
        "",
        *[f"{kind} {name} = {first};" for name, (kind, first) in FIELDS.items()],
        *[f"hidden byte {name};" for name in SCRATCH],
        "",
        *[_allows(table, trigger) for trigger in TRIGGERS],
        "",
        *_translated(verbs),
        *[line for trigger in TRIGGERS for line in _fire(table, trigger)],
        "",
        *_translated(calls, outcomes, laws),
        *_process("caller", [option for option in OPTIONS if option.client]),
        *_process("agent", [option for option in OPTIONS if not option.client]),
        *[f"ltl {name} {{ {formula} }}" for name, (formula, _) in LTL.items()],
    ]
    return "\n".join(parts) + "\n"


def _translated(*modules: object) -> list[str]:
    return [line for function in functions_of(*modules) for line in [*translate(function), ""]]  # type: ignore[arg-type]


def _allows(table: tuple[Row, ...], trigger: str) -> str:
    states = [f"state == {row.source.name}" for row in table if row.trigger.name == trigger]
    return f"#define allows_{trigger} ({' || '.join(states) or 'false'})"


def _fire(table: tuple[Row, ...], trigger: str) -> list[str]:
    lines = [f"inline fire_{trigger}() {{", "  if"]
    for row in table:
        if row.trigger.name == trigger:
            steps = [f"state = {row.dest.name}", *[f"{verb.__name__}()" for verb in row.verbs]]
            lines.append(f"  :: (state == {row.source.name}) -> {'; '.join(steps)}")
    return [*lines, "  :: else -> assert(false) /* L1 */", "  fi", "}"]


def _process(name: str, chosen: Sequence[Option]) -> list[str]:
    lines = [f"active proctype {name}() {{", "end:", "  do"]
    for option in chosen:
        when = option.when.__name__ + _arguments(option.when_arguments)
        guard = f"quiet == 0 && {when}" if option.client else when
        act = f"{option.act.__name__}({', '.join(map(str, option.arguments))})"
        lines.append(f'  :: d_step {{ ({guard}) -> {act}; check(); printf("@{option.name}\\n") }}')
    return [*lines, "  od", "}", ""]


def _arguments(given: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, given))})" if given else ""
