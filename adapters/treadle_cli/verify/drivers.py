"""``treadle conform`` and ``treadle replay``: hold any driver behind the rig protocol to the contract (§7)."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from treadle import MisuseError
from treadle_specs.conformance import command
from treadle_specs.conformance import rig_check as walk
from treadle_specs.conformance.corpus import PLACE as KEPT
from treadle_specs.conformance.profiles import LEAST
from treadle_specs.conformance.reporting import as_json, as_junit, as_text
from treadle_specs.conformance.scripts import read_scripts
from treadle_specs.conformance.verdicts import Verdict
from treadle_specs.protocol.process import TIMEOUT_S

RigCommand = Annotated[str, Parameter(name="--rig", show_default=lambda _: "our own")]
Count = Annotated[int, Parameter(validator=Number(gte=1))]
Seconds = Annotated[float, Parameter(validator=Number(gt=0, lt=1e9))]


def conform(
    *,
    rig: RigCommand = command.OUR_OWN,
    profile: Literal["fair", "core", "durable", "full"] = "full",
    core: Annotated[bool, Parameter(negative=())] = False,
    seconds: Seconds = command.SECONDS,
    examples: Count | None = None,
    seed: int | None = None,
    jobs: Count | None = None,
    rules: str = "",
    least: Count = LEAST,
    timeout: Seconds = TIMEOUT_S,
    no_cases: Annotated[bool, Parameter(negative=())] = False,
    expect: str = "",
    corpus: Path = KEPT,
    no_corpus: Annotated[bool, Parameter(negative=())] = False,
    format: Annotated[Literal["text", "json", "junit"], Parameter(alias="-f")] = "text",
    output: Annotated[Path | None, Parameter(alias="-o")] = None,
    save: Path | None = None,
) -> int:
    """Hold any driver behind the rig protocol to the contract: the property suite, then the packaged cases.

    The exit status is 0 when the driver conforms, 1 when it does not, and 3 when that cannot be said: the rig is at
    fault, refuses to open, offers nothing to judge, or some rules were not at stake often enough.

    Args:
        rig: the command that starts the driver, once per run.
        profile: whose rules it is held to.
        core: the same as `--profile core`.
        seconds: wall time of the property suite.
        examples: runs of the property suite at most.
        seed: where drawing begins; fresh and told unless given, and the same each time in CI.
        jobs: rigs at the same time; as many as there are processors unless given.
        rules: hold it to these alone, between commas.
        least: how often a rule has to be at stake.
        timeout: seconds for one reply of the rig.
        no_cases: leave out the packaged cases.
        expect: rules and names of cases that are known to fail, between commas; or a file with one per line, where
            `#` begins a remark.
        corpus: the folder of scripts that once broke a rule: played first, and added to.
        no_corpus: neither play nor keep such scripts.
        format: of the report.
        output: the file that the report is written to; stdout unless given.
        save: the folder for a script per broken rule, each with its sequence diagram in Mermaid.
    """
    verdict = command.conform(
        _checked(rig), profile="core" if core else profile, seconds=seconds, examples=examples, seed=seed, jobs=jobs,
        rules=command.rules_of(rules), least=least, timeout=timeout, cases=not no_cases, save=save,
        expected=command.expectations(expect), kept=None if no_corpus else corpus,
    )  # fmt: skip
    text = _REPORTS[format](verdict)
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
    return verdict.status


def _json(verdict: Verdict) -> str:
    return json.dumps(as_json(verdict), indent=1, ensure_ascii=False) + "\n"


_REPORTS: dict[str, Callable[[Verdict], str]] = {"text": as_text, "json": _json, "junit": as_junit}


def replay(scripts: list[Path], /, *, rig: RigCommand = command.OUR_OWN, timeout: Seconds = TIMEOUT_S) -> int:
    """Play scripts of broken rules on a driver again.

    The exit status is 1 when one still breaks a rule, and 3 when the rig is at fault.

    Args:
        scripts: files that `treadle conform` or `treadle explore` saved.
        rig: the command that starts the driver, once per script.
        timeout: seconds for one reply of the rig.
    """
    starts = _checked(rig)
    status = 0
    for script in [script for path in scripts for script in read_scripts(path)]:
        told, code = command.replayed(script, starts, timeout)
        status = max(status, code)
        sys.stdout.write(f"{script['name'].splitlines()[0]}: {told}\n")
    return status


def rig_check(*, rig: RigCommand = command.OUR_OWN, timeout: Seconds = TIMEOUT_S) -> int:
    """Walk one short session with a rig under construction, and say step by step what it lacks.

    The exit status is 0 when the core is there, 1 when something of it is missing, and 3 when the rig breaks the
    protocol.

    Args:
        rig: the command that starts the rig.
        timeout: seconds for one reply of the rig.
    """
    return walk.tell(_checked(rig), timeout)


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
