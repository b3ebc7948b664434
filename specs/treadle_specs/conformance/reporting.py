"""A verdict as text for people, as JSON for programs, and as JUnit XML for CI (§7)."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import quoteattr

from .ledger import Json
from .verdicts import Verdict


def as_json(verdict: Verdict) -> Json:
    """As plain values."""
    plan = verdict.plan
    return {
        "driver": verdict.known.driver,
        "features": sorted(verdict.known.features),
        "lacks": sorted(verdict.known.lacks),
        "profile": plan.profile,
        "seed": plan.seed,
        "verdict": verdict.word,
        "why": verdict.why,
        "conforms": verdict.conforms,
        "runs": verdict.runs,
        "masked": verdict.masked,
        "seconds": round(verdict.seconds, 1),
        "rules": {rule: {"verdict": became, "times": verdict.times(rule)} for rule, became in verdict.rules.items()},
        "broken": [{"rule": one.rule, "message": one.message, "expected": one.expected, "runs": one.times,
                    "script": one.script()} for one in verdict.broken],
        "cases": [{"name": one.name, "rules": one.rules, "outcome": one.outcome, "message": one.message}
                  for one in verdict.cases],
        "surprises": verdict.surprises,
    }  # fmt: skip


def as_text(verdict: Verdict) -> str:
    """For people."""
    plan = verdict.plan
    cases = f", {len(verdict.cases)} cases" if verdict.cases else ""
    told = f"profile {plan.profile}, seed {plan.seed}: {verdict.runs} runs{cases}, {verdict.seconds:.0f} s"
    lines = [f"{verdict.known.driver}, {told}"]
    if verdict.known.judgeable:
        lines += _rules(verdict)
    for one in verdict.broken:
        runs = "1 run" if one.times == 1 else f"{one.times} runs"
        lines.append(f"{'expected' if one.expected else 'BROKEN'}, in {runs}: [{one.rule}] {one.message}")
        lines += [f"    {step}" for step in one.steps]
    for case in verdict.cases:
        if case.outcome == "failed":
            lines.append(f"FAILED: {case.name} ({' '.join(case.rules)}): {case.message}")
    if verdict.cases:
        lines.append(
            "cases: " + ", ".join(f"{verdict.outcomes[word]} {word}" for word in ("ok", "skipped", "expected"))
        )
    lines += [f"expected to fail, and did not: {name}" for name in verdict.surprises]
    if verdict.masked:
        fair = (
            "times a rule was broken again in a run that had broken it; what follows from the first is not told apart"
        )
        ends = "runs ended at a rule that was broken already, or was not asked for"
        lines.append(f"{verdict.masked} {fair if plan.profile == 'fair' else ends}")
    if verdict.broken:
        rules = "PROTOCOL.md" if plan.profile == "fair" else "contract.md"
        lines.append(
            "after its last line a run is brought to its end (settle, a plain answer to each gate), and a rule may break "
            f"there; what the rules say: {rules} of treadle_specs"
        )
    lines.append(verdict.word + (f": {verdict.why}" if verdict.why else ""))
    return "\n".join(lines) + "\n"


def _rules(verdict: Verdict) -> list[str]:
    held = [f"{rule} ×{verdict.times(rule)}" for rule in verdict.rules_that_are("held")]
    lines = [f"held, and how often it was at stake: {' '.join(held) or 'none'}"]
    if few := verdict.rules_that_are("not exercised"):
        told = " ".join([f"{rule} ×{verdict.times(rule)}" for rule in few])
        lines.append(f"not exercised, at stake less than {verdict.plan.least} times: {told}")
    if without := verdict.rules_that_are("not applicable"):
        told = "; ".join([f"{rule} ({verdict.of(rule).partition(': ')[2]})" for rule in without])
        lines.append(f"not applicable: {told}")
    return lines


def as_junit(verdict: Verdict) -> str:
    """As JUnit XML."""
    tests: list[tuple[str, str, str]] = [("the rig", "broken" if verdict.status == 3 else "held", _whole(verdict))]
    for rule, became in verdict.rules.items():
        found = next((one for one in verdict.broken if one.rule == rule), None)
        tests.append((f"rule {rule}", became, found.message if found is not None else became))
    tests += [(f"case {one.name}", one.outcome, one.message) for one in verdict.cases]
    failed = sum(outcome in _FAILURES for _, outcome, _ in tests)
    out = ['<?xml version="1.0" encoding="utf-8"?>',
           f'<testsuite name={quoteattr(verdict.known.driver)} tests="{len(tests)}" failures="{failed}">']  # fmt: skip
    for name, outcome, message in tests:
        out.append(f'  <testcase classname="treadle.conform" name={quoteattr(name)}>{_inside(outcome, message)}')
        out.append("  </testcase>")
    return "\n".join([*out, "</testsuite>", ""])


def _whole(verdict: Verdict) -> str:
    return f"{verdict.word}{': ' + verdict.why if verdict.why else ''}"


_FAILURES = ("broken", "failed", "not exercised")


def _inside(outcome: str, message: Any) -> str:
    if outcome in _FAILURES:
        return f"<failure message={quoteattr(_xml(str(message)))}/>"
    skipped = outcome in ("skipped", "expected") or outcome.startswith("not applicable")
    return f"<skipped message={quoteattr(_xml(outcome))}/>" if skipped else ""


def _xml(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return "".join([one if one in "\t\n\r" or one >= " " else "\N{REPLACEMENT CHARACTER}" for one in text])
