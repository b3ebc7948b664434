"""What a conformance run found, per rule and per case, for people and for programs."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import quoteattr

from attrs import define, field

from .ledger import Json

RULES: tuple[str, ...] = (
    *("C1", "C2", "C3", "C4", "C5", "C6", "C8", "C9", "C11", "D4", "D6", "D7", "D8", "I1", "I2", "I5", "I6", "I9"),
    *("K3", "K5", "K6", "L4", "L5", "L7", "L8", "L9", "M1", "N1", "N2", "N3", "N4", "N6", "N7", "O1", "O4", "Q1", "Q5"),
    *("T3", "T6", "T7", "T9", "T10", "T12"),
)
"""The rules that the property suite holds a driver to."""


@define
class Broken:
    """A rule that a driver breaks, and the shortest script that was found to show it."""

    rule: str
    message: str
    steps: list[Json]
    expected: bool = False

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
        driver: what the rig calls itself.
        examples: how many runs were made.
        broken: rules that do not hold.
        cases: how the packaged cases went.
        expected: what was expected to fail: rules, or names of cases.
    """

    driver: str = ""
    examples: int = 0
    broken: list[Broken] = field(factory=list[Broken])
    cases: list[CaseResult] = field(factory=list[CaseResult])
    expected: frozenset[str] = frozenset()

    @property
    def conforms(self) -> bool:
        """Whether nothing failed that was not expected to."""
        return all(one.expected for one in self.broken) and all(case.outcome != "failed" for case in self.cases)

    @property
    def surprises(self) -> list[str]:
        """What was expected to fail, and did not."""
        failed = {one.rule for one in self.broken} | {case.name for case in self.cases if case.outcome == "expected"}
        return sorted(self.expected - failed)

    def of(self, rule: str) -> str:
        """What became of one rule."""
        for one in self.broken:
            if one.rule == rule:
                return "expected" if one.expected else "broken"
        return "held"

    def as_json(self) -> Json:
        """As plain values."""
        return {
            "driver": self.driver,
            "conforms": self.conforms,
            "examples": self.examples,
            "rules": {rule: self.of(rule) for rule in RULES},
            "broken": [{"rule": one.rule, "message": one.message, "expected": one.expected, "script": one.script()}
                       for one in self.broken],
            "cases": [{"name": one.name, "rules": one.rules, "outcome": one.outcome, "message": one.message}
                      for one in self.cases],
            "surprises": self.surprises,
        }  # fmt: skip

    def as_text(self) -> str:
        """For people."""
        lines = [f"{self.driver}: {self.examples} runs, {len(self.cases)} cases"]
        held = [rule for rule in RULES if self.of(rule) == "held"]
        lines.append(f"held: {' '.join(held)}")
        for one in self.broken:
            lines.append(f"{'expected' if one.expected else 'BROKEN'}: [{one.rule}] {one.message}")
            lines += [f"    {step}" for step in one.steps]
        for case in self.cases:
            if case.outcome == "failed":
                lines.append(f"FAILED: {case.name} ({' '.join(case.rules)}): {case.message}")
        counts = {word: sum(case.outcome == word for case in self.cases) for word in ("ok", "skipped", "expected")}
        lines.append("cases: " + ", ".join(f"{count} {word}" for word, count in counts.items()))
        lines += [f"expected to fail, and did not: {name}" for name in self.surprises]
        lines.append("conforms" if self.conforms else "does not conform")
        return "\n".join(lines) + "\n"

    def as_junit(self) -> str:
        """As JUnit XML."""
        tests: list[tuple[str, str, str]] = []
        for rule in RULES:
            found = next((one for one in self.broken if one.rule == rule), None)
            tests.append((f"rule {rule}", self.of(rule), found.message if found is not None else ""))
        tests += [(f"case {one.name}", one.outcome, one.message) for one in self.cases]
        failed = sum(outcome in ("broken", "failed") for _, outcome, _ in tests)
        out = ['<?xml version="1.0" encoding="utf-8"?>',
               f'<testsuite name={quoteattr(self.driver)} tests="{len(tests)}" failures="{failed}">']  # fmt: skip
        for name, outcome, message in tests:
            out.append(f'  <testcase classname="treadle.conform" name={quoteattr(name)}>{_inside(outcome, message)}')
            out.append("  </testcase>")
        return "\n".join([*out, "</testsuite>", ""])


def _inside(outcome: str, message: Any) -> str:
    if outcome in ("broken", "failed"):
        return f"<failure message={quoteattr(str(message))}/>"
    return f"<skipped message={quoteattr(outcome)}/>" if outcome in ("skipped", "expected") else ""
