"""``treadle conform`` and ``treadle replay``: hold any driver behind the rig protocol to the contract (§7).

    treadle conform --rig "python examples/asyncio_rig.py" --core
    treadle conform --rig "…" --expect C5,Q1 --format junit --output report.xml --save counterexamples/
    treadle replay counterexamples/C5.json --rig "…"

The exit status is 0 when nothing failed that was not expected to.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from ..exploration.violation import Violation
from .kit import ProcessRig, check_cases, check_driver
from .player import replay_script
from .sequence import draw_script
from .verdicts import Verdict

OUR_OWN = f"{sys.executable} -m treadle_specs.rig"


def conform(
    rig: str,
    *,
    examples: int = 40,
    core: bool = False,
    cases: bool = True,
    expected: Sequence[str] = (),
    save: Path | None = None,
) -> Verdict:
    """Run the property suite and the packaged cases against the rig of a command.

    Args:
        rig: starts the driver, once per run.
        examples: runs of the property suite.
        core: only what every driver has; the cases are left out.
        cases: run the packaged cases.
        expected: rules and names of cases that are known to fail.
        save: folder for a script per broken rule, each with its sequence diagram in Mermaid.
    """
    verdict = check_driver(lambda: ProcessRig(rig), examples=examples, core=core, expected=expected, raises=False)
    if cases and not core:
        check_cases(rig, verdict)
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        for one in verdict.broken:
            text = json.dumps([one.script()], indent=1, ensure_ascii=False) + "\n"
            (save / f"{one.rule}.json").write_text(text, encoding="utf-8")
            (save / f"{one.rule}.mmd").write_text(draw_script(one.script(), ProcessRig(rig)), encoding="utf-8")
    return verdict


def main(arguments: Sequence[str] | None = None) -> int:
    """``treadle conform``."""
    parser = argparse.ArgumentParser(prog="treadle conform", description="Hold a driver to the contract.")
    parser.add_argument("--rig", default=OUR_OWN, metavar="COMMAND", help="starts the driver (default: our own)")
    parser.add_argument("--examples", type=int, default=40, help="runs of the property suite (default 40)")
    parser.add_argument("--core", action="store_true", help="only what every driver has")
    parser.add_argument("--no-cases", action="store_true", help="leave out the packaged cases")
    parser.add_argument("--expect", default="", metavar="LIST|FILE", help="rules or cases known to fail")
    parser.add_argument("--format", choices=("text", "json", "junit"), default="text", help="of the report")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where the report goes (default: stdout)")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="write a script for each broken rule there")
    given = parser.parse_args(arguments)
    verdict = conform(given.rig, examples=given.examples, core=given.core, cases=not given.no_cases,
                      expected=expectations(given.expect), save=given.save)  # fmt: skip
    text = {
        "text": verdict.as_text,
        "json": lambda: json.dumps(verdict.as_json(), indent=1, ensure_ascii=False) + "\n",
        "junit": verdict.as_junit,
    }[given.format]()
    if given.output is None:
        sys.stdout.write(text)
    else:
        given.output.write_text(text, encoding="utf-8")
    return 0 if verdict.conforms else 1


def expectations(given: str) -> list[str]:
    """A list of expected failures: words between commas, or a file with one per line (``#`` begins a remark)."""
    if given and Path(given).is_file():
        lines = Path(given).read_text(encoding="utf-8").splitlines()
        return [word for line in lines if (word := line.partition("#")[0].strip())]
    return [word for part in given.split(",") if (word := part.strip())]


def replay_main(arguments: Sequence[str] | None = None) -> int:
    """``treadle replay``: play saved scripts; exit status 1 when one still breaks a rule."""
    parser = argparse.ArgumentParser(prog="treadle replay", description="Play scripts of broken rules again.")
    parser.add_argument("scripts", nargs="+", type=Path, help="files that conform or explore saved")
    parser.add_argument("--rig", default=OUR_OWN, metavar="COMMAND", help="starts the driver (default: our own)")
    given = parser.parse_args(arguments)
    status = 0
    for path in given.scripts:
        for script in _scripts(path, parser):
            told = _replayed(script, given.rig)
            status = status or int(told is not None)
            sys.stdout.write(f"{script['name']}: {told or 'holds'}\n")
    return status


def _scripts(path: Path, parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """The scripts of a file; leaves with a clear word when it holds none."""
    try:
        read: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        parser.error(f"{path} cannot be read as a script: {error}")
    scripts = cast("list[Any]", read if isinstance(read, list) else [read])
    if not all(
        isinstance(script, dict) and {"name", "steps"} <= set(cast("dict[str, Any]", script)) for script in scripts
    ):
        parser.error(f"{path} is no script that `treadle conform` or `treadle explore` saved")
    return scripts


def _replayed(script: dict[str, Any], command: str) -> str | None:
    rig = ProcessRig(command)
    try:
        replay_script(script, rig)
    except Violation as broken:
        return str(broken)
    finally:
        rig.stop()
    return None


if __name__ == "__main__":
    sys.exit(main())
