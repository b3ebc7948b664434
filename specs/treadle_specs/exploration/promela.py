"""``treadle export promela``: the lifecycle table with its verbs as a model for spin, and spin's verdict on it.

    treadle export promela > treadle.pml
    treadle export promela --check

The model holds one tagged message among arbitrary others, which by data independence stands for each of any number. Its
rows come from the table; verbs, calls, outcomes and laws are the functions of ``abstract``, translated.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from attrs import frozen

from treadle import TreadleError
from treadle.testing import TABLE, Row

from .abstract import calls, laws, outcomes, verbs
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
            steps = [f"state = {row.dest.name}", *[f"do_{verb.__name__}()" for verb in row.verbs]]
            lines.append(f"  :: (state == {row.source.name}) -> {'; '.join(steps)}")
    return [*lines, "  :: else -> assert(false) /* L1 */", "  fi", "}"]


def _process(name: str, chosen: Sequence[Option]) -> list[str]:
    lines = [f"active proctype {name}() {{", "end:", "  do"]
    for option in chosen:
        when = "is_" + option.when.__name__ + _arguments(option.when_arguments)
        guard = f"quiet == 0 && {when}" if option.client else when
        act = f"do_{option.act.__name__}({', '.join(map(str, option.arguments))})"
        lines.append(f'  :: d_step {{ ({guard}) -> {act}; do_check(); printf("@{option.name}\\n") }}')
    return [*lines, "  od", "}", ""]


def _arguments(given: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, given))})" if given else ""


# --- asking spin ------------------------------------------------------------------------------------------------------


class SpinMissing(TreadleError):
    """Spin or a C compiler is not installed."""

    code = "SPIN_MISSING"


class SpinBroke(TreadleError):
    """Spin or the compiler refused the model, which is a fault of the export."""

    code = "SPIN_BROKE"


@frozen
class Verdict:
    """What spin says about one claim, or about the assertions when ``name`` is ``safety``."""

    name: str
    errors: int
    states: int
    transitions: int
    seconds: float
    path: tuple[str, ...] = ()


def tools() -> tuple[str, str]:
    """The paths of spin and of a C compiler.

    Raises:
        SpinMissing: one of them is not installed.
    """
    spin, compiler = shutil.which("spin"), shutil.which("gcc") or shutil.which("cc")
    if spin is None or compiler is None:
        missing = "spin" if spin is None else "a C compiler"
        raise SpinMissing(f"{missing} is not installed; on Debian: apt install spin gcc")
    return spin, compiler


def verify(rows: Iterable[Row] = TABLE, claims: Iterable[str] = tuple(LTL)) -> list[Verdict]:
    """Let spin check the assertions, and then, if they hold, the claims; stops at the first error.

    Raises:
        SpinMissing: spin or a C compiler is not installed.
        SpinBroke: the model was refused.
    """
    with tempfile.TemporaryDirectory(prefix="treadle-spin-") as folder:
        place = Path(folder)
        (place / "model.pml").write_text(promela(rows), encoding="utf-8")
        spin, compiler = tools()
        _run([spin, "-o2", "-a", "model.pml"], place)
        _run([compiler, "-w", "-O0", "-DSAFETY", "-DNOREDUCE", "-DNOCLAIM", "-o", "safety", "pan.c"], place)
        verdicts = [_verdict("safety", ["./safety"], place)]
        wanted = [] if verdicts[0].errors else list(claims)
        if wanted:
            _run([compiler, "-w", "-O0", "-DNFAIR=3", "-o", "claims", "pan.c"], place)
        for name in wanted:
            verdicts.append(_verdict(name, ["./claims", "-a", "-f", "-N", name], place))
            if verdicts[-1].errors:
                break
        return verdicts


def _run(command: list[str], place: Path) -> str:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)  # noqa: S603 (our own model)
    if done.returncode or "Error" in done.stdout:
        raise SpinBroke(f"{command[0]}: {(done.stdout + done.stderr).strip()[:2000]}")
    return done.stdout


def _verdict(name: str, command: list[str], place: Path) -> Verdict:
    started = time.perf_counter()
    done = subprocess.run(  # noqa: S603 (the verifier that spin made of our own model)
        [*command, "-m1000000", "-w20"], cwd=place, capture_output=True, text=True, check=False
    )
    found = re.search(r"errors: (\d+)", done.stdout)
    states = re.search(r"(\d+) states, stored", done.stdout)
    steps = re.search(r"(\d+) transitions", done.stdout)
    if found is None or states is None or steps is None or "max search depth too small" in done.stdout:
        raise SpinBroke(f"{name}: {(done.stdout + done.stderr).strip()[:2000]}")
    seconds = time.perf_counter() - started
    errors = int(found[1])
    path = _trail(place) if errors else ()
    return Verdict(name, errors, int(states[1]), int(steps[1]), seconds, path)


def _trail(place: Path) -> tuple[str, ...]:
    """The steps that led to the error, by the names of the options; the one that failed may be missing."""
    done = subprocess.run(  # noqa: S603 (spin replays the trail that it wrote)
        [tools()[0], "-t", "model.pml"], cwd=place, capture_output=True, text=True, check=False
    )
    return tuple(re.findall(r"@(\w+)", done.stdout))


# --- the command ------------------------------------------------------------------------------------------------------


def promela_command(
    *, check: bool = False, as_json: bool = False, out: Callable[[str], object] = sys.stdout.write
) -> int:
    """Write the model, or with ``check`` spin's verdict on it; returns the exit status.

    Args:
        check: ask spin, and compare its number of states with the Python walk's.
        as_json: tell the verdict to programs.
        out: where it goes.

    Raises:
        SpinMissing: spin or a C compiler is not installed.
        SpinBroke: the model was refused.
    """
    if not check:
        out(promela())
        return 0
    verdicts = verify()
    walked = walk()
    agree = walked.states == verdicts[0].states
    holds = agree and walked.rule is None and not any(verdict.errors for verdict in verdicts)
    if as_json:
        told = [{"name": v.name, "errors": v.errors, "states": v.states, "seconds": v.seconds} for v in verdicts]
        out(json.dumps({"holds": holds, "walk": {"states": walked.states}, "spin": told}, indent=1) + "\n")
    else:
        for verdict in verdicts:
            meaning = LTL[verdict.name][1] if verdict.name in LTL else "every assertion in every state"
            state = "holds" if not verdict.errors else f"fails after {' '.join(verdict.path)}"
            out(f"{verdict.name:<24} {verdict.states:>9,} states {verdict.seconds:>6.2f} s  {state}: {meaning}\n")
        out(f"{'python walk':<24} {walked.states:>9,} states: {'the same' if agree else 'another number'}\n")
    return 0 if holds else 1
