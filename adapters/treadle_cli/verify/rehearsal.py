"""``treadle rehearse``: recorded sessions, run again on today's code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from treadle import Event, MisuseError, SessionHeader
from treadle.errors import ConfigError
from treadle.host.declared import import_attribute
from treadle_specs.rehearsal import Rehearsals, rehearse
from treadle_specs.rehearsal.reporting import REPORTS

from ..exits import Exit
from ..stores.files import read_file

Switch = Annotated[bool, Parameter(negative=())]


def rehearse_sessions(
    sessions: list[Path],
    /,
    *,
    agent: str,
    real_tools: Switch = False,
    accept: Switch = False,
    format: Annotated[Literal["text", "json", "junit"], Parameter(alias="-f")] = "text",
    output: Annotated[Path | None, Parameter(alias="-o")] = None,
) -> int:
    """Run recorded sessions again on today's code: recorded answers, recorded results, recorded order, no model.

    Told is the first difference of each session: the request that differs, a hook that decided otherwise, or another
    event. The exit status is 0 when nothing differs, or all that does was accepted, and 1 when something differs or a
    session cannot be rehearsed.

    Args:
        sessions: session logs, or folders of them.
        agent: what furnishes a host with the agent, as in `my_agent:make`; modules in this folder are found.
        real_tools: have the tools run, instead of giving what was recorded.
        accept: write the new recordings in the place of those that differ.
        format: of the report.
        output: the file that the report is written to; stdout unless given.
    """
    make_agent = _maker(agent)
    found = [
        one
        for path in sessions
        for one in rehearse(path, make_agent, real_tools=real_tools, accept=accept, openers=(_packed,)).sessions
    ]
    text = REPORTS[format](Rehearsals(tuple(found)))
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
    return Exit.OK if all(one.same or one.accepted for one in found) else Exit.FAILED


def _maker(name: str) -> Any:
    """The function that a name stands for.

    Raises:
        MisuseError: it cannot be had, or is no function.
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise MisuseError(f"--agent {name}: write MODULE:NAME, as in my_agent:make")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        made = import_attribute(name)
    except ConfigError as error:
        raise MisuseError(f"--agent {name}: {error}") from error
    if not callable(made):
        raise MisuseError(f"--agent {name} is {type(made).__name__}, and no function that furnishes a host")
    return made


def _packed(path: Path) -> tuple[SessionHeader, Sequence[Event]] | None:
    """The session of a compressed file; ``None`` for any other."""
    if not path.name.endswith(".zst"):
        return None
    read = read_file(path)
    if read.damage is not None:
        raise read.damage
    return read.header, read.events
