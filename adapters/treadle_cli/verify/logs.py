"""``treadle check``: session logs, held to the rules."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from treadle_specs.logs.checker import check_command


def check(
    logs: list[str],
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    finished: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Hold session logs to the rules, whoever wrote them. Nothing is changed.

    Each broken rule is told with its id, the event and the line. The exit status is 1 when one of the logs is not
    sound.

    Args:
        logs: session logs, as JSONL.
        as_json: tell it to programs: one object per line and log.
        finished: a log that ends inside a turn is at fault; unless given that is a note.
    """
    return check_command(logs, as_json=as_json, finished=finished, out=sys.stdout.write)
