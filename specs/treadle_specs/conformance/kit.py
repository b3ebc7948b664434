"""Holding a driver to the contract: the property suite over its rig, and the packaged cases (§7)."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from attrs import evolve

from .. import run_cases
from ..exploration.violation import Violation
from ..protocol.fault import RigFault
from .fair.runs import play_fair_again
from .findings import Findings
from .ledger import Json
from .local import TICKS, MakeRig, Rig
from .parallel import search_command
from .plan import Plan
from .process_rig import CaseRig, Rigs
from .search import SEARCHING, play_again, search
from .shrinking import shorten
from .survey import Survey, survey
from .verdicts import CaseResult, Verdict

SHRINK_S = 20.0
"""How long findings are shortened when the run is not bounded by time."""
Told = Callable[[str, Findings], None]
"""Told how far a phase is: its name, and what was found in it so far."""


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

    def close(self, *, kill: bool = False) -> None:
        """End the driver by a close."""
        self._rig.close(kill=kill)

    def stop(self) -> None:
        """End the driver."""
        self._rig.stop()


def check_driver(
    make_rig: MakeRig, plan: Plan, *, corpus: Sequence[list[Json]] = (), raises: bool = True, tell: Told | None = None
) -> Verdict:
    """Run the property suite against a driver in this process.

    Args:
        make_rig: starts a fresh driver for each run.
        plan: what is asked for.
        corpus: scripts that once broke a rule; they are played first.
        raises: raise the first unexpected finding instead of returning it.
        tell: told how far each phase is.

    Raises:
        Violation: a rule is broken that was not expected to be.
    """

    def searched(chosen: Plan, known: Survey) -> Findings:
        return search(make_rig, chosen, known, _telling("suite", tell))

    return _checked(make_rig, plan, searched, corpus, raises=raises, tell=tell)


def check_command(command: str, plan: Plan, *, corpus: Sequence[list[Json]] = (), tell: Told | None = None) -> Verdict:
    """Run the property suite against the rig of a command; see ``check_driver``."""

    def searched(chosen: Plan, known: Survey) -> Findings:
        return search_command(command, chosen, known, _telling("suite", tell))

    rigs = Rigs(command, plan.timeout)
    try:
        return _checked(rigs.make, plan, searched, corpus, raises=False, tell=tell)
    finally:
        rigs.close()


def _telling(phase: str, tell: Told | None) -> Callable[[Findings], None] | None:
    return functools.partial(tell, phase) if tell is not None else None


def _checked(
    make_rig: MakeRig, plan: Plan, searched: Callable[[Plan, Survey], Findings], corpus: Sequence[list[Json]],
    *, raises: bool, tell: Told | None,
) -> Verdict:  # fmt: skip
    began = time.monotonic()
    known = survey(make_rig, core=plan.core)
    verdict = Verdict(plan, known)
    if not known.judgeable:
        return verdict
    again = Findings(plan.seconds and plan.seconds * SEARCHING, rounds=plan.rounds, rules=plan.rules)
    again.tell = _telling("corpus", tell)
    if plan.profile == "fair":
        play_fair_again(make_rig, corpus, again, known)
    else:
        play_again(make_rig, corpus, again)
    found = again
    if not again.over:
        found = searched(_left(plan, began), known)
        found.add(again)
    verdict.take(found)
    if raises:
        for one in verdict.broken:
            if not one.expected:
                raise Violation(one.rule, one.message)
    if plan.shrink and verdict.broken:
        until = began + plan.seconds if plan.seconds is not None else time.monotonic() + SHRINK_S
        for place, one in enumerate(verdict.broken):
            if tell is not None:
                tell("shorten", found)
            shorten(one, make_rig, max(0.0, until - time.monotonic()) / (len(verdict.broken) - place))
    verdict.seconds = time.monotonic() - began
    return verdict


def _left(plan: Plan, began: float) -> Plan:
    """The plan with the time that is left of it."""
    if plan.seconds is None:
        return plan
    return evolve(plan, seconds=max(0.0, plan.seconds - (time.monotonic() - began)))


def check_cases(command: str, verdict: Verdict, *, tell: Callable[[int, int], None] | None = None) -> None:
    """Run the packaged cases against a rig, as many at a time as the plan has jobs, and note how each went."""
    plan = verdict.plan
    cases = [case for _, case in run_cases.selected(run_cases.own_cases()) if _asked_for(case, plan)]

    rigs = Rigs(command, plan.timeout)

    def checked(case: Json) -> CaseResult:
        return check_case(case, rigs, plan.expected)

    with closing(rigs), ThreadPoolExecutor(max(1, plan.jobs)) as pool:
        for result in pool.map(checked, cases):
            verdict.cases.append(result)
            if tell is not None:
                tell(len(verdict.cases), len(cases))


def _asked_for(case: Json, plan: Plan) -> bool:
    """Whether a plan wants a case; the durable profile those that restart the driver."""
    if plan.durable and all(step["do"] != "restart" for step in case["steps"]):
        return False
    return not plan.rules or bool(plan.rules & set(case.get("rules", [])))


def check_case(case: Json, rigs: Rigs, expected: Iterable[str] = ()) -> CaseResult:
    """Run one case against a rig."""
    name, rules = case["name"], list(case.get("rules", []))
    try:
        run_cases.run_case(case, rigs.command, start=lambda: CaseRig(rigs))
    except run_cases.Skip as why:
        return CaseResult(name, rules, "skipped", str(why))
    except (run_cases.Failure, RigFault) as why:
        known = name in expected or bool(set(rules) & set(expected))
        message = why.short if isinstance(why, RigFault) else str(why)
        return CaseResult(name, rules, "expected" if known else "failed", message)
    return CaseResult(name, rules, "ok")
