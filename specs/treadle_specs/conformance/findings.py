"""What the runs of a search find: each broken rule with its shortest script, and how often every rule was at stake."""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import define, field

from ..exploration.violation import Violation
from ..protocol.fault import RigFault
from .ledger import Json
from .stakes import Stakes

RIG, TESTER = "rig", "tester"
"""What stands in place of a rule where the rig is at fault, or the tester does not understand what it is told."""
STRIKES = 3
"""So many faults of the rig are enough: nothing can be said of the driver behind it."""


class Enough(Exception):
    """The search has had its time, its runs, or its findings."""


@define
class Broken:
    """A rule that a driver breaks, and the shortest script that was found to show it.

    Attributes:
        rule: its id.
        message: what was wrong.
        steps: the requests that were made.
        expected: it was known to be broken.
        times: in how many runs; what those runs would have shown after it, nobody knows.
    """

    rule: str
    message: str
    steps: list[Json]
    expected: bool = False
    times: int = 1

    def script(self) -> Json:
        """As a case file has it; ``treadle replay`` plays it."""
        opening: Json = next((step for step in self.steps if step["do"] == "open"), {"do": "open"})
        return {
            "name": f"{self.rule}: {self.message}",
            "rules": [self.rule],
            "open": {key: value for key, value in opening.items() if key != "do"},
            "steps": [step for step in self.steps if step["do"] != "open"],
        }


@define
class Findings:
    """The record of a search, and what ends it.

    Attributes:
        seconds: of wall time; no bound when ``None``.
        examples: runs; no bound when ``None``.
        rounds: different rules that may be broken; then there is enough to mend.
        rules: those that are asked for, all when empty.
        tell: told after each run.
    """

    seconds: float | None = None
    examples: int | None = None
    rounds: int | None = None
    rules: frozenset[str] = frozenset()
    tell: Callable[[Findings], None] | None = None
    runs: int = 0
    stakes: Stakes = field(factory=Stakes)
    broken: dict[str, Broken] = field(factory=dict[str, Broken])
    masked: int = 0
    faults: list[RigFault] = field(factory=list[RigFault])
    began: float = field(factory=time.monotonic)

    @property
    def over(self) -> bool:
        """Whether there were enough runs."""
        late = self.seconds is not None and time.monotonic() - self.began >= self.seconds
        done = self.examples is not None and self.runs >= self.examples
        found = self.rounds is not None and len(self.broken) >= self.rounds
        return late or done or found or len(self.faults) >= STRIKES

    def begin(self) -> None:
        """A run begins.

        Raises:
            Enough: there were enough.
        """
        if self.over:
            raise Enough

    def end(self, stakes: Stakes) -> None:
        """A run is over."""
        self.runs += 1
        self.stakes.update(stakes)
        if self.tell is not None:
            self.tell(self)

    def takes(self, error: BaseException, steps: list[Json]) -> bool:
        """Take what ended a run, with its script."""
        match error:
            case Enough():
                return False
            case Violation():
                self.note(error.rule, error.message, steps)
            case RigFault():
                self.faults.append(error)
                self.note(RIG, str(error), steps)
            case Exception():
                self.note(TESTER, f"the tester does not understand what it is told: {error!r}", steps)
            case _:
                return False
        return True

    def note(self, rule: str, message: str, steps: list[Json]) -> None:
        """A rule was broken in a run that had made these requests."""
        if self.rules and rule not in self.rules and rule not in (RIG, TESTER):
            self.masked += 1
            return
        known = self.broken.get(rule)
        if known is None:
            self.broken[rule] = Broken(rule, message, steps)
            return
        known.times += 1
        self.masked += 1
        if len(steps) < len(known.steps):
            known.steps, known.message = steps, message

    def add(self, other: Findings) -> None:
        """Take what another search found."""
        self.runs += other.runs
        self.masked += other.masked
        self.stakes.update(other.stakes)
        self.faults += other.faults
        for rule, found in other.broken.items():
            known = self.broken.get(rule)
            if known is None:
                self.broken[rule] = found
                continue
            known.times += found.times
            if len(found.steps) < len(known.steps):
                known.steps, known.message = found.steps, found.message
