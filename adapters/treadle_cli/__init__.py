"""The command ``treadle``. It needs the ``cli`` extra (cyclopts and rich).

It stands on top of all other packages, and none imports it. A room per command: ``demo``, ``run``, ``models``, ``show``
and ``stores``; ``terminal`` holds what several of them show. ``mounts`` names the commands.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from . import mounts
from .extras import MissingExtra
from .mounts import Mount, chosen

__all__ = ["main"]

_NEEDED = ("cyclopts", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Args:
        arguments: what follows ``treadle`` on the command line; the process's own unless given.
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    mount = chosen(tokens, mounts.MOUNTS)
    if mount is not None and mount.bare and len(tokens) == len(mount.path):
        return run_bare(mount)
    try:
        from .commands import run_command
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        sys.stderr.write(f"treadle: the command needs {error.name}: pip install 'treadle[cli]'\n")
        return 2
    return run_command(tokens)


def run_bare(mount: Mount) -> int:
    """Run a command that needs no command line to be read; returns its exit status."""
    try:
        target = mount.load()
    except MissingExtra as error:
        sys.stderr.write(f"treadle: {error}\n")
        return 2
    return int(target() or 0)
