"""A live line on stderr that says how far a run is; quiet where nobody watches."""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO

from .findings import Findings
from .plan import Plan
from .profiles import PROFILES

OFTEN_S = 0.2
PHASES = {"corpus": "what was broken before", "suite": "property suite", "shorten": "shortening what was found"}


class Progress:
    """Says how far a run is.

    Args:
        plan: what is asked for.
        out: where the line is drawn; stderr unless given.
        live: whether to draw at all; where a terminal is, and no CI, unless given.
    """

    def __init__(self, plan: Plan, out: TextIO | None = None, *, live: bool | None = None) -> None:
        self._plan = plan
        self._out = out if out is not None else sys.stderr
        self._live = live if live is not None else self._out.isatty() and not in_ci()
        self._began = time.monotonic()
        self._last, self._width = 0.0, 0

    def found(self, phase: str, found: Findings) -> None:
        """What a phase found so far."""
        wanted = PROFILES[self._plan.profile]
        stake = sum(found.stakes[rule] >= self._plan.least for rule in wanted)
        seconds = time.monotonic() - self._began
        of = f" of {self._plan.seconds:.0f}" if self._plan.seconds is not None else ""
        self._draw(f"{PHASES[phase]}: {seconds:.0f}{of} s, {found.runs} runs, {stake} of {len(wanted)} rules at stake, "
                   f"{len(found.broken)} broken")  # fmt: skip

    def cases(self, done: int, count: int) -> None:
        """How many cases are done."""
        self._draw(f"cases: {done} of {count}", now=done == count)

    def _draw(self, line: str, *, now: bool = False) -> None:
        if not self._live or (not now and time.monotonic() - self._last < OFTEN_S):
            return
        self._last = time.monotonic()
        self._out.write("\r" + line.ljust(self._width))
        self._out.flush()
        self._width = len(line)

    def done(self) -> None:
        """Take the line away."""
        if self._live and self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._out.flush()


def in_ci() -> bool:
    """Whether a CI system runs this."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no")
