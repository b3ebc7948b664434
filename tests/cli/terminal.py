"""Runs the command as a user would: in a terminal of its own, with keys typed and output watched."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import pyte

ROOT = Path(__file__).parents[2]
DEADLINE = 120.0
"""Seconds after which waiting for output has failed."""

CONTROL_C = "\x03"
CONTROL_D = "\x04"
PROMPT = "›"
LINES = 30
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
    """A running command in a terminal of its own. Use it as a context manager: it is killed at the end.

    What it writes goes through a terminal emulator; tests wait for signs on its screen, never for time.
    """

    def __init__(
        self,
        words: Sequence[str],
        cwd: Path,
        term: str = "xterm-256color",
        extra_path: str = "",
        columns: int = 100,
        input: str = "",
    ) -> None:
        self.descriptor, theirs = pty.openpty()
        self._screen = pyte.HistoryScreen(columns, LINES, history=10_000)
        self._stream = pyte.Stream(self._screen)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self.raw = ""
        """Everything it wrote so far, as it was written."""
        self.resize(columns)
        if input:  # typed ahead, before the command has started
            os.write(self.descriptor, input.encode())
        env = environment(TERM=term, XDG_STATE_HOME=str(cwd / "state"))
        env = {name: value for name, value in env.items() if name not in ("COLUMNS", "LINES")}
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

    # --- what is seen -------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> list[str]:
        """The rows that have scrolled away, and those on the screen down to the last that is not blank."""
        columns = range(self._screen.columns)
        gone = ["".join([row[at].data for at in columns]) for row in self._screen.history.top]
        rows = [row.rstrip() for row in [*gone, *self._screen.display]]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def text(self) -> str:
        """The rows as one text."""
        return "\n".join(self.rows)

    @property
    def cursor(self) -> tuple[int, int]:
        """Row of the screen and column of the cursor."""
        return self._screen.cursor.y, self._screen.cursor.x

    def until(self, text: str, times: int = 1) -> None:
        """Read until ``text`` stands among the rows, so many times."""
        self.until_seen(lambda: self.text.count(text) >= times, repr(text))

    def idle(self) -> None:
        """Read until the last row is the prompt of an agent that is idle."""
        self.until_seen(lambda: self.rows[-1:] == [PROMPT], "the prompt")

    def until_seen(self, seen: Callable[[], bool], what: str) -> None:
        """Read until something is to be seen."""
        end = time.monotonic() + DEADLINE
        while not seen():
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"{what} did not appear; the screen:\n{self.text[-2000:]}")

    def _read(self, seconds: float) -> bool:
        if seconds <= 0 or not select.select([self.descriptor], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:  # the other side has closed the terminal
            return False
        text = self._decode.decode(data)
        self.raw += text
        self._stream.feed(text)
        return bool(data)

    # --- what is done -------------------------------------------------------------------------------------------------

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.descriptor, keys.encode())

    def line(self, text: str) -> None:
        """Type a line and enter it."""
        self.type(text + "\r")

    def resize(self, columns: int) -> None:
        """Make the terminal wider or narrower."""
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
        self._screen.resize(LINES, columns)

    def hang_up(self) -> None:
        """Close the terminal, as when its window is closed."""
        os.close(self.descriptor)
        self.descriptor = -1

    def end(self) -> int:
        """Wait for the command to end; returns its exit status."""
        while self.descriptor >= 0 and self._read(DEADLINE):
            pass
        return self.process.wait(DEADLINE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.descriptor >= 0:
            os.close(self.descriptor)
