"""What every machine stands on: one stepped run of trio, and failures that say what each task was waiting for."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import trio
from attrs import define, field

from ..exploration.stepper import AsyncContext, Job, Stepper, Stuck
from ..exploration.task_frames import frames_of
from ..exploration.violation import Violation

T = TypeVar("T")
OF_TRIO = str(Path(trio.__file__).parent)
TICKS = 20_000
"""So many batches of tasks without rest are a livelock."""


class Bench:
    """A stepped run in virtual time that takes the same course each time. Whatever never comes to rest, or waits for ever, breaks a rule and is shown."""

    def __init__(self) -> None:
        self.stepper = Stepper(max_ticks=TICKS, steady=True)

    @property
    def now(self) -> float:
        """The virtual time, in seconds."""
        return self.stepper.clock.now

    def tick(self, count: int, order: Sequence[int] = ()) -> None:
        """Let the loop run ``count`` batches of tasks, in a drawn order."""
        self.stepper.order.feed(order)
        self.stepper.tick(count)

    def settle(self) -> None:
        """Run until nobody can go on without time or the caller."""
        with Told("L8", self):
            self.stepper.settle()

    def advance(self, seconds: float) -> None:
        """Let time pass; deadlines are met one after the other."""
        with Told("L8", self):
            self.stepper.advance(seconds)

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run to its end; everybody else goes on meanwhile. Waiting for ever breaks N7."""
        with Told("N7", self):
            return self.stepper.run(function, *args)

    def enter(self, context: AsyncContext[T]) -> T:
        """Enter a context for the rest of the run."""
        with Told("N7", self):
            return self.stepper.enter(context)

    def waiter(self, function: Callable[..., Awaitable[T]], *args: Any, name: str = "") -> Waiter[T]:
        """Start an async function that can be cancelled by itself."""
        made: Waiter[T] = Waiter(name)
        made.job = self.stepper.start(made.hold, function, args, name=name or None)
        return made

    def finish(self) -> None:
        """Leave every context and end the run."""
        with Told("N7", self):
            self.stepper.finish()

    def drop(self) -> None:
        """Give up a run that broke."""
        self.stepper.drop()

    def dump(self) -> str:
        """Every task with the awaits it stands in, outermost first."""
        return "\n".join(standing(self.stepper.tasks()))


@define(eq=False)
class Waiter(Generic[T]):
    """A task that waits for something, and what it came to.

    Attributes:
        cancelled: whether it was cancelled before it had an end of its own.
        error: what it raised.
        value: what it returned.
        excuse: says whether it may go on waiting.
    """

    name: str
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    cancelled: bool = False
    error: Exception | None = None
    value: T | None = None
    excuse: Callable[[], bool] = bool
    job: Job[None] | None = None

    async def hold(self, function: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> None:
        """Await it inside the scope."""
        with self.scope:
            try:
                self.value = await function(*args)
            except Exception as error:
                self.error = error
        self.cancelled = self.scope.cancelled_caught

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self.job is not None and self.job.done

    @property
    def succeeded(self) -> bool:
        """Whether it came to its end and raised nothing."""
        return self.done and self.error is None and not self.cancelled


@define
class Told:
    """Turns a run that cannot go on into a broken rule that shows the tasks."""

    rule: str
    bench: Bench

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Stuck):
            raise Violation(self.rule, f"{error}\n{self.bench.dump()}") from error


def standing(tasks: Iterable[trio.lowlevel.Task]) -> Iterator[str]:
    """Where each task stands; trio's own frames are left out."""
    for task in tasks:
        yield f"task {task.name}"
        for place in traceback.StackSummary.extract(iter([(frame, frame.f_lineno) for frame in frames_of(task)])):
            if not place.filename.startswith(OF_TRIO):
                yield f"  {place.filename}:{place.lineno} in {place.name}: {place.line}"
