"""Holding a driver to the contract: the property suite over its rig, and the packaged cases (§7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import Phase, settings

from .. import run_cases
from ..exploration.violation import Violation
from .ledger import Json
from .local import TICKS, MakeRig, Rig
from .stateful import Suite, profile, run_suite
from .verdicts import Broken, CaseResult, Verdict

ROUNDS = 6
"""So many different rules are looked for; then there is enough to mend."""


class ProcessRig:
    """A rig in a process of its own."""

    def __init__(self, command: str) -> None:
        self._rig = run_cases.Rig(command, show=False)

    def ask(self, request: Json) -> Json:
        """The reply to one request; a rig that died or fell silent breaks a rule."""
        try:
            reply = self._rig.ask({key: value for key, value in request.items() if key != "id"})
        except (run_cases.Failure, OSError) as error:
            raise Violation("L8", f"{error}") from error
        return {**reply, "id": request.get("id")}

    def stop(self) -> None:
        """End the process."""
        self._rig.stop()


class Untickable:
    """A local rig that only settles, as one in another process would."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    def ask(self, request: Json) -> Json:
        """The reply to one request."""
        if request["do"] in ("tick", "look"):
            return {"id": request.get("id"), "ok": False, "error": {"code": "unsupported", "message": "no ticks"}}
        reply = self._rig.ask(request)
        if request["do"] == "hello" and "features" in reply:
            reply["features"] = [word for word in reply["features"] if word != TICKS]
        return reply

    def drop(self) -> None:
        """Give up a driver that broke."""
        getattr(self._rig, "drop", self._rig.stop)()

    def stop(self) -> None:
        """End the driver."""
        self._rig.stop()


def check_driver(
    make_rig: MakeRig, *, examples: int = 100, steps: int = 25, core: bool = False, expected: Iterable[str] = (),
    shrink: bool = True, rounds: int = ROUNDS, raises: bool = True,
) -> Verdict:  # fmt: skip
    """Run the property suite against a driver.

    Args:
        make_rig: starts a fresh driver for each run.
        examples: runs to make.
        steps: requests per run.
        core: only what every driver has: turns, steps, tools, steering, cancel, dispose.
        expected: rules that are known not to hold.
        shrink: look for the shortest script that shows a broken rule.
        rounds: how many different broken rules to look for.
        raises: raise the first unexpected one instead of returning it.

    Raises:
        Violation: a rule is broken that was not expected to be.
    """
    verdict = Verdict(driver=_name_of(make_rig), expected=frozenset(expected))
    members: dict[str, Any] = {"make_rig": staticmethod(make_rig), "lost": [], "core": core, "ignored": set[str]()}
    suite: type[Suite] = type("Driver", (Suite,), members)
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    for _ in range(rounds):
        try:
            run_suite(suite, settings(profile(examples, steps), phases=phases))
        except Violation as broken:
            found = suite.lost[0][0] if suite.lost else []
            verdict.broken.append(Broken(broken.rule, broken.message, found, broken.rule in verdict.expected))
            suite.ignored.add(broken.rule)
            if raises and broken.rule not in verdict.expected:
                raise
            continue
        break
    verdict.examples = examples
    return verdict


def _name_of(make_rig: MakeRig) -> str:
    rig = make_rig()
    try:
        driver: Json = rig.ask({"id": 1, "do": "hello"}).get("driver", {})
    finally:
        rig.stop()
    return f"{driver.get('name', 'unnamed')} {driver.get('version', '')}".strip() if driver else "unnamed"


def check_cases(command: str, verdict: Verdict) -> None:
    """Run the packaged cases against a rig, and note how each went."""
    for _, case in run_cases.selected(run_cases.own_cases()):
        verdict.cases.append(check_case(case, command, verdict.expected))


def check_case(case: Json, command: str, expected: Iterable[str] = ()) -> CaseResult:
    """Run one case against a rig."""
    name, rules = case["name"], list(case.get("rules", []))
    try:
        run_cases.run_case(case, command)
    except run_cases.Skip as why:
        return CaseResult(name, rules, "skipped", str(why))
    except run_cases.Failure as why:
        known = name in expected or bool(set(rules) & set(expected))
        return CaseResult(name, rules, "expected" if known else "failed", str(why))
    return CaseResult(name, rules, "ok")
