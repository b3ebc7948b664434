"""A child process and all that it starts, ended as one."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import trio

INHERITED = ("HOME", "LANG", "PATH", "TMPDIR")
"""What a child gets of our environment unless told otherwise: places and language, and nothing that may be a secret."""


def environment(names: Iterable[str], given: Mapping[str, str]) -> dict[str, str]:
    """The variables of ours that are named, where they are set, and those that are given."""
    return {**{name: os.environ[name] for name in names if name in os.environ}, **given}


class ProcessGroup:
    """A child that leads a process group, on POSIX; what it starts belongs to the group unless it leaves it on purpose.

    Make it with ``start``. Whoever does sees to it that ``end`` is awaited, whatever happens.

    Attributes:
        process: the child.
    """

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self._over = False

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | Path | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.PIPE,
    ) -> ProcessGroup:
        """Start a child whose stdout is a pipe.

        Raises:
            OSError: it cannot be started.
            ValueError: a word or a variable holds a NUL.
        """
        process = await trio.lowlevel.open_process(
            list(command),
            env=dict(env),
            cwd=cwd,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
        return cls(process)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group; to one that is gone it does nothing."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    async def end(self, grace: float, *, ask: bool = True) -> None:
        """End the group: its input is closed, then it is asked, then killed. Cancellation does not interrupt this.

        Args:
            grace: seconds that it has after its input was closed, and again after it was asked to terminate.
            ask: whether it gets that time at all.
        """
        if not self._over:  # the number of a group that is gone may be another's
            with trio.CancelScope(shield=True):
                await self._end(grace, ask)
            self._over = True

    async def _end(self, grace: float, ask: bool) -> None:
        process = self.process
        if process.stdin is not None:
            await process.stdin.aclose()
            if ask:
                with trio.move_on_after(grace):
                    await process.wait()
        if ask and process.returncode is None:
            self.signal(signal.SIGTERM)
            with trio.move_on_after(grace):
                await process.wait()
        # Also where the leader is gone: the group lives as long as one member does, and its number with it.
        self.signal(signal.SIGKILL)
        await process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                await stream.aclose()
