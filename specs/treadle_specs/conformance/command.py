"""``treadle conform`` and ``treadle replay``: hold any driver behind the rig protocol to the contract (§7).

    treadle conform --rig "python examples/asyncio_rig.py" --core
    treadle conform --rig "…" --expect C5,Q1 --format junit --output report.xml --save counterexamples/
    treadle replay counterexamples/C5.json --rig "…"

The exit status is 0 when nothing failed that was not expected to.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treadle import MisuseError
from treadle.host.reading.documents import Faulty, error_of, faults_in, read_text

from ..exploration.violation import Violation
from .kit import ProcessRig, check_cases, check_driver
from .player import replay_script
from .sequence import draw_script
from .verdicts import Verdict

MAX_EXPECTATIONS = 1 << 20
"""Bytes that a file of expected failures may have (X3)."""
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


def replayed(script: dict[str, Any], command: str) -> str | None:
    """Play a script on the driver that the command starts; what rule it still breaks, ``None`` when it holds."""
    rig = ProcessRig(command)
    try:
        replay_script(script, rig)
    except Violation as broken:
        return str(broken)
    finally:
        rig.stop()
    return None
