"""The command ``treadle``. It needs the ``cli`` extra (cyclopts and rich)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

_NEEDED = ("cyclopts", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Args:
        arguments: what follows ``treadle`` on the command line; the process's own unless given.
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from .commands import run_command
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        sys.stderr.write(f"treadle: the command needs {error.name}: pip install 'treadle[cli]'\n")
        return 2
    return run_command(tokens)
