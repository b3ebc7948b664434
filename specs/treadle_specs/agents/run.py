"""One run of a scenario with at most one disturbance: played batch by batch, and looked at whenever all wait."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from contextlib import ExitStack, suppress
from typing import Any, NoReturn

import trio
from attrs import define, field

from treadle import Event, State

from ..exploration.stepper import Stuck, never_collect
from ..exploration.task_order import Order
from .disturbance import NOTHING, Disturbance, Harmed, Ordered, Placed
from .faults import Faults
from .holdings import Key, holding
from .leftovers import Standing, clear, hearing
from .life import FAST, SESSION, Life, Subject
from .notes import Baseline, Notes
from .problem import Kind, Problem
from .scenario import Turn
from .seams import watched
from .sites import Site
from .starvation import Starvation, Starved
from .storage import left_of
from .world import World

CONTINUE = "Continue."
"""What is said to an agent that was stopped, or whose process died."""
DELIVERED = "One thing more."
"""What is delivered at a place."""
AGAIN = 3
"""How often a turn that was stopped inside the user's code is stopped there again: a pool of a few runs dry by that."""
LIVELOCK = 5_000
"""Batches of tasks without rest or time passing."""
LONGEST_TURN = 7_200.0
"""Virtual seconds that a turn may take which nobody stops."""
PATIENCE = 60.0
"""Virtual seconds after which somebody stops a call that hangs."""
JUMP = 5.0
"""Real seconds after which a deadline is met while a thread or process is waited for, however far ahead it is."""
OUTSIDE = 30.0
"""Real seconds for which threads and child processes are waited for."""
LAST = 1.0
"""Real seconds that threads are given when the process dies: a thread cannot be killed."""
PASSING = 600.0
"""Virtual seconds that pass at the end, so that what ends by itself has ended."""
_DEADLINES = 40


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
        slept: whether a batch of tasks slept for too long.
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
    slept: bool = False


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
        self.seen = Seen()
        self.faults = Faults(disturbance if isinstance(disturbance, Harmed) else None, self._mark)
        self.starving = Starvation(profiled=profiled)
        self.notes = Notes(subject, self.faults, self.starving, baseline)
        self._before = Standing.now(children)
        self._outside: Any = None
        self._life: Life
        self._number = 1
        self._stopped: float | None = None
        self._moving = False
        self._again = 0
        self._committed = 0

    # --- the whole run --------------------------------------------------------------------------------------------------

    def play(self) -> Seen:
        """Play it; what is wrong is noted, never raised."""
        seen, notes = self.seen, self.notes
        hearing(notes.makers)
        with ExitStack() as stack:
            stack.callback(hearing, None)
            stack.enter_context(watched(notes.watch))
            stack.enter_context(holding(notes.holdings))
            try:
                self._play()
                notes.look_for_leftovers(self._before)
            except _Over:
                self._give_up()
            except (Exception, BaseExceptionGroup, Starved) as error:  # of the user's functions, or of what they called
                notes.error(error)
                self._give_up()
        notes.look_for_sleep()
        self.starving.close()
        seen.problems, seen.free, seen.slept = notes.problems, notes.free, self.starving.slept
        seen.calls, seen.sites = self.faults.calls, self.faults.sites
        return seen

    def _play(self) -> None:
        subject = self._subject
        self._outside = subject.outside() if subject.outside is not None else None
        self._begin({})
        for turn in subject.scenario.turns:
            try:
                self._turn(turn)
            except _Died:
                self._die()
                self._pick_up(turn)
            if self._agent.state is State.DISPOSED:
                self._resume()
                self._pick_up(turn)
            while self._stopped is not None:
                self._stopped = None
                self._pick_up(turn)
        self._end()

    def _begin(self, shelf: dict[str, Any]) -> None:
        chosen = self._disturbance
        drawn = random.Random(chosen.seed).choices(range(64), k=20_000) if isinstance(chosen, Ordered) else ()  # noqa: S311
        self._life = Life(self._subject, shelf, self._outside, self.faults, self.starving, Order(drawn))
        self.notes.stepper = self._life.stepper
        self._until("making the agent", lambda: self._life.handle is not None or self._life.job.done)
        if self._life.handle is None:
            self._life.job.result()
        self._rest()

    def _rest(self) -> None:
        self.notes.rest(self.world)

    def _pick_up(self, turn: Turn) -> None:
        """Go on with a turn that was broken off: ask again what was lost, or say so."""
        agent = self._agent
        known = [getattr(message, "text", "") for message in (*agent.session.history(), *agent.inbox.next_turn)]
        self._turn(Turn(CONTINUE if turn.prompt in known else turn.prompt, meanwhile=turn.meanwhile))

    def _end(self) -> None:
        """Leave the host, in order; what is left of the user's tasks before is compared, and after must be none."""
        notes, session = self.notes, self._agent.session
        self._pass_time()
        self.seen.tasks = notes.tasks()
        if self._baseline is not None:
            notes.stayed(self.seen.tasks - self._baseline.tasks, "")
        self._life.leave()
        self._until("leaving the host", lambda: self._life.job.done)
        self.seen.events = list(session.events)
        self._life.job.result()
        notes.stayed(notes.tasks(), " after the host was left")
        try:
            self._life.stepper.finish()
        except Stuck as error:
            notes.note("left behind", str(error), notes.standing())
        notes.check_log(self.seen.events, session.header)

    def _give_up(self) -> None:
        if hasattr(self, "_life"):
            with suppress(Exception):
                self.seen.events = list(self._agent.session.events)
            self._bury()

    def _bury(self) -> None:
        """End a life where it stands: nothing of it runs any more, and no clean-up does."""
        life, notes = self._life, self.notes
        life.workers.wait(LAST)
        never_collect((life, list(notes.watch.active)))
        life.stepper.abandon()
        notes.watch.active.clear()
        notes.holdings.made.clear()
        started = notes.makers.started
        clear(self._before, Standing.now(None if started else self._before.children))
        self._before = Standing.now(self._before.children)

    def _die(self) -> None:
        assert isinstance(self._disturbance, Placed)
        shelf = left_of(self._life.shelf, self._agent.session, self._disturbance.kept or 0)
        self._bury()
        self._number, self._stopped = 2, None
        self._begin(shelf)

    def _resume(self) -> None:
        """Resume the agent in the host in which it was disposed."""
        self._stopped, self._life.handle = None, None
        job = self._life.stepper.start(self._life.make)
        self._until("resuming the agent", lambda: job.done)
        job.result()
        self._rest()

    @property
    def world(self) -> World:
        """The run, as the user's functions see it."""
        life = self._life
        return World(life.host, life.agent, self._outside, self._number, self._stopped is not None)

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
            if meanwhile and self._stopped is None and meanwhile[0](self.world) is not False:
                meanwhile.pop(0)
                continue
            ahead = (
                trio.lowlevel.current_statistics().seconds_to_next_deadline if not life.stepper.finished else math.inf
            )
            if self._stopped is not None and self._now + ahead - self._stopped > self._subject.limit:
                self._stuck("does not converge", f"{self._subject.limit:g} s after it was stopped, {what} is not over")
            if self.faults.hanging and turn is None:
                raise _Over  # nobody can stop what makes the agent or ends it, but by ending the process
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
        """Wait, in real time, for threads, processes and connections; the virtual time goes on with it, and then jumps."""
        life, began = self._life, time.monotonic()
        ahead = trio.lowlevel.current_statistics().seconds_to_next_deadline
        while life.stepper.quiescent and (life.workers.active or life.stepper.waits_outside()):
            waited = time.monotonic() - began
            if not math.isinf(ahead) and waited > min(ahead, JUMP):
                life.stepper.clock.now += ahead
            elif waited > OUTSIDE:
                kind: Kind = "never comes to rest" if self._stopped is None else "does not converge"
                self._stuck(kind, f"a thread, process or connection took longer than {OUTSIDE:g} real seconds")
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
            if self._again and self._stopped is None and self.notes.watch.standing() == self.seen.at:
                self._again -= 1
                self._stop()
            return
        number, self.seen.places = self.seen.places, self.seen.places + 1
        if isinstance(self._disturbance, Placed):
            if number == self._disturbance.at:
                self._strike(self._disturbance)
        elif not isinstance(self._disturbance, Harmed | Ordered):
            self._lengths(number)

    def _lengths(self, place: int) -> None:
        """What a death here may leave: what was stored, all that was recorded, and all in between that is new."""
        stored, recorded = len(self._life.shelf[SESSION].records), len(self._agent.session)
        self.seen.deaths += [
            (place, kept)
            for kept in sorted({stored, recorded, *range(self._committed + 1, recorded)})
            if kept >= stored
        ]
        self._committed = recorded

    def _mark(self) -> None:
        self.seen.struck, self.seen.at = True, self.notes.watch.standing()
        if self._life.handle is not None:
            self.seen.mark, self.seen.state = len(self._agent.session), self._agent.state.value

    def _strike(self, chosen: Placed) -> None:
        self._mark()
        agent, self._moving = self._agent, False
        match chosen.deed:
            case "cancel":
                self._again = AGAIN if self.notes.watch.active else 0
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

    def _stuck(self, kind: Kind, message: str) -> NoReturn:
        self.notes.note(kind, message, self.notes.standing())
        raise _Over
