"""Runs the command as a user would: in a terminal of its own, with keys typed and output watched."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[2]
DEADLINE = 120.0
"""Seconds after which waiting for output has failed."""

CONTROL_C = "\x03"
CONTROL_D = "\x04"
_STYLES = re.compile(r"\x1b\[[0-9;]*m")
_TAKE_TERMINAL = """\
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "treadle_cli", *sys.argv[1:]])
"""


def environment(**more: str) -> dict[str, str]:
    """The environment of a child: the packages are found, and nothing of the developer's own is read."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TREADLE_", "COV_"))}
    paths = [str(ROOT / folder) for folder in ("machine", "adapters", "specs", "diagrams")]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "default", **more}


def call(
    *words: str, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, without a terminal."""
    command = [sys.executable, "-m", "treadle_cli", *words]
    given = environment(XDG_STATE_HOME=str(cwd / "state")) if env is None else dict(env)
    return subprocess.run(
        command, cwd=cwd, env=given, input=stdin, capture_output=True, text=True, timeout=DEADLINE, check=False
    )


class Terminal:
    """A running command in a terminal of its own. Use it as a context manager: it is killed at the end."""

    def __init__(self, words: Sequence[str], cwd: Path, term: str = "xterm-256color", extra_path: str = "") -> None:
        self.descriptor, theirs = pty.openpty()
        env = environment(TERM=term, COLUMNS="100", LINES="30", XDG_STATE_HOME=str(cwd / "state"))
        if extra_path:
            env["PYTHONPATH"] = os.pathsep.join([extra_path, env["PYTHONPATH"]])
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *words],
            cwd=cwd,
            env=env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._seen = ""
        self.screen = ""
        """Everything it wrote so far, without colours."""

    def until(self, text: str) -> str:
        """Read until ``text`` appears, behind what was waited for before; returns what came up to there."""
        end = time.monotonic() + DEADLINE
        while text not in self._seen:
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"{text!r} did not appear; the end of the screen: {self.screen[-800:]!r}")
        before, _, self._seen = self._seen.partition(text)
        return before

    def _read(self, seconds: float) -> bool:
        if seconds <= 0 or not select.select([self.descriptor], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:  # the other side has closed the terminal
            return False
        new = _STYLES.sub("", data.decode(errors="replace"))
        self.screen += new
        self._seen += new
        return bool(data)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.descriptor, keys.encode())

    def line(self, text: str) -> None:
        """Type a line and enter it."""
        self.type(text + "\r")

    def end(self) -> int:
        """Wait for the command to end; returns its exit status."""
        while self._read(DEADLINE):
            pass
        return self.process.wait(DEADLINE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.descriptor)
