"""``treadle explore`` and ``treadle export promela``: the decision, in every state."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from treadle_specs.exploration.explorer import explore_command
from treadle_specs.exploration.promela import SpinMissing, promela_command

from ..extras import MissingExtra

Json = Annotated[bool, Parameter(name="--json", negative=())]


def explore(
    *,
    ids: Annotated[int, Parameter(validator=Number(gte=1))] = 3,
    max_seconds: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    as_json: Json = False,
    jobs: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    save: Path | None = None,
) -> int:
    """Visit every state of the shipped kernel and check every property there.

    The exit status is 0 when every state was visited and every property holds in each, else 1.

    Args:
        ids: how many messages are alive at once.
        max_seconds: the time after which each of the profiles stops, incomplete.
        as_json: tell it to programs.
        jobs: processes among which the work is shared out.
        save: the folder for a counterexample's script.
    """
    return explore_command(ids, max_seconds, as_json=as_json, jobs=jobs, save=save, out=sys.stdout.write)


def export_promela(*, check: Annotated[bool, Parameter(negative=())] = False, as_json: Json = False) -> int:
    """Write the lifecycle as a Promela model for spin.

    Args:
        check: let spin verify the model instead of writing it; the exit status is 1 when a claim fails.
        as_json: tell the verdict to programs.
    """
    try:
        return promela_command(check=check, as_json=as_json, out=sys.stdout.write)
    except SpinMissing as missing:
        raise MissingExtra(str(missing)) from missing
