"""``check_agent``: a user's own agent under every disturbance that its scenario has room for."""

from __future__ import annotations

import gc
import logging
import os
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import trio
from attrs import define, evolve, field

from treadle import MisuseError

from .disturbance import NOTHING, Disturbance, Placed, disturbance_of
from .holdings import held
from .leftovers import MARK, Standing
from .life import MakeAgent, Subject
from .notes import Baseline
from .problem import Problem
from .report import Finding, Report
from .run import Run, Seen
from .scenario import Scenario, Turn, as_scenario
from .seams import seams
from .starvation import interrupting
from .sweeps import SWEEPS, baseline_of, disturbances, sweeps_of

ORDERS = 20
"""How many other orders of tasks are tried unless told otherwise."""
SHRINKING = 400
"""How many runs may be made to find a shorter scenario."""


class AgentFaulty(AssertionError):
    """A check found something; ``report`` holds it, and its text tells it."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


def check_agent(
    make_agent: MakeAgent,
    scenario: Scenario | Turn | str | Iterable[Turn | str],
    *,
    invariant: Callable[[Any], object] | None = None,
    outside: Callable[[], Any] | None = None,
    only: str | None = None,
    sweeps: Iterable[str] = SWEEPS,
    orders: int = ORDERS,
    limit: float = 60.0,
    host_options: Mapping[str, Any] | None = None,
    keep_going: bool = False,
    shrink: bool = True,
    raising: bool = True,
) -> Report:
    """Play a scenario with an agent of yours, undisturbed and under every disturbance, and hold each run to what is due.

    Time is virtual and the model is played, so nothing is waited for and nothing leaves the machine but what your tools
    do. Held in each run: the contract's rules; that a stopped agent comes to rest, and any turn ends; that no
    cancellation is swallowed, no hook raises, and nothing blocks the loop; that nothing is left behind, and everything
    is given back; and your invariant. It must not be called inside a trio run.

    Args:
        make_agent: furnishes a host as your program does, through the public API, sync or async: it is given an entered
            ``Host``, and ``outside`` beside it where there is one. It returns ``AgentOptions``, the arguments of
            ``agents.create`` as a mapping, or ``None``. It is called once per life of a process.
        scenario: what is played: a ``Scenario``, a turn, or turns.
        invariant: what holds at each quiet point and after each resume: given the ``World``, it raises an
            ``AssertionError`` or returns a false value other than ``None`` where it does not hold.
        outside: makes, for each run, what outlives the process: an account, a folder, a queue.
        only: replays one disturbance, as a finding names it.
        sweeps: which disturbances: ``harm``, ``cancel``, ``dispose``, ``die``, ``steer``, ``followup``, ``order``.
        orders: how many other orders of tasks are tried.
        limit: virtual seconds within which a stopped agent has to be at rest.
        host_options: further arguments of ``Host``.
        keep_going: go on after the first finding; each fault is told once.
        shrink: look for a shorter scenario that shows the same.
        raising: raise when something was found.

    Returns:
        What was done and found.

    Raises:
        AgentFaulty: something was found.
        MisuseError: an argument is wrong, or a trio run is under way.
    """
    if trio.lowlevel.in_trio_run():
        raise MisuseError("check_agent steps runs of trio of its own: call it from a synchronous test")
    subject = Subject(make_agent, as_scenario(scenario), invariant, outside, host_options or {}, limit)
    chosen = disturbance_of(only) if only is not None else None
    check = _Check(subject, orders, keep_going=keep_going, shrink=shrink and chosen is None)
    started = time.process_time()
    with check.prepared():
        check.make(sweeps_of(sweeps), chosen)
    check.report.seconds = time.process_time() - started
    if raising and check.report.findings:
        raise AgentFaulty(check.report)
    return check.report


@define(eq=False)
class _Check:
    """One check under way."""

    subject: Subject
    orders: int
    keep_going: bool
    shrink: bool
    report: Report = field(factory=Report)
    run: Run | None = None
    known: set[Any] = field(factory=set[Any])
    children: set[int] = field(factory=set[int])

    @contextmanager
    def prepared(self) -> Generator[None]:
        """Stand between the driver and the user's code while the block runs."""
        with ExitStack() as stack:
            os.environ[MARK] = str(os.getpid())
            stack.callback(os.environ.pop, MARK, None)
            stack.enter_context(_quiet())
            self.children = Standing.now().children
            stack.enter_context(_many_files())
            stack.enter_context(seams())
            stack.enter_context(held())
            stack.enter_context(
                interrupting(
                    lambda: self.run.starving if self.run is not None else None,
                    lambda site: self.run.notes.interrupted(site) if self.run is not None else None,
                )
            )
            yield

    def play(self, subject: Subject, disturbance: Disturbance, baseline: Baseline | None) -> Seen:
        """One run; a second one, where the loop's thread slept, names the call."""
        self.run = Run(subject, disturbance, baseline, children=self.children)
        seen = self.run.play()
        if seen.slept and not any([problem.kind == "blocks" for problem in seen.problems]):
            self.run = Run(subject, disturbance, baseline, children=self.children, profiled=True)
            again = self.run.play()
            seen.problems += [problem for problem in again.problems if problem.kind == "blocks"]
        self.run = None
        return seen

    def make(self, sweeps: Iterable[Any], only: Disturbance | None) -> None:
        """The undisturbed run, then one per disturbance."""
        report = self.report
        seen = self.play(self.subject, NOTHING, None)
        report.places, report.deaths, report.calls = seen.places, len(seen.deaths), sum(seen.calls.values())
        baseline = baseline_of(seen)
        if (self.take(NOTHING, seen) and not self.keep_going) or only == NOTHING:
            return
        for sweep in sweeps if only is None else ():
            for disturbance in disturbances(sweep, seen, self.orders):
                report.swept[sweep] = report.swept.get(sweep, 0) + 1
                if self.take(disturbance, self.disturbed(disturbance, baseline)) and not self.keep_going:
                    return
        if only is not None:
            report.swept["only"] = 1
            self.take(only, self.disturbed(only, baseline))

    def disturbed(self, disturbance: Disturbance, baseline: Baseline) -> Seen:
        """One run with a disturbance."""
        seen = self.play(self.subject, disturbance, baseline)
        self.report.unreached += isinstance(disturbance, Placed) and not seen.struck
        return seen

    def take(self, disturbance: Disturbance, seen: Seen) -> bool:
        """Note what a run showed; returns whether that was anything new."""
        fresh = {problem.key: problem for problem in reversed(seen.problems) if problem.key not in self.known}
        self.known |= set(fresh)
        news = [*reversed(fresh.values())]
        for problem in news if self.keep_going else news[:1]:
            found = Finding(problem, disturbance, self.subject.scenario, seen, _name(self.subject.make_agent))
            self.report.findings.append(self.shorter(found) if self.shrink else found)
        return bool(fresh)

    # --- shorter scenarios ----------------------------------------------------------------------------------------------

    def shorter(self, found: Finding) -> Finding:
        """The same fault by the shortest scenario that shows it, as far as a number of runs goes."""
        left = [SHRINKING]
        while left[0] > 0:
            smaller = next(self._smaller(found, left), None)
            if smaller is None:
                break
            found = smaller
        return found

    def _smaller(self, found: Finding, left: list[int]) -> Generator[Finding]:
        for scenario in found.scenario.smaller():
            subject = evolve(self.subject, scenario=scenario)
            left[0] -= 1
            seen = self.play(subject, NOTHING, None)
            if (problem := _same(found.problem, seen)) is not None:
                yield evolve(found, scenario=scenario, disturbance=NOTHING, seen=seen, problem=problem)
                continue
            baseline = baseline_of(seen)
            for disturbance in _alike(found.disturbance, seen):
                left[0] -= 1
                if left[0] < 0:
                    return
                again = self.play(subject, disturbance, baseline)
                if (problem := _same(found.problem, again)) is not None:
                    yield evolve(found, scenario=scenario, disturbance=disturbance, seen=again, problem=problem)
                    break


@contextmanager
def _many_files() -> Generator[None]:
    """What a dead process held open stays open here where nobody can close it: there has to be room for that."""
    try:
        import resource
    except ImportError:  # where there is none, there is no such limit
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def _quiet() -> Generator[None]:
    """What the driver logs of failures that the check causes is nobody's concern."""
    logger = logging.getLogger("treadle")
    logger.addFilter(_no_record)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # what is left open is told by a finding
        try:
            yield
        finally:
            gc.collect()
            logger.removeFilter(_no_record)


def _no_record(_: logging.LogRecord) -> bool:
    return False


def _same(problem: Problem, seen: Seen) -> Problem | None:
    return next((one for one in seen.problems if one.key == problem.key), None)


def _alike(disturbance: Disturbance, seen: Seen) -> Iterable[Disturbance]:
    """Disturbances of the same kind in another run; the earliest places first."""
    if not isinstance(disturbance, Placed):
        return (disturbance,)
    deed = disturbance.deed
    if deed == "die":
        return [Placed(deed, at, kept) for at, kept in seen.deaths]
    return [Placed(deed, at) for at in range(seen.places)]


def _name(function: Any) -> str:
    return getattr(function, "__name__", None) or "make_agent"
