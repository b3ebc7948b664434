"""Runs the operations of one agent, one at a time, in one task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import trio

from ..agent.agent import Agent
from ..agent.initiator import CURRENT, Initiator
from ..containment import LEAVING, leaving_in, without_cancelled
from ..kernel import effects as fx
from ..kernel import inputs as i
from ..kernel.kernel import Kernel
from ..leftovers import check_left, status_of, tidy
from ..words.failures import failure_of
from ..words.reasons import Cause
from ..words.signal import SignalSource
from .activity import Activity
from .admission import run_admission
from .convergence import Convergence
from .outbox import Outbox
from .request import run_recovery, run_request
from .request_state import RequestState
from .scheduler import run_tools
from .services import Shared
from .turn_end import run_maintenance, run_stopping


class Owner(Protocol):
    """Whose operations they are."""

    def feed(self, given: i.Input) -> None:
        """Give the kernel an input."""
        ...

    def finish(self) -> None:
        """Nothing will settle any more what is owed."""
        ...

    def wake_waiters(self) -> None:
        """No operation is under way any more."""
        ...


class Runner:
    """The task of an active agent; an idle one has none.

    Attributes:
        activity: what operations are given.
        task: the task, while there is one.
        running: whether it runs or is about to; without it nothing that is owed settles any more.
        convergence: the cancellation under way.
    """

    __slots__ = (
        "_agent",
        "_initiator",
        "_kernel",
        "_next",
        "_outbox",
        "_owner",
        "_scope",
        "_shared",
        "activity",
        "convergence",
        "running",
        "task",
    )

    def __init__(
        self, agent: Agent, shared: Shared, kernel: Kernel, outbox: Outbox, requests: RequestState, owner: Owner
    ) -> None:
        self._agent = agent
        self._shared = shared
        self._kernel = kernel
        self._outbox = outbox
        self._owner = owner
        self._next: fx.Operation | None = None
        self._scope: trio.CancelScope | None = None
        self._initiator: Initiator | None = None
        self.activity = Activity(agent, shared.host, kernel, owner.feed, outbox, requests)
        self.task: trio.lowlevel.Task | None = None
        self.running = False
        self.convergence: Convergence | None = None

    # --- for the driver -----------------------------------------------------------------------------------------------

    def begin(self, operation: fx.Operation) -> None:
        """Run an operation next; its outcome is fed."""
        self._next = operation
        if type(operation) is fx.Maintain:
            self.activity.signal = SignalSource()
        if not self.running:
            self.running = True
            self._shared.host.start(self._run)

    def abort(self, cause: Cause) -> None:
        """Cancel what runs; its signal is set before anything unwinds (C3)."""
        before, self.convergence = self.convergence, Convergence(self._agent, self._kernel)
        self.activity.cancel(cause)
        if self._scope is not None:
            self._scope.cancel()
        self._shared.convergences.watch(self.convergence)
        if before is not None:
            self._shared.convergences.over(before)

    def turn_ended(self) -> None:
        """What runs from now on is another activity (O7)."""
        self._initiator = None

    @property
    def own(self) -> bool:
        """Whether the caller is the running activity's own hook or tool (D4, O7), and no listener of a notification."""
        return self.runs(CURRENT.get()) and not self._outbox.telling

    def runs(self, initiator: Initiator | None) -> bool:
        """Whether that is the running activity's own initiator (O7)."""
        return initiator is not None and initiator is self._initiator

    # --- the task -----------------------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def _run(self) -> None:
        """Run operations until none is owed.

        A cancel scope serves one operation after the other until a cancel uses it up: a cancel ends the operation
        under way and nothing else, and a scope per operation would cost as much as all else the shell does for it.
        """
        self.task = trio.lowlevel.current_task()
        leaving: BaseException | None = None
        try:
            while self._next is not None:
                with trio.CancelScope() as scope:
                    used_up = False
                    while not used_up and (operation := self._next) is not None:
                        self._next = None
                        if self._initiator is None:
                            self._initiator = Initiator(self._agent, object())
                            CURRENT.set(self._initiator)
                        outcome, interrupt = await self._operate(operation, scope)
                        used_up = self._kernel.cause is not None
                        leaving = self._answer(outcome, interrupt) or leaving
                        if self.convergence is not None and self._kernel.cause is None:
                            self._shared.convergences.over(self.convergence)
                            self.convergence = None
        except BaseException as fault:
            leaving = fault
            self._owner.finish()
        finally:
            self.running = False
            self.task = None
            self._initiator = None
        self._owner.wake_waiters()
        if leaving is not None:
            self._shared.host.leave(leaving)

    def _answer(self, outcome: i.Outcome, leaving: BaseException | None) -> BaseException | None:
        """Feed an outcome. Who leaves the program, in the operation or hearing of it, stops the agent first (H5).

        Returns:
            What was raised to leave.
        """
        try:
            self._owner.feed(outcome)
        except LEAVING as raised:
            leaving = leaving or raised
        if leaving is not None and self._next is not None:
            self._owner.feed(i.Dispose(keep_inbox=True))
        return leaving

    async def _operate(
        self, operation: fx.Operation, scope: trio.CancelScope
    ) -> tuple[i.Outcome, BaseException | None]:
        """Run one operation to its one outcome; nothing that it raises goes further (L8)."""
        self._scope = scope
        if self._kernel.cause is not None:
            scope.cancel()
        task = self.task
        status = status_of(task)
        try:
            outcome = await _RUN[type(operation)](self.activity, operation)
            if status_of(task) is not status:
                await check_left((task, status), "a hook")
        except BaseException as error:
            await tidy((task, status))
            return self._outcome_of(operation, error), leaving_in(error)
        else:
            return outcome, None
        finally:
            self._scope = None

    def _outcome_of(self, operation: fx.Operation, error: BaseException) -> i.Outcome:
        if isinstance(operation, fx.Maintain):
            return i.Maintained()
        real = without_cancelled(error) if self._kernel.cause is not None else error
        if real is None:
            return i.Interrupted()
        return i.Failed(failure_of(real), real)


_RUN: dict[type[fx.Operation], Callable[[Activity, Any], Awaitable[i.Outcome]]] = {
    fx.Admit: run_admission,
    fx.Request: run_request,
    fx.RunTools: run_tools,
    fx.Stop: run_stopping,
    fx.Recover: run_recovery,
    fx.Maintain: run_maintenance,
}
"""What runs each operation."""
