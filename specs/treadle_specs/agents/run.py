"""One run of a scenario with at most one disturbance: played batch by batch, and looked at whenever all wait."""

from __future__ import annotations

import gc
import math
import random
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any, NoReturn

import trio
from attrs import define, field

from treadle import Errored, State, TreadleError
from treadle.session import Event, TurnEnd

from ..exploration.stepper import Stuck, frames_of, never_collect
from ..exploration.task_order import Order
from ..logs.checker import check_events
from .disturbance import NOTHING, Disturbance, Harmed, Ordered, Placed
from .faults import Faults
from .holdings import Holdings, Key, holding
from .leftovers import Makers, Standing, clear, hearing, left_since
from .life import FAST, SESSION, Life, Subject
from .problem import Kind, Problem
from .scenario import Turn
from .seams import Watch, watched
from .sites import Site, innermost, of_error, of_function
from .starvation import COMPUTING, Starvation
from .storage import left_of
from .world import World

CONTINUE = "Continue."
"""What is said to an agent that was stopped, or whose process died."""
DELIVERED = "One thing more."
"""What is delivered at a place."""
LIVELOCK = 5_000
"""Batches of tasks without rest or time passing."""
LONGEST_TURN = 7_200.0
"""Virtual seconds that a turn may take which nobody stops."""
PATIENCE = 60.0
"""Virtual seconds after which somebody stops a call that hangs."""
OUTSIDE = 30.0
"""Real seconds for which threads and child processes are waited for."""
PASSING = 600.0
"""Virtual seconds that pass at the end, so that what ends by itself has ended."""
_DEADLINES = 40


@define(eq=False)
class Baseline:
    """What is the same at each rest of the undisturbed run, and which tasks stay to its end."""

    free: dict[Key, float] = field(factory=dict[Key, float])
    tasks: Counter[str] = field(factory=Counter[str])


@define(eq=False)
class Seen:
    """What a run showed.

    Attributes:
        problems: what is wrong.
        places: how many places there were.
        struck: whether the disturbance took place.
        at: where the user's code was then.
        state: what the agent was doing then.
        events: the agent's log, at its end or where the run was given up.
        mark: how many events there were when the disturbance took place.
        deaths: what may be left by a death at each place: numbers of events.
        calls: how often each was called.
        sites: where what was called is defined.
        free: what could be taken at each rest.
        tasks: the tasks of the user's that stood at the end.
        asleep: the longest that a batch of tasks slept, in seconds.
    """

    problems: list[Problem] = field(factory=list[Problem])
    places: int = 0
    struck: bool = False
    at: tuple[str, Site | None] = ("", None)
    state: str = ""
    events: list[Event] = field(factory=list[Event])
    mark: int | None = None
    deaths: list[tuple[int, int]] = field(factory=list[tuple[int, int]])
    calls: Counter[tuple[str, str]] = field(factory=Counter[tuple[str, str]])
    sites: dict[tuple[str, str], Site] = field(factory=dict[tuple[str, str], Site])
    free: list[dict[Key, tuple[float, Site | None]]] = field(factory=list[Any])
    tasks: Counter[str] = field(factory=Counter[str])
    asleep: float = 0.0


class _Over(Exception):
    """The run cannot go on; what is wrong was noted."""


class _Died(Exception):
    """The process dies here."""


class Run:
    """Plays a scenario once.

    Args:
        subject: what is checked.
        disturbance: what is done, and where.
        baseline: what holds at the rests of the undisturbed run.
        children: the processes that there are already; they are looked for unless given.
        profiled: name the calls in which the thread sleeps.
    """

    def __init__(
        self,
        subject: Subject,
        disturbance: Disturbance = NOTHING,
        baseline: Baseline | None = None,
        *,
        children: set[int] | None = None,
        profiled: bool = False,
    ) -> None:
        self._subject = subject
        self._disturbance = disturbance
        self._baseline = baseline
        self._children = children
        self.seen = Seen()
        self.faults = Faults(disturbance if isinstance(disturbance, Harmed) else None)
        self.starving = Starvation(profiled=profiled)
        self._watch = Watch(self.faults, self._swallowed, self._raised)
        self._holdings = Holdings()
        self._makers = Makers(self._standing)
        self._outside: Any = None
        self._life: Life
        self._number = 1
        self._stopped: float | None = None
        self._moving = False
        self._committed = 0

    # --- the whole run --------------------------------------------------------------------------------------------------

    def play(self) -> Seen:
        """Play it; what is wrong is noted, never raised."""
        before = Standing.now(self._children)
        hearing(self._makers)
        with ExitStack() as stack:
            stack.callback(hearing, None)
            stack.enter_context(watched(self._watch))
            stack.enter_context(holding(self._holdings))
            try:
                self._play(before)
                self._look_for_leftovers(before)
            except _Over:
                self._give_up(before)
            except Exception as error:  # of the user's functions, or of what they called
                self._note("error", _told(error), of_error(error))
                self._give_up(before)
        self.seen.calls, self.seen.sites = self.faults.calls, self.faults.sites
        self.seen.struck = self.seen.struck or self.faults.struck
        self._look_for_sleep()
        return self.seen

    def _play(self, before: Standing) -> None:
        subject = self._subject
        self._outside = subject.outside() if subject.outside is not None else None
        self._begin({})
        turns = iter(subject.scenario.turns)
        for turn in turns:
            try:
                self._turn(turn)
            except _Died:
                self._die(before)
                self._pick_up(turn)
            if self._agent.state is State.DISPOSED:
                self._resume()
                self._pick_up(turn)
            elif self._stopped is not None:
                self._stopped = None
                self._pick_up(turn)
        self._end()

    def _begin(self, shelf: dict[str, Any]) -> None:
        chosen = self._disturbance
        order = Order(random.Random(chosen.seed).choices(range(64), k=20_000)) if isinstance(chosen, Ordered) else Order()  # noqa: S311
        self._life = Life(self._subject, shelf, self._outside, self.faults, self.starving, order)
        self._go(lambda: self._life.handle is not None or self._life.job.done)
        if self._life.handle is None:
            self._life.job.result()
            self._stuck("never comes to rest", "making the agent waits for something that nobody will do")
        self._rest()

    def _pick_up(self, turn: Turn) -> None:
        """Go on with a turn that was broken off: ask again what was lost, or say so."""
        agent = self._agent
        known = [getattr(message, "text", "") for message in (*agent.session.history(), *agent.inbox.next_turn)]
        self._turn(Turn(CONTINUE if turn.prompt in known else turn.prompt, meanwhile=turn.meanwhile))

    def _end(self) -> None:
        """Leave the host, in order; what is left of the user's tasks before is compared, and after must be none."""
        self._pass_time()
        self.seen.tasks = self._tasks()
        if self._baseline is not None:
            for name in (self.seen.tasks - self._baseline.tasks).elements():
                self._note("left behind", f"the task {name} goes on", self._task_site(name))
        session = self._agent.session
        self._life.leave()
        self._until("leaving the host", lambda: self._life.job.done)
        self.seen.events = list(session.events)
        self._life.job.result()
        for name in self._tasks():
            self._note("left behind", f"the task {name} goes on after the host was left", self._task_site(name))
        try:
            self._life.stepper.finish()
        except Stuck as error:
            self._note("left behind", str(error), self._standing())
        self._check_log()

    def _give_up(self, before: Standing) -> None:
        if hasattr(self, "_life"):
            with suppress(Exception):
                self.seen.events = list(self._agent.session.events)
            self._bury(before)

    def _bury(self, before: Standing) -> None:
        """End a life where it stands: nothing of it runs any more, and no clean-up does."""
        life = self._life
        life.workers.wait(OUTSIDE / 30)
        never_collect((life, list(self._watch.active)))
        life.stepper.abandon()
        self._watch.active.clear()
        clear(before, Standing.now(None if self._makers.started else before.children))

    def _die(self, before: Standing) -> None:
        assert isinstance(self._disturbance, Placed)
        shelf = left_of(self._life.shelf, self._agent.session, self._disturbance.kept or 0)
        self._bury(before)
        self._holdings.made.clear()
        self._number, self._stopped = 2, None
        self._begin(shelf)

    def _resume(self) -> None:
        """Resume the agent in the host in which it was disposed."""
        self._stopped, self._life.handle = None, None
        job = self._life.stepper.start(self._life.make)
        self._until("resuming the agent", lambda: job.done)
        job.result()
        self._rest()

    # --- a turn ---------------------------------------------------------------------------------------------------------

    @property
    def _agent(self) -> Any:
        return self._life.agent

    def _turn(self, turn: Turn) -> None:
        self._agent.followup(turn.prompt)
        self._moving = self._number == 1 and not self.seen.struck
        try:
            self._until(f"the turn {turn.prompt!r}", self._quiet, turn)
        finally:
            self._moving = False
        self._rest()

    def _quiet(self) -> bool:
        return self._agent.state in (State.IDLE, State.DISPOSED)

    def _until(self, what: str, over: Any, turn: Turn | None = None) -> None:
        """Go on until it is over: by batches, by what people do meanwhile, by letting time pass."""
        life, began = self._life, self._now
        meanwhile = list(turn.meanwhile) if turn is not None else []
        while True:
            self._go(lambda: False)
            if over():
                return
            if meanwhile and meanwhile[0](self.world) is not False:
                meanwhile.pop(0)
                continue
            ahead = trio.lowlevel.current_statistics().seconds_to_next_deadline if not life.stepper.finished else math.inf
            if self._stopped is not None and self._now + ahead - self._stopped > self._subject.limit:
                self._stuck("does not converge", f"{self._subject.limit:g} s after it was stopped, {what} is not over")
            if self.faults.hanging and self._stopped is None and self._now + ahead - began > PATIENCE:
                life.stepper.clock.now = max(self._now, began + PATIENCE)
                self._stop()
                continue
            if life.stepper.finished or math.isinf(ahead) or self._now + ahead - began > LONGEST_TURN:
                self._stuck("never comes to rest", f"{what} is not over, and nobody can go on")
            life.stepper.clock.now += ahead

    def _go(self, reached: Any) -> None:
        """Run until something is reached, or until all wait; each place is passed on the way."""
        life, batches = self._life, 0
        while not reached() and not life.stepper.finished:
            self._place()
            if not life.stepper.quiescent:
                life.batch()
                batches += 1
                if batches > LIVELOCK:
                    kind: Kind = "never comes to rest" if self._stopped is None else "does not converge"
                    self._stuck(kind, f"after {LIVELOCK} batches of tasks somebody still goes on: a livelock")
            elif life.workers.active or life.stepper.waits_outside():
                self._wait_outside()
            else:
                return

    def _wait_outside(self) -> None:
        life, until = self._life, time.monotonic() + OUTSIDE
        while life.stepper.quiescent and (life.workers.active or life.stepper.waits_outside()):
            if time.monotonic() > until:
                kind: Kind = "never comes to rest" if self._stopped is None else "does not converge"
                self._stuck(kind, f"a thread or child process took longer than {OUTSIDE:g} real seconds")
            life.workers.wait(FAST / 10)
            time.sleep(FAST / 50)
            life.batch()

    def _pass_time(self) -> None:
        """Let time pass, deadline by deadline, so that what ends by itself has ended."""
        until = self._now + PASSING
        for _ in range(_DEADLINES):
            self._go(lambda: False)
            ahead = trio.lowlevel.current_statistics().seconds_to_next_deadline
            if self._now + ahead > until:
                return
            self._life.stepper.clock.now += ahead

    @property
    def _now(self) -> float:
        return self._life.stepper.clock.now

    # --- the disturbance ------------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """One place: between two batches, or where all wait."""
        if not self._moving:
            return
        number, self.seen.places = self.seen.places, self.seen.places + 1
        if isinstance(self._disturbance, Placed):
            if number == self._disturbance.at:
                self._strike(self._disturbance)
        elif not isinstance(self._disturbance, Harmed | Ordered):
            self._lengths(number)
        elif self.faults.struck and self.seen.mark is None:
            self._mark()

    def _lengths(self, place: int) -> None:
        """What a death here may leave: what was stored, all that was recorded, and all in between that is new."""
        stored, recorded = len(self._life.shelf[SESSION].records), len(self._agent.session)
        self.seen.deaths += [(place, kept) for kept in sorted({stored, recorded, *range(self._committed + 1, recorded)}) if kept >= stored]
        self._committed = recorded

    def _mark(self) -> None:
        self.seen.struck, self.seen.mark = True, len(self._agent.session)
        self.seen.at, self.seen.state = self._watch.standing(), self._agent.state.value

    def _strike(self, chosen: Placed) -> None:
        self._mark()
        agent, self._moving = self._agent, False
        match chosen.deed:
            case "cancel":
                self._stop()
            case "dispose":
                self._stopped = self._now
                assert self._life.handle is not None
                self._life.handle.dispose()
            case "steer":
                agent.steer(DELIVERED)
            case "followup":
                agent.followup(DELIVERED)
            case "die":
                raise _Died

    def _stop(self) -> None:
        self._stopped = self._now
        self._agent.cancel()

    # --- what is looked at ----------------------------------------------------------------------------------------------

    @property
    def world(self) -> World:
        """The run, as the user's functions see it."""
        life = self._life
        return World(life.host, life.agent, self._outside, self._number, self._stopped is not None)

    def _rest(self) -> None:
        """A quiet point: the invariant holds, and what was taken is given back."""
        free = self._holdings.free()
        self.seen.free.append(free)
        for key, (now, taker) in free.items():
            due = self._baseline.free.get(key) if self._baseline is not None else None
            if due is not None and now < due:
                kind, made, _ = key
                self._note("not given back", f"the {kind} made at {made} has {now:g} free at rest, and {due:g} are due", taker or made)
        invariant = self._subject.invariant
        if invariant is None:
            return
        try:
            holds = invariant(self.world)
        except AssertionError as error:
            site = of_error(error)
            self._note("invariant", f"{_told(error)}, {site}: {site.text}" if site is not None else _told(error), site)
        else:
            if holds is not None and not holds:
                site = of_function(invariant)
                self._note("invariant", f"{site} gives a false value" if site is not None else "it is false", site)

    def _check_log(self) -> None:
        checked = check_events(self.seen.events, SESSION, header=self._agent.session.header, finished=True)
        for finding in checked.findings:
            self._note("contract", finding.message, None, finding.rule)
        for entry in self.seen.events:
            reason = entry.data.reason if isinstance(entry.data, TurnEnd) else None
            if isinstance(reason, Errored) and reason.failure.code == "INVARIANT_VIOLATED":
                self._note("contract", reason.failure.message, None)

    def _look_for_leftovers(self, before: Standing) -> None:
        gc.collect(0)
        for left in left_since(before, self._makers):
            self._note("left behind", f"a {left.kind}: {left.what}", left.site)
        if any(problem.kind == "left behind" for problem in self.seen.problems):
            clear(before, Standing.now(None if self._makers.started else before.children))

    def _look_for_sleep(self) -> None:
        self.seen.asleep = self.starving.asleep
        if self.starving.site is not None:
            self._note("blocks", "this call sleeps", self.starving.site)
        elif self.starving.computed > COMPUTING and self.starving.sampled is not None:
            self._note("blocks", f"this computes for more than {COMPUTING:g} s without a checkpoint", self.starving.sampled)
        self.starving.close()

    def interrupted(self, site: Site | None) -> None:
        """A batch slept on, and was interrupted."""
        self._note("blocks", "this call sleeps until it is interrupted", site)

    # --- what is noted --------------------------------------------------------------------------------------------------

    def _note(self, kind: Kind, message: str, site: Site | None, rule: str = "") -> None:
        self.seen.problems.append(Problem(kind, message, site, rule))

    def _stuck(self, kind: Kind, message: str) -> NoReturn:
        self._note(kind, message, self._standing())
        raise _Over

    def _swallowed(self, what: str, site: Site | None) -> None:
        self._note("swallowed cancellation", f"{what} was cancelled and went on as if it had not been", site)

    def _raised(self, name: str, error: BaseException, site: Site | None) -> None:
        self._note("hook raised", f"{name} raised {_told(error)}", site)

    def _standing(self) -> Site | None:
        """The user's line that somebody stands in."""
        site = self._watch.standing()[1] if self._watch.active else None
        if site is None and hasattr(self, "_life"):
            site = next((found for _, found in self._user_tasks()), None)
        return site

    def _user_tasks(self) -> Iterator[tuple[str, Site]]:
        for task in self._life.stepper.tasks():
            site = innermost([(frame, frame.f_lineno) for frame in frames_of(task)])
            if site is not None:
                yield site.function, site

    def _tasks(self) -> Counter[str]:
        """The tasks that stand in the user's code, by function."""
        return Counter([name for name, _ in self._user_tasks()])

    def _task_site(self, name: str) -> Site | None:
        return next((site for found, site in self._user_tasks() if found == name), None)


def _told(error: BaseException) -> str:
    """An error in one line."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        error = error.exceptions[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    said = "".join(traceback.format_exception_only(error)).strip()
    return said.replace("\n", " ") if not isinstance(error, TreadleError) else f"{type(error).__name__}: {error}"
