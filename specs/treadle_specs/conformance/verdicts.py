"""What a conformance run found, per rule and per case, and what it lets one say of the driver (§7)."""

from __future__ import annotations

from collections import Counter

from attrs import define, field

from ..protocol.fault import RigFault
from .findings import RIG, TESTER, Broken, Findings
from .plan import Plan
from .profiles import PROFILES, SEEN, inapplicable
from .stakes import Stakes
from .survey import Survey

CONFORMS = "conforms"
BROKEN = "does not conform"
UNEXERCISED = "not fully exercised"
NOTHING = "nothing to judge"
REFUSED = "refused to open"
FAULT = "the rig is at fault"


@define
class CaseResult:
    """How one packaged case went: ``ok``, ``failed``, ``skipped`` or ``expected``."""

    name: str
    rules: list[str]
    outcome: str
    message: str = ""


@define
class Verdict:
    """Everything that a run found.

    Attributes:
        plan: what was asked for.
        known: what the driver has.
        runs: how many runs were made.
        stakes: how often each rule was at stake in them.
        broken: rules that do not hold.
        masked: what could not be seen: runs that ended at a rule that was known to be broken, or not asked for; with the
            fair profile, where a run goes on, later breaks of a rule in a run that had broken it.
        faults: how the rig broke the protocol.
        cases: how the packaged cases went.
        seconds: how long it took.
    """

    plan: Plan
    known: Survey
    runs: int = 0
    stakes: Stakes = field(factory=Stakes)
    broken: list[Broken] = field(factory=list[Broken])
    masked: int = 0
    faults: list[RigFault] = field(factory=list[RigFault])
    cases: list[CaseResult] = field(factory=list[CaseResult])
    seconds: float = 0.0

    def take(self, found: Findings) -> None:
        """Take what a search found."""
        self.runs, self.stakes, self.masked = found.runs, found.stakes, found.masked
        self.faults = list(found.faults)
        self.broken = sorted(found.broken.values(), key=lambda one: (one.rule[:1], len(one.rule), one.rule))
        for one in self.broken:
            one.expected = one.rule in self.plan.expected

    # --- what can be said ---------------------------------------------------------------------------------------------

    @property
    def word(self) -> str:
        """The verdict: one of this module's words."""
        if self.known.fault is not None:
            return FAULT
        if self.known.unable:
            return REFUSED if self.known.refused else NOTHING
        failed = any(case.outcome == "failed" for case in self.cases)
        if failed or any(not one.expected and one.rule not in (RIG, TESTER) for one in self.broken):
            return BROKEN
        if any(one.rule in (RIG, TESTER) for one in self.broken):
            return FAULT
        seen = self.stakes[SEEN[self.plan.profile]]
        if self.rules_that_are("not exercised") and seen:
            return UNEXERCISED
        judged = self.rules_that_are("held") or self.rules_that_are("expected")
        return CONFORMS if seen and judged else NOTHING

    @property
    def why(self) -> str:
        """The reason of a verdict that nothing else tells; empty where something does."""
        if self.known.fault is not None:
            return str(self.known.fault)
        if self.known.unable:
            return self.known.unable
        if self.word != NOTHING:
            return ""
        return (
            "none of the rules applies" if self.stakes[SEEN[self.plan.profile]] else "no turn was ever opened and ended"
        )

    @property
    def conforms(self) -> bool:
        """Whether every rule that applies was at stake often enough, and held or was expected not to."""
        return self.word == CONFORMS

    @property
    def status(self) -> int:
        """Of the process: 0 conforms, 1 does not, 3 when that cannot be said."""
        return {CONFORMS: 0, BROKEN: 1}.get(self.word, 3)

    @property
    def rules(self) -> dict[str, str]:
        """What became of each rule that was asked for, in the order of the contract."""
        left_out = inapplicable(self.plan.profile, self.known.features, self.known.lacks)
        in_cases = {rule for case in self.cases for rule in case.rules}
        asked = [*PROFILES[self.plan.profile], *sorted(in_cases.difference(PROFILES[self.plan.profile]))]
        return {rule: self._became(rule, left_out) for rule in asked if not self.plan.rules or rule in self.plan.rules}

    def _became(self, rule: str, left_out: dict[str, str]) -> str:
        for one in self.broken:
            if one.rule == rule:
                return "expected" if one.expected else "broken"
        told = {case.outcome for case in self.cases if rule in case.rules}
        if "failed" in told:
            return "broken"
        if "expected" in told:
            return "expected"
        if rule in left_out:
            return f"not applicable: {left_out[rule]}"
        if rule not in PROFILES[self.plan.profile]:
            return "held" if "ok" in told else "not applicable: its cases are skipped"
        return "held" if self.times(rule) >= self.plan.least else "not exercised"

    def times(self, rule: str) -> int:
        """How often a rule was at stake: in the runs, and in the cases that went well."""
        return self.stakes[rule] + sum(rule in case.rules and case.outcome == "ok" for case in self.cases)

    def of(self, rule: str) -> str:
        """What became of one rule."""
        return self.rules.get(rule, "not asked for")

    def rules_that_are(self, word: str) -> list[str]:
        """The rules of which one thing is to be said."""
        return [rule for rule, became in self.rules.items() if became.partition(":")[0] == word]

    @property
    def surprises(self) -> list[str]:
        """What was expected to fail, and did not."""
        failed = {one.rule for one in self.broken}
        for case in self.cases:
            if case.outcome == "expected":
                failed |= {case.name, *case.rules}
        return sorted(self.plan.expected - failed)

    @property
    def outcomes(self) -> Counter[str]:
        """How many cases went which way."""
        return Counter(case.outcome for case in self.cases)
