"""``treadle conform`` and ``treadle replay``: hold any driver behind the rig protocol to the contract (§7)."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from treadle import MisuseError
from treadle_specs.conformance import command
from treadle_specs.conformance.scripts import read_scripts

from ..exits import Exit

RigCommand = Annotated[str, Parameter(name="--rig", show_default=lambda _: "our own")]


def conform(
    *,
    rig: RigCommand = command.OUR_OWN,
    examples: Annotated[int, Parameter(validator=Number(gte=1))] = 40,
    core: Annotated[bool, Parameter(negative=())] = False,
    no_cases: Annotated[bool, Parameter(negative=())] = False,
    expect: str = "",
    format: Annotated[Literal["text", "json", "junit"], Parameter(alias="-f")] = "text",
    output: Annotated[Path | None, Parameter(alias="-o")] = None,
    save: Path | None = None,
) -> int:
    """Hold any driver behind the rig protocol to the contract: the property suite, then the packaged cases.

    The exit status is 0 when nothing failed that was not expected to, else 1.

    Args:
        rig: the command that starts the driver, once per run.
        examples: runs of the property suite.
        core: only what every driver has; the cases are left out.
        no_cases: leave out the packaged cases.
        expect: rules and names of cases that are known to fail, between commas; or a file with one per line, where
            `#` begins a remark.
        format: of the report.
        output: the file that the report is written to; stdout unless given.
        save: the folder for a script per broken rule, each with its sequence diagram in Mermaid.
    """
    known = command.expectations(expect)
    verdict = command.conform(
        _checked(rig), examples=examples, core=core, cases=not no_cases, expected=known, save=save
    )
    match format:
        case "text":
            text = verdict.as_text()
        case "json":
            text = json.dumps(verdict.as_json(), indent=1, ensure_ascii=False) + "\n"
        case "junit":
            text = verdict.as_junit()
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
    return Exit.OK if verdict.conforms else Exit.FAILED


def replay(scripts: list[Path], /, *, rig: RigCommand = command.OUR_OWN) -> int:
    """Play scripts of broken rules on a driver again.

    The exit status is 1 when one still breaks a rule.

    Args:
        scripts: files that `treadle conform` or `treadle explore` saved.
        rig: the command that starts the driver, once per script.
    """
    starts = _checked(rig)
    status = Exit.OK
    for script in [script for path in scripts for script in read_scripts(path)]:
        told = command.replayed(script, starts)
        status = Exit.FAILED if told is not None else status
        sys.stdout.write(f"{script['name']}: {told or 'holds'}\n")
    return status


def _checked(rig: str) -> str:
    """The command that starts a driver.

    Raises:
        MisuseError: it is no command: empty, or a quotation does not end.
    """
    try:
        words = shlex.split(rig)
    except ValueError as error:
        raise MisuseError(f"--rig is no command line: {error}") from error
    if not words:
        raise MisuseError("--rig is empty: give the command that starts the driver")
    return rig
