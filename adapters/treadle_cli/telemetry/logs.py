"""The logs that a command is given."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from treadle.printable import printable
from treadle_diagrams import SessionFile

from ..stores.files import read_file


def read_all(names: Iterable[str | Path]) -> list[SessionFile]:
    """Read sessions as far as possible, parents before their sub-agents; what is wrong with one is told on stderr."""
    found: list[SessionFile] = []
    for name in names:
        session = read_file(name)
        if session.trouble is not None:
            sys.stderr.write(f"treadle: {printable(session.trouble)}\n")
        found.append(session)
    return sorted(found, key=lambda session: session.header.delegation_depth)


def damaged(sessions: Iterable[SessionFile]) -> bool:
    """Whether any of them could not be read to its end."""
    return any([session.damage is not None for session in sessions])
