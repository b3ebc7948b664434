"""``treadle conform`` and ``treadle replay``: hold any driver behind the rig protocol to the contract (§7).

    treadle conform --rig "python examples/asyncio_rig.py" --profile core
    treadle conform --rig "…" --seconds 300 --expect C5,Q1 --format junit --output report.xml --save counterexamples/
    treadle replay counterexamples/C5.json --rig "…"

The exit status is 0 when the driver conforms, 1 when it does not, and 3 when that cannot be said: the rig is at fault,
refuses to open, offers nothing to judge, or some rules were not at stake often enough.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

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
from .reporting import as_json, as_junit, as_text
from .sequence import draw_script
from .shrinking import played
from .verdicts import Verdict

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
        profile: whose rules it is held to: ``core``, ``durable`` or ``full``; no cases belong to ``core``.
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
    if cases and profile != "core" and verdict.known.judgeable:
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


def main(arguments: Sequence[str] | None = None) -> int:
    """``treadle conform``."""
    given = _options().parse_args(arguments)
    words = [word.strip() for word in given.rules.split(",") if word.strip()]
    if unknown := sorted(set(words) - reach()):
        _options().error(f"--rules: {', '.join(unknown)} cannot be judged over the protocol")
    verdict = conform(given.rig, profile="core" if given.core else given.profile, seconds=given.seconds,
                      examples=given.examples, seed=given.seed, jobs=given.jobs, rules=words, least=given.least,
                      timeout=given.timeout, cases=not given.no_cases, expected=expectations(given.expect),
                      kept=None if given.no_corpus else given.corpus, save=given.save)  # fmt: skip
    text = _FORMATS[given.format](verdict)
    if given.output is None:
        sys.stdout.write(text)
    else:
        given.output.write_text(text, encoding="utf-8")
    return verdict.status


def reach() -> frozenset[str]:
    """The rules that can be judged over the protocol: those of the suite, and those of the packaged cases."""
    cited = [rule for _, case in selected(own_cases()) for rule in case.get("rules", [])]
    return frozenset([*cited, *[rule for rules in PROFILES.values() for rule in rules]])


def _json(verdict: Verdict) -> str:
    return json.dumps(as_json(verdict), indent=1, ensure_ascii=False) + "\n"


_FORMATS: dict[str, Callable[[Verdict], str]] = {"text": as_text, "json": _json, "junit": as_junit}


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="treadle conform", description="Hold a driver to the contract.")
    option = parser.add_argument
    option("--rig", default=OUR_OWN, metavar="COMMAND", help="starts the driver (default: our own)")
    option("--profile", choices=tuple(PROFILES), default="full", help="whose rules it is held to (default full)")
    option("--core", action="store_true", help="the same as --profile core")
    option("--seconds", type=_positive, default=SECONDS, help="for the property suite (default 60)")
    option("--examples", type=_count, help="runs of the property suite at most")
    option("--seed", type=int, help="where drawing begins (default: fresh, and told; the same each time in CI)")
    option("--jobs", type=_count, help="rigs at the same time (default: as many as there are processors)")
    option("--rules", default="", metavar="LIST", help="hold it to these rules alone")
    option("--least", type=_count, default=LEAST, help=f"how often a rule has to be at stake (default {LEAST})")
    option("--timeout", type=_positive, default=TIMEOUT_S, help="seconds for one reply of the rig (default 30)")
    option("--no-cases", action="store_true", help="leave out the packaged cases")
    option("--expect", default="", metavar="LIST|FILE", help="rules or cases known to fail")
    option("--corpus", type=Path, default=corpus.PLACE, metavar="FOLDER",
           help=f"scripts that once broke a rule: played first, and added to (default {corpus.PLACE})")  # fmt: skip
    option("--no-corpus", action="store_true", help="neither play nor keep such scripts")
    option("--format", choices=tuple(_FORMATS), default="text", help="of the report")
    option("--output", type=Path, metavar="FILE", help="where the report goes (default: stdout)")
    option("--save", type=Path, metavar="FOLDER", help="write a script and a picture for each broken rule there")
    return parser


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return number


def expectations(given: str) -> list[str]:
    """A list of expected failures: words between commas, or a file with one per line (``#`` begins a remark)."""
    if given and Path(given).is_file():
        lines = Path(given).read_text(encoding="utf-8").splitlines()
        return [word for line in lines if (word := line.partition("#")[0].strip())]
    return [word for part in given.split(",") if (word := part.strip())]


# --- replay -----------------------------------------------------------------------------------------------------------


def replay_main(arguments: Sequence[str] | None = None) -> int:
    """``treadle replay``: play saved scripts; exit status 1 when one still breaks a rule, 3 when the rig is at fault."""
    parser = argparse.ArgumentParser(prog="treadle replay", description="Play scripts of broken rules again.")
    parser.add_argument("scripts", nargs="+", type=Path, help="files that conform or explore saved")
    parser.add_argument("--rig", default=OUR_OWN, metavar="COMMAND", help="starts the driver (default: our own)")
    parser.add_argument("--timeout", type=_positive, default=TIMEOUT_S, help="seconds for one reply of the rig")
    given = parser.parse_args(arguments)
    status = 0
    for path in given.scripts:
        for script in _scripts(path, parser):
            told, code = _replayed(script, given.rig, given.timeout)
            status = max(status, code)
            sys.stdout.write(f"{script['name'].splitlines()[0]}: {told}\n")
    return status


def _scripts(path: Path, parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """The scripts of a file; leaves with a clear word when it holds none."""
    try:
        read: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        parser.error(f"{path} cannot be read as a script: {error}")
    scripts = cast("list[Any]", read if isinstance(read, list) else [read])
    if not scripts or not all(corpus.is_script(script) for script in scripts):
        parser.error(f"{path} is no script that `treadle conform` or `treadle explore` saved")
    return scripts


def _replayed(script: dict[str, Any], command: str, timeout: float) -> tuple[str, int]:
    """What a script shows, and the status: a finding is told once, whether or not it is the one in the name."""
    try:
        played(Rigs(command, timeout, reuse=False).make, corpus.steps_of(script))
    except Violation as broken:
        again = str(script["name"]).endswith(broken.message)
        return ("still broken" if again else f"broken: {broken}"), 1
    except RigFault as fault:
        return f"the rig is at fault: {fault}", 3
    return "holds", 0


if __name__ == "__main__":
    sys.exit(main())
