"""One change on trial: a process is forked, changed, and run through the layers, while this one watches over it.

A process that hangs is noticed by what it does, never by the clock alone: either it computes far longer than the same test
took before, or all its threads sleep and go on sleeping. So a loaded machine makes a trial slower and not its verdict wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from .operators import Mutant

Say = Callable[[str, str], None]
"""Tells the process that watches: a kind (``layer``, ``test``, ``killed``), and what."""
LOOK = 0.25
"""Seconds between one look at a silent process and the next."""
ASLEEP = 16
"""So many looks at a process whose threads all sleep, and that has done nothing since, make a hang."""
COMPUTING = 3.0
"""Seconds of processor time that one test may take."""
LAYER = 240.0
"""The same for a layer that is no test."""


@frozen
class Verdict:
    """What became of a mutant.

    Attributes:
        killed: by each layer that noticed, what it said.
        tried: the layers that were asked.
        seconds: of processor time.
    """

    mutant: Mutant
    killed: dict[str, str]
    tried: tuple[str, ...]
    seconds: float


@define
class Watch:
    """What a process on trial has told, and since when it tells nothing."""

    layer: str = ""
    doing: str = ""
    killed: dict[str, str] = field(factory=dict[str, str])
    tried: list[str] = field(factory=list[str])
    ended: bool = False
    asleep: int = 0
    since: float = 0.0

    def take(self, line: bytes, computed: float) -> None:
        """A line that the process told, after so many seconds of computing."""
        kind, what = json.loads(line)
        self.asleep, self.since = 0, computed
        if kind == "layer":
            self.layer = self.doing = what
            self.tried.append(what)
        elif kind == "test":
            self.doing = what
        elif kind == "killed":
            self.killed[self.layer] = what
        else:
            self.ended = True

    def hangs(self, pid: int) -> bool:
        """Whether the process will not go on; to be asked while it is silent."""
        computed, sleeping = looked(pid)
        limit = LAYER if self.doing == self.layer else COMPUTING
        self.asleep = self.asleep + 1 if sleeping and computed - self.since < limit else 0
        return self.asleep >= ASLEEP or computed - self.since >= limit


def judge(mutant: Mutant, trial: Callable[[Say], None]) -> Verdict:
    """Run a trial in a process of its own.

    Args:
        mutant: what is on trial.
        trial: changes the process and runs the layers; whatever it raises is noticed by the layer it told last.
    """
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # threads that idle do not matter to what follows
        pid = os.fork()
    if pid == 0:
        os.close(read)
        _stand(trial, write)
    os.close(write)
    watch = Watch()
    try:
        if _watched(read, pid, watch):
            watch.killed[watch.layer] = f"hangs in {watch.doing}"
        elif not watch.ended and watch.layer not in watch.killed:
            watch.killed[watch.layer] = f"the process died in {watch.doing}"
    finally:
        os.close(read)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        usage = os.wait4(pid, 0)[2]
    return Verdict(mutant, watch.killed, tuple(watch.tried), usage.ru_utime + usage.ru_stime)


def _stand(trial: Callable[[Say], None], write: int) -> None:
    """The forked process, to its end."""

    def say(kind: str, what: str) -> None:
        os.write(write, (json.dumps([kind, what[:400]]) + "\n").encode())

    try:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        trial(say)
        say("end", "")
    except BaseException as error:
        say("killed", f"{type(error).__name__}: {error}")
        say("end", "")
    finally:
        os._exit(0)


def _watched(read: int, pid: int, watch: Watch) -> bool:
    """Listen until the process ends; returns whether it was given up."""
    rest = b""
    while True:
        ready, _, _ = select.select([read], [], [], LOOK)
        if ready:
            data = os.read(read, 1 << 16)
            if not data:
                return False
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                watch.take(line, looked(pid)[0])
        elif watch.hangs(pid):
            return True


def looked(pid: int) -> tuple[float, bool]:
    """Processor time of a process, and whether all of its threads sleep. Where there is no ``/proc``, it is the clock."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
        threads = [path.read_text(encoding="ascii") for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return time.monotonic(), False
    fields = _fields(text)
    spent = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return spent, all(_fields(each)[0] == "S" for each in threads)


def _fields(stat: str) -> list[Any]:
    return stat.rpartition(")")[2].split()
