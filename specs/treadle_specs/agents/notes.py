"""What is wrong in a run: looked for at each rest and at its end, and noted with the line of the user's code."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Sequence

from attrs import define, field

from treadle import Errored, Event, SessionHeader, TreadleError
from treadle.session import TurnEnd

from ..exploration.stepper import Stepper
from ..exploration.task_frames import frames_of
from ..logs.checker import check_events
from .faults import Faults, Injected
from .holdings import Holdings, Key
from .leftovers import Makers, Standing, clear, left_since
from .life import SESSION, Subject
from .problem import Kind, Problem
from .seams import Watch
from .sites import Site, innermost, of_error, of_function
from .starvation import COMPUTING, Starvation, Starved
from .world import World


@define(eq=False)
class Baseline:
    """What is the same at each rest of the undisturbed run, and which tasks stay to its end."""

    free: dict[Key, float] = field(factory=dict[Key, float])
    tasks: Counter[str] = field(factory=Counter[str])


class Notes:
    """Looks at one run.

    Args:
        subject: what is checked.
        faults: counts its calls.
        starving: watches its batches.
        baseline: what holds at the rests of the undisturbed run; ``None`` when this is that run.

    Attributes:
        problems: what is wrong.
        free: what could be taken at each rest.
        watch: sees the user's code.
        holdings: sees what is taken.
        makers: sees what is started and opened.
        stepper: the run that is under way.
    """

    def __init__(self, subject: Subject, faults: Faults, starving: Starvation, baseline: Baseline | None) -> None:
        self._subject = subject
        self._starving = starving
        self._baseline = baseline
        self.problems: list[Problem] = []
        self.free: list[dict[Key, tuple[float, Site | None]]] = []
        self.watch = Watch(faults, self._swallowed, self._raised)
        self.holdings = Holdings()
        self.makers = Makers(self.standing)
        self.stepper: Stepper | None = None

    def note(self, kind: Kind, message: str, site: Site | None, rule: str = "") -> None:
        """Something is wrong."""
        self.problems.append(Problem(kind, message, site, rule))

    def error(self, error: BaseException) -> None:
        """Something raised that should not; unless it is what the check lets fail."""
        if _injected(error):
            return
        self.note("error", _told(error), of_error(error))

    def interrupted(self, site: Site | None) -> None:
        """A batch slept on, and was interrupted."""
        self.note("blocks", "this call sleeps until it is interrupted", site)

    def _swallowed(self, what: str, site: Site | None) -> None:
        self.note("swallowed cancellation", f"{what} was cancelled and went on as if it had not been", site)

    def _raised(self, name: str, error: BaseException, site: Site | None) -> None:
        self.note("hook raised", f"{name} raised {_told(error)}", site)

    # --- what is looked at ----------------------------------------------------------------------------------------------

    def rest(self, world: World) -> None:
        """A quiet point: the invariant holds, and what was taken is given back."""
        free = self.holdings.free()
        self.free.append(free)
        for key, (now, taker) in free.items():
            due = self._baseline.free.get(key) if self._baseline is not None else None
            if due is not None and now < due:
                kind, made, _ = key
                self.note(
                    "not given back",
                    f"the {kind} made at {made} has {now:g} free at rest, and {due:g} are due",
                    taker or made,
                )
        invariant = self._subject.invariant
        if invariant is None:
            return
        try:
            holds = invariant(world)
        except AssertionError as error:
            site = of_error(error)
            self.note("invariant", f"{_told(error)}, {site}: {site.text}" if site is not None else _told(error), site)
        else:
            if holds is not None and not holds:
                site = of_function(invariant)
                self.note("invariant", f"{site} gives a false value" if site is not None else "it is false", site)

    def check_log(self, events: Sequence[Event], header: SessionHeader) -> None:
        """The log keeps the contract's rules."""
        checked = check_events(events, SESSION, header=header, finished=True)
        for finding in checked.findings:
            self.note("contract", finding.message, None, finding.rule)
        for entry in events:
            reason = entry.data.reason if isinstance(entry.data, TurnEnd) else None
            if isinstance(reason, Errored) and reason.failure.code == "INVARIANT_VIOLATED":
                self.note("contract", reason.failure.message, None)

    def look_for_leftovers(self, before: Standing) -> None:
        """Nothing of the process's is left; what is, is taken away, so that the next run begins as this one did."""
        for left in left_since(before, self.makers):
            self.note("left behind", f"a {left.kind}: {left.what}", left.site)
        if any(problem.kind == "left behind" for problem in self.problems):
            clear(before, Standing.now(None if self.makers.started else before.children))

    def look_for_sleep(self) -> None:
        """No batch of tasks slept, or computed for long."""
        if self._starving.site is not None:
            self.note("blocks", "this call sleeps", self._starving.site)
        elif self._starving.computed > COMPUTING and self._starving.sampled is not None:
            self.note(
                "blocks", f"this computes for more than {COMPUTING:g} s without a checkpoint", self._starving.sampled
            )

    # --- where the user's code stands ---------------------------------------------------------------------------------

    def standing(self) -> Site | None:
        """The user's line that somebody stands in."""
        site = self.watch.standing()[1] if self.watch.active else None
        if site is None and self.stepper is not None:
            site = next((found for _, found in self._user_tasks()), None)
        return site

    def _user_tasks(self) -> Iterator[tuple[str, Site]]:
        for task in self.stepper.tasks() if self.stepper is not None else ():
            site = innermost([(frame, frame.f_lineno) for frame in frames_of(task)])
            if site is not None:
                yield site.function, site

    def tasks(self) -> Counter[str]:
        """The tasks that stand in the user's code, by function."""
        return Counter([name for name, _ in self._user_tasks()])

    def stayed(self, tasks: Counter[str], when: str) -> None:
        """These tasks should not stand there."""
        for name in tasks.elements():
            self.note("left behind", f"the task {name} goes on{when}", self._task_site(name))

    def _task_site(self, name: str) -> Site | None:
        return next((site for found, site in self._user_tasks() if found == name), None)


def _told(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, BaseExceptionGroup):
        inner: tuple[BaseException, ...] = error.exceptions  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return "; ".join([_told(one) for one in inner])
    if isinstance(error, TreadleError):
        return f"{type(error).__name__}: {error}"
    told = traceback.TracebackException.from_exception(error)
    told.__notes__ = None  # they say where to read more, and a finding is one line
    return "".join(told.format_exception_only()).strip().replace("\n", " ")


def _injected(error: BaseException | None) -> bool:
    """Whether an error is, or comes of, one that the check raised."""
    if isinstance(error, BaseExceptionGroup):
        inner: tuple[BaseException, ...] = error.exceptions  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return all([_injected(one) for one in inner])
    return error is not None and (
        isinstance(error, Injected | Starved) or _injected(error.__cause__ or error.__context__)
    )
