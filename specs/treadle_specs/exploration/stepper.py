"""Stepping a trio run from synchronous code: one tick at a time, in virtual time, without a thread (guest mode).

    with Stepper() as stepper:
        host = stepper.enter(Host())
        handle = stepper.run(host.agents.create)
        handle.agent.followup("hello")      # a synchronous call between two ticks
        stepper.tick(3)                     # let the loop run a little
        stepper.settle()                    # or until nobody can go on

Nothing runs between the calls. A run that is finished leaves no trace in trio: the next one starts clean, and one that
cannot be finished is torn down and reported.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import time
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import nullcontext
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import outcome
import trio

from .task_frames import over, waits_outside
from .task_order import Order, applied
from .threads import Threads

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MAX_TICKS = 100_000
"""How many ticks a run may go on before it counts as a livelock."""
PATIENCE = 30.0
"""Real seconds for which threads and I/O are waited for."""
PAUSE = 0.000_2
"""Real seconds between two looks at a thread that has not finished."""

LAST_TICKS = 1_000
"""How many ticks a run that broke has to come to its end."""
LAST_PATIENCE = 1.0
"""Real seconds for which its worker threads are waited for."""

_BLOWS = 50
"""How often a task that ignores its cancellation is woken with an error before the run is given up."""
_ABANDONED: list[object] = []
"""Tasks of runs that could not be ended. They are kept: collecting them would run their clean-ups without a loop."""
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_ABANDONED))  # nor are they collected when the interpreter ends


class Stuck(AssertionError):
    """The run did not come to rest, or did not end, within its bounds."""


class AsyncContext(Protocol[T_co]):
    """Anything to be used with ``async with``."""

    async def __aenter__(self) -> T_co:
        """Enter."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None:
        """Leave."""
        ...


class VirtualClock(trio.abc.Clock):
    """Stands still until it is moved. It never lets trio block, so a guest run never needs a thread to wait in."""

    def __init__(self) -> None:
        self.now = 0.0

    def start_clock(self) -> None:
        """Nothing to start."""

    def current_time(self) -> float:
        """The virtual time, in seconds."""
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:  # noqa: ARG002 (the interface's)
        """Always zero: whoever steps the run decides when time passes."""
        return 0.0


class Job(Generic[T]):
    """A task started from outside, and its outcome once it has one."""

    def __init__(self) -> None:
        self._outcome: outcome.Value[T] | outcome.Error | None = None

    @property
    def done(self) -> bool:
        """Whether the task is over."""
        return self._outcome is not None

    def result(self) -> T:
        """What the task returned; raises what it raised."""
        if self._outcome is None:
            raise Stuck("the job is not done")
        if isinstance(self._outcome, outcome.Error):
            raise self._outcome.error
        return self._outcome.value

    async def _run(self, function: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> None:
        try:
            self._outcome = outcome.Value(await function(*args))
        except BaseException as error:
            self._outcome = outcome.Error(error)
            if not isinstance(error, Exception):
                raise


class Stepper:
    """One trio run, advanced by hand from the thread that made it.

    Args:
        order: decides the order of tasks within one batch; oldest first unless given.
        max_ticks: how long ``settle`` and ``run`` may go on.
        patience: real seconds for which worker threads and I/O are waited for.
        steady: let nothing run beside a worker thread, so that the run takes the same course each time.
    """

    def __init__(
        self,
        order: Order | None = None,
        *,
        max_ticks: int = MAX_TICKS,
        patience: float = PATIENCE,
        steady: bool = False,
    ) -> None:
        self.clock = VirtualClock()
        self.order = order or Order()
        self.ticks = 0
        self._max_ticks = max_ticks
        self._patience = patience
        self._threads = Threads(patience) if steady else None
        self._due: deque[Callable[[], object]] = deque()
        self._outcome: outcome.Outcome[None] | None = None
        self._nursery: trio.Nursery | None = None
        self._main: trio.lowlevel.Task | None = None
        self._contexts: list[tuple[trio.Event, Job[None]]] = []
        trio.lowlevel.start_guest_run(
            self._hold,
            run_sync_soon_threadsafe=self._due.append,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
            clock=self.clock,
            instruments=[self._threads] if self._threads is not None else [],
        )
        self._loop: Generator[object, object, None] = self._due[0].__self__.unrolled_run_gen  # type: ignore[attr-defined]
        try:
            self._until(lambda: self._nursery is not None)
        except BaseException:
            self.abandon()
            raise

    async def _hold(self) -> None:
        async with trio.open_nursery() as nursery:
            self._main, self._nursery = trio.lowlevel.current_task(), nursery
            await trio.sleep_forever()

    def _done(self, result: outcome.Outcome[None]) -> None:
        self._outcome = result

    # --- going on -----------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether the run is over."""
        return self._outcome is not None

    @property
    def quiescent(self) -> bool:
        """Whether no task can run now and no deadline is due."""
        if self.finished:
            return True
        now = trio.lowlevel.current_statistics()
        return not now.tasks_runnable and not now.run_sync_soon_queue_size and now.seconds_to_next_deadline > 0

    def tick(self, count: int = 1) -> None:
        """Let the loop run ``count`` batches of tasks."""
        for _ in range(count):
            if self.finished:
                return
            with applied(self.order), self._threads.applied() if self._threads is not None else nullcontext():
                self._due.popleft()()
            self.ticks += 1

    def settle(self) -> None:
        """Run until nobody can go on without the caller; worker threads and I/O are waited for, timers are not.

        Raises:
            Stuck: it does not come to rest.
        """
        self._until(lambda: False)

    def advance(self, seconds: float) -> None:
        """Let virtual time pass, and settle. Deadlines are met one after the other."""
        until = self.clock.now + seconds
        while not self.finished:
            self.settle()
            ahead = trio.lowlevel.current_statistics().seconds_to_next_deadline
            if self.clock.now + ahead > until:
                break
            self.clock.now += ahead
        self.clock.now = until
        self.settle()

    def _until(self, reached: Callable[[], bool]) -> bool:
        """Run until something is reached, or until everybody rests; says whether it was reached."""
        last = self.ticks + self._max_ticks
        while not reached():
            if self.finished:
                return reached()
            if self.quiescent:
                if not self.waits_outside():
                    return reached()
                self._wait_outside()
            self.tick()
            if self.ticks > last:
                raise Stuck(f"not at rest after {self._max_ticks} ticks: a livelock")
        return True

    def _wait_outside(self) -> None:
        """Wait, in real time, until a thread or a file has something for the run."""
        until = time.monotonic() + self._patience
        while self.quiescent and self.waits_outside():
            if time.monotonic() > until:
                raise Stuck(f"a thread or I/O took longer than {self._patience:g} s: {self.waits_outside()}")
            time.sleep(PAUSE)
            self.tick()

    def waits_outside(self) -> list[str]:
        """The tasks that wait for a worker thread or for I/O, by name; they go on without the caller's doing."""
        return [task.name for task in self.tasks() if waits_outside(task)]

    def tasks(self) -> Iterator[trio.lowlevel.Task]:
        """All tasks of the run but trio's own."""
        todo = [self._main] if self._main is not None else []
        while todo:
            task = todo.pop()
            yield task
            todo += [child for nursery in task.child_nurseries for child in nursery.child_tasks]

    # --- starting -----------------------------------------------------------------------------------------------------

    def start(self, function: Callable[..., Awaitable[T]], *args: Any, name: str | None = None) -> Job[T]:
        """Start an async function as a task; it begins with the next tick."""
        if self._nursery is None or self.finished:
            raise Stuck("the run is over")
        job: Job[T] = Job()
        self._nursery.start_soon(job._run, function, args, name=name or repr(function))  # pyright: ignore[reportPrivateUsage]
        return job

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an async function to its end and return its result; everybody else goes on meanwhile.

        Raises:
            Stuck: it waits for something that only the caller could do.
        """
        job = self.start(function, *args)
        if not self._until(lambda: job.done):
            raise Stuck(f"{function} waits for something that nobody will do")
        return job.result()

    def enter(self, context: AsyncContext[T]) -> T:
        """Enter an async context manager for the rest of the run; ``finish`` leaves it, the last entered first."""
        leave = trio.Event()
        entered: list[T] = []

        async def hold() -> None:
            async with context as value:
                entered.append(value)
                await leave.wait()

        job = self.start(hold)
        if not self._until(lambda: bool(entered) or job.done) or not entered:
            job.result()
            raise Stuck(f"{context} was not entered")
        self._contexts.append((leave, job))
        return entered[0]

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Leave the contexts and end the run. The caller sees what leaving them raised.

        Raises:
            Stuck: something refused to end; the run is torn down all the same.
        """
        errors: list[BaseException] = []
        while self._contexts and not self.finished:
            leave, job = self._contexts.pop()
            leave.set()
            try:
                if not self._until(lambda job=job: job.done):
                    raise Stuck("a context waits for something that nobody will do")
                job.result()
            except BaseException as error:
                errors.append(error)
        if not self.finished and self._nursery is not None:
            self._nursery.cancel_scope.cancel()
            errors += self._end()
        if errors:
            raise errors[0]

    def _end(self) -> list[BaseException]:
        """End a cancelled run, by force if it does not end by itself."""
        errors: list[BaseException] = []
        try:
            self._until(lambda: self.finished)
            for _ in range(_BLOWS):
                if self.finished:
                    return errors
                errors.append(Stuck(f"refuses to end: {[task.name for task in self._sleepers()]}"))
                for task in self._sleepers():
                    trio.lowlevel.reschedule(task, outcome.Error(errors[0]))
                self._until(lambda: self.finished)
        except Stuck as error:
            errors.append(error)
        finally:
            self.abandon()
        return errors

    def _sleepers(self) -> list[trio.lowlevel.Task]:
        """The tasks of a run at rest that wait for something else than their children."""
        return [task for task in self.tasks() if not any([nursery.child_tasks for nursery in task.child_nurseries])]

    def drop(self) -> None:
        """Give up a run that broke: cancel it, let its clean-ups run in it, and throw away whatever it comes to.

        What refuses to end within few ticks is abandoned.
        """
        if self.finished:
            return
        self._max_ticks, self._patience = LAST_TICKS, LAST_PATIENCE
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()
        tasks = list(self.tasks())
        with contextlib.suppress(Exception):
            self._end()
        self.abandon()
        _ABANDONED.extend([task for task in tasks if not over(task)])

    def abandon(self) -> None:
        """Tear the run down where it stands, as a killed process does, so that another one can start.

        Its tasks never go on, so neither do their clean-ups; for that they are kept to the end of the process, with
        everything that they refer to. Where nothing depends on it, ``finish`` or ``drop`` a run.
        """
        if self.finished:
            return
        self._outcome = outcome.Error(Stuck("the run was abandoned"))
        _ABANDONED.extend(self.tasks())
        self._due.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if inspect.getgeneratorstate(self._loop) == inspect.GEN_CREATED:
                self._loop.send(None)  # one that never began would not tidy up
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
            return
        with contextlib.suppress(Exception):
            self.finish()


def never_collect(thing: object) -> None:
    """Keep something to the end of the process, so that no clean-up of its runs."""
    _ABANDONED.append(thing)
