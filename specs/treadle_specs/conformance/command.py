"""``treadle conform`` and ``treadle replay``: hold any driver behind the rig protocol to the contract (§7).

    treadle conform --rig "python examples/asyncio_rig.py" --profile core
    treadle conform --rig "…" --seconds 300 --expect C5,Q1 --format junit --output report.xml --save counterexamples/
    treadle replay counterexamples/C5.json --rig "…"

The exit status is 0 when the driver conforms, 1 when it does not, and 3 when that cannot be said: the rig is at fault,
refuses to open, offers nothing to judge, or some rules were not at stake often enough.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treadle import MisuseError
from treadle.host.reading.documents import Faulty, error_of, faults_in, read_text

from ..exploration.violation import Violation
from ..protocol.fault import RigFault
from ..protocol.process import TIMEOUT_S
from ..run_cases import own_cases, selected
from . import corpus
from .findings import RIG
from .kit import check_cases, check_command
from .plan import Plan
from .process_rig import Rigs
from .profiles import LEAST, PROFILES
from .progress import Progress, in_ci
from .replays import rule_of
from .sequence import draw_script
from .shrinking import played
from .verdicts import Verdict

MAX_EXPECTATIONS = 1 << 20
"""Bytes that a file of expected failures may have (X3)."""
OUR_OWN = f"{sys.executable} -m treadle_specs.rig"
SECONDS = 60.0
IN_CI = 1
"""The seed in CI, where the same must be drawn each time."""


def conform(
    rig: str = OUR_OWN,
    *,
    profile: str = "full",
    seconds: float | None = SECONDS,
    examples: int | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    rules: Sequence[str] = (),
    least: int = LEAST,
    timeout: float = TIMEOUT_S,
    cases: bool = True,
    expected: Sequence[str] = (),
    kept: Path | None = None,
    save: Path | None = None,
) -> Verdict:
    """Run the property suite and the packaged cases against the rig of a command.

    Args:
        rig: starts the driver, once per run.
        profile: whose rules it is held to: ``fair``, ``core``, ``durable`` or ``full``; no cases belong to the first two.
        seconds: wall time of the property suite; no bound when ``None``.
        examples: runs of the property suite at most.
        seed: where drawing begins; fresh unless given, and the same each time in CI.
        jobs: rigs that run at the same time; as many as there are processors unless given.
        rules: hold it to these alone.
        least: how often a rule has to be at stake.
        timeout: seconds that the rig has for one reply.
        cases: run the packaged cases.
        expected: rules and names of cases that are known to fail.
        kept: folder of scripts that once broke a rule: played first, and added to.
        save: folder for a script per broken rule, each with its sequence diagram in Mermaid.

    Raises:
        ValueError: there is no such profile, or the search has no bound.
    """
    seed = seed if seed is not None else IN_CI if in_ci() else random.randrange(10**6)  # noqa: S311 (no secret)
    plan = Plan(profile=profile, seconds=seconds, examples=examples, seed=seed, rules=frozenset(rules),
                expected=frozenset(expected), least=least, timeout=timeout, jobs=jobs or _processors())  # fmt: skip
    progress = Progress(plan)
    before = corpus.kept(kept) if kept is not None else []
    verdict = check_command(rig, plan, corpus=before, tell=progress.found)
    if cases and not plan.core and verdict.known.judgeable:
        check_cases(rig, verdict, tell=progress.cases)
    progress.done()
    if kept is not None:
        corpus.keep(kept, verdict.broken)
    if save is not None:
        _save(save, verdict, rig, timeout)
    return verdict


def _processors() -> int:
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _save(folder: Path, verdict: Verdict, rig: str, timeout: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for one in verdict.broken:
        text = json.dumps([one.script()], indent=1, ensure_ascii=False) + "\n"
        (folder / f"{one.rule}.json").write_text(text, encoding="utf-8")
        if one.rule != RIG:
            drawn = draw_script(one.script(), Rigs(rig, timeout, reuse=False).make)
            (folder / f"{one.rule}.mmd").write_text(drawn, encoding="utf-8")


def reach() -> frozenset[str]:
    """The rules that can be judged over the protocol: those of the suite, and those of the packaged cases."""
    cited = [rule for _, case in selected(own_cases()) for rule in case.get("rules", [])]
    return frozenset([*cited, *[rule for rules in PROFILES.values() for rule in rules]])


def rules_of(given: str) -> list[str]:
    """The rules between commas.

    Raises:
        MisuseError: one cannot be judged over the protocol.
    """
    words = [word for part in given.split(",") if (word := part.strip())]
    if unknown := sorted(set(words) - reach()):
        raise MisuseError(f"--rules: {', '.join(unknown)} cannot be judged over the protocol")
    return words


def expectations(given: str) -> list[str]:
    """A list of expected failures: words between commas, or a file with one per line (``#`` begins a remark).

    Raises:
        MisuseError: the file cannot be read, is too long (X3), or is no UTF-8.
    """
    if given and Path(given).is_file():
        try:
            lines = read_text(Path(given), MAX_EXPECTATIONS).splitlines()
        except (Faulty, OSError) as error:
            raise MisuseError(str(error_of(given, faults_in(error)))) from error
        return [word for line in lines if (word := line.partition("#")[0].strip())]
    return [word for part in given.split(",") if (word := part.strip())]


def replayed(script: dict[str, Any], command: str, timeout: float = TIMEOUT_S) -> tuple[str, int]:
    """Play a script on the driver that the command starts: what it shows, and the exit status.

    A finding is told once, whether or not it is the one in the script's name.
    """
    try:
        played(Rigs(command, timeout, reuse=False).make, corpus.steps_of(script), rule_of(script))
    except Violation as broken:
        again = str(script["name"]).endswith(broken.message)
        return ("still broken" if again else f"broken: {broken}"), 1
    except RigFault as fault:
        return f"the rig is at fault: {fault}", 3
    return "holds", 0
