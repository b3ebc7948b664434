"""The command ``treadle``. It needs the ``cli`` extra (cyclopts and rich).

It stands on top of all other packages, and none imports it. A room per command: ``demo``, ``run``, ``models``, ``show``,
``stores`` and ``verify``; ``terminal`` holds what several of them show. ``mounts`` names the commands.

Importing this imports nothing else, so that a Ctrl-C finds ``command`` at work as early as can be.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .mounts import Mount

__all__ = ["command", "main"]

_NEEDED = ("cyclopts", "rich")


def command() -> int:
    """Be the process ``treadle``: run the command of its arguments and return its exit status.

    A Ctrl-C while it is still being imported, or when it has ended, ends the process at once and without a word, as it
    does a program in C: there is nothing to wind down (H11). Where Ctrl-C is ignored it stays so.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return main()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    run = _ready(sys.argv[1:])
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        status = run()
    except KeyboardInterrupt:
        status = 130
    _hear_no_more()
    return status


def _hear_no_more() -> None:
    while True:
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        except KeyboardInterrupt:  # it came before
            continue
        return


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Args:
        arguments: what follows ``treadle`` on the command line; the process's own unless given.
    """
    return _ready(list(sys.argv[1:] if arguments is None else arguments))()


def _ready(tokens: list[str]) -> Callable[[], int]:
    """Import what the words name; what comes back runs it, and tells what could not be imported."""
    from . import mounts

    mount = mounts.chosen(tokens, mounts.MOUNTS)
    if mount is not None and mount.bare and len(tokens) == len(mount.path):
        return lambda: run_bare(mount)
    try:
        from .commands import run_command
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        missing = error.name
        return lambda: _refused(f"the command needs {missing}: pip install 'treadle[cli]'")
    if mount is not None:
        with contextlib.suppress(Exception):  # it is imported again when it is run, and what is wrong is told then
            mount.load()
    return lambda: run_command(tokens)


def run_bare(mount: Mount) -> int:
    """Run a command that needs no command line to be read; returns its exit status."""
    from .extras import MissingExtra

    try:
        target = mount.load()
    except MissingExtra as error:
        return _refused(str(error))
    return int(target() or 0)


def _refused(text: str) -> int:
    sys.stderr.write(f"treadle: {text}\n")
    return 2
