"""The shell around the kernel: performs effects, publishes after the commit, runs one operation at a time (§9 H4, L7)."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, assert_never, cast

import trio

from . import effects as fx
from . import inputs as i
from .admission import run_admission
from .effects import Begin, Publish, Record
from .errors import MisuseError
from .hooks import Listener, emit
from .initiator import CURRENT, Initiator
from .interruption import LEAVING, leaving_in, without_cancelled
from .kernel import Kernel
from .maintenance import run_maintenance
from .models.failures import failure_of
from .notices import POINT_OF, announce
from .points import ASSISTANT_STREAM, SESSION_EVENT, AssistantStream, SessionEventAdded
from .receipts import Receipt, hold_for, settle
from .reports import report_failure
from .request import RequestState, run_recovery, run_request
from .scheduler import run_tools
from .session.events import Event, TurnEnd, TurnStart
from .signal import Signal, give_cause
from .stopping import run_stopping

if TYPE_CHECKING:
    from .agent import Agent
    from .frames import StreamFrame
    from .maintenance import MaintenanceTask
    from .models.assembly import Recorder
    from .session.log import Session
    from .surroundings import Surroundings

_PROCEED = i.Proceeded()
_REPLAY = i.Replayed()
Control = fx.Settle | fx.Proceed | fx.Reread | fx.Abort | fx.Finish


class Driver:
    """Drives one agent. Nothing but this class feeds the kernel, and nothing but it writes the agent's log.

    An idle driver has no task. A commit appends everything first; then listeners run, in log order, from one queue:
    whatever a listener causes is committed at once and told after what is already due (H4).
    """

    __slots__ = (
        "_after",
        "_draining",
        "_driving",
        "_due",
        "_initiator",
        "_next",
        "_op_scope",
        "_settled",
        "_signal",
        "_thread",
        "_waiting",
        "admission_signal",
        "agent",
        "creator",
        "ended",
        "finished",
        "host",
        "kernel",
        "maintenance",
        "receipts",
        "recorder",
        "requests",
        "scheduled",
        "session",
        "since",
        "task",
    )

    def __init__(
        self, agent: Agent, host: Surroundings, session: Session, kernel: Kernel, requests: RequestState | None = None
    ) -> None:
        self.agent = agent
        self.admission_signal: Signal | None = None
        self.host = host
        self.session = session
        self.kernel = kernel
        self.receipts: dict[str, Receipt] = {}
        self.requests = requests
        self.recorder: Recorder | None = None
        self.maintenance: MaintenanceTask[Any] | None = None
        self.task: trio.lowlevel.Task | None = None
        self.scheduled = -1
        self.creator: trio.lowlevel.Task | None = None
        self.finished: Callable[[], None] | None = None
        self.since: float | None = None
        self._due: list[Any] = []
        self._after: Callable[[], None] | None = None
        self._draining = False
        self._driving = False
        self._next: fx.Operation | None = None
        self._op_scope: trio.CancelScope | None = None
        self._signal: Signal | None = None
        self._initiator: Initiator | None = None
        self._waiting: trio.lowlevel.ParkingLot | None = None
        self.ended = 0
        self._settled: list[Receipt] = []
        self._thread = host.thread_id

    # --- feeding the kernel -------------------------------------------------------------------------------------------

    def check_thread(self) -> None:
        """Raise when called from a foreign thread (D2)."""
        if threading.get_ident() != self._thread:
            raise MisuseError(
                "agents are used from their host's thread (D2); from another one go through host.from_thread"
            )

    def feed(self, given: i.Input) -> None:
        """Give the kernel one input, perform what it asks for, and tell everybody (H4)."""
        effects = self.kernel.receive(given)
        if effects:
            self._perform(effects)
        if not self._draining:
            if self._due:
                self._drain()
            elif self.kernel.owed is None:
                self.wake_waiters()

    def _perform(self, effects: tuple[fx.Effect, ...]) -> None:
        scope, due, commit = self.agent.scope, self._due, self.session.commit
        watched = scope.listeners(SESSION_EVENT)
        if self._settled:
            self._settled.clear()
        for effect in effects:
            kind = type(effect)
            if kind is Record:
                data = effect.data  # type: ignore[union-attr]
                entry = commit(data, effect.replaces)  # type: ignore[union-attr]
                if watched:
                    due.append(entry)
                fact = type(data)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
                if fact is TurnStart:
                    self._signal = None
                elif fact is TurnEnd:
                    self._turn_ended()
            elif kind is Publish:
                # What would be told first, to nobody, need not be queued.
                if due or self._draining or scope.listeners(POINT_OF[type(effect.notice)]):  # type: ignore[union-attr]
                    due.append(effect)
            elif kind is Begin:
                self._begin(effect.operation)  # type: ignore[union-attr]
            else:
                self._control(effect, due)  # type: ignore[arg-type]
        if self._after is not None:
            self._tell_after()

    def _tell_after(self) -> None:
        if self._after is not None:
            self._due.append(self._after)
            self._after = None

    def _control(self, effect: Control, due: list[Any]) -> None:
        match effect:
            case fx.Settle():
                receipt = self.receipts.pop(effect.message_id, None)
                if receipt is not None:
                    settle(receipt, effect.fate)
                    self._settled.append(receipt)
            case fx.Proceed():
                self._tell_after()
                due.append(_PROCEED)
            case fx.Reread():
                due.append(_REPLAY)
            case fx.Abort():
                self._abort(effect)
            case fx.Finish():
                if self.finished is not None:
                    self.finished()
            case _:
                assert_never(effect)

    def _abort(self, effect: fx.Abort) -> None:
        self.since = trio.current_time()
        give_cause(self.signal, effect.cause)
        if self.admission_signal is not None:
            give_cause(self.admission_signal, effect.cause)
        if self.recorder is not None:
            self.recorder.freeze()
        if self._op_scope is not None:
            self._op_scope.cancel()
        self.host.watch_convergence(self)

    def _turn_ended(self) -> None:
        self.ended += 1
        self._initiator = None
        flushed = self.host.turn_ended(self)
        if flushed is not None:
            for receipt in self._settled:
                hold_for(receipt, flushed.wait)

    @property
    def request_state(self) -> RequestState:
        """What is remembered between requests; made when first needed."""
        if self.requests is None:
            self.requests = RequestState()
        return self.requests

    def after_commit(self, tell: Callable[[], None]) -> None:
        """Tell something right after the notifications of the next commit."""
        self._after = tell

    # --- publishing ---------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        due = self._due
        self._draining = True
        leaving: BaseException | None = None
        agent, told = self.agent, 0
        try:
            while told < len(due):
                item = due[told]
                told += 1
                try:
                    if type(item) is Event:
                        listeners = agent.scope.listeners(SESSION_EVENT)
                        if listeners:
                            emit(listeners, SessionEventAdded(agent, self.session, item), self.report_listener)
                    else:
                        self._publish(item)
                except LEAVING as error:
                    leaving = leaving or error
        finally:
            del due[:told]
            self._draining = False
        self.wake_waiters()
        if leaving is not None:
            raise leaving

    def _publish(self, item: Any) -> None:
        kind = cast("type[object]", type(item))
        if kind is Publish:
            announce(self, item.notice)
        elif kind is i.Proceeded or kind is i.Replayed:
            self._perform(self.kernel.receive(item))
        else:
            item()

    def publish_later(self, told: Callable[[], None] | Event) -> None:
        """Queue a notification, or an event that a plugin appended, behind what is already due (H4)."""
        self._due.append(told)
        if not self._draining:
            self._drain()

    def frame(self, frame: StreamFrame) -> None:
        """Tell about a frame of the live attempt (Q9); the attempt runs in the driver's task, between dispatches."""
        if not self.agent.scope.listeners(ASSISTANT_STREAM):
            return
        self._draining = True
        try:
            self.tell_frame(frame)
        finally:
            self._draining = False
            if self._due:
                self._drain()

    def tell_frame(self, frame: StreamFrame) -> None:
        """Tell about a frame whose turn it is."""
        emit(self.agent.scope.listeners(ASSISTANT_STREAM), AssistantStream(self.agent, frame), self.report_listener)

    def report_listener(self, listener: Listener, error: BaseException) -> None:
        """A listener of a notification failed: the others go on, the failure is visible (H5, N8)."""
        self.report(error, f"listener {listener.name}")

    def report(self, error: BaseException, who: str) -> None:
        """Publish a failure that ends nothing as ``agent/error``, behind what is already due (N8, H4)."""
        turn, step = self.kernel.turn, self.kernel.step
        self.publish_later(lambda: report_failure(self.agent, error, who, turn, step))

    # --- operations ---------------------------------------------------------------------------------------------------

    @property
    def signal(self) -> Signal:
        """The signal of the running activity (H9)."""
        if self._signal is None:
            self._signal = Signal()
        return self._signal

    @property
    def own(self) -> bool:
        """Whether the caller is the running activity's own hook or tool (D4, O7), and no listener of a notification."""
        return self.below and not self._draining

    @property
    def below(self) -> bool:
        """Whether the caller was started by the running activity, at whatever remove (O7)."""
        current = CURRENT.get()
        return current is not None and current is self._initiator

    def _begin(self, operation: fx.Operation) -> None:
        self._next = operation
        if isinstance(operation, fx.Maintain):
            self._signal = None
        if not self._driving:
            self._driving = True
            self.host.spawn(self._drive, "treadle.driver.Driver._drive")

    async def _drive(self) -> None:
        """Run operations until none is owed. This is the one task of an active agent.

        A cancel scope serves one operation after the other until a cancel uses it up: a cancel ends the operation
        under way and nothing else, and a scope per operation would cost as much as all else the shell does for it.
        """
        self.task, self.scheduled = trio.lowlevel.current_task(), -1
        leaving: BaseException | None = None
        try:
            while self._next is not None:
                with trio.CancelScope() as scope:
                    used_up = False
                    while not used_up and (operation := self._next) is not None:
                        self._next = None
                        if self._initiator is None:
                            self._initiator = Initiator(self.agent, object())
                            CURRENT.set(self._initiator)
                        outcome, interrupt = await self._run(operation, scope)
                        used_up = self.kernel.cause is not None
                        leaving = self._answer(outcome) or leaving or interrupt
                        if self.since is not None and self.kernel.cause is None:
                            self.since = None
                            self.host.converged(self)
        except BaseException as fault:
            leaving = fault
            if self.finished is not None:
                self.finished()
        finally:
            self._driving = False
            self.task = None
            self._initiator = None
        self.wake_waiters()
        if leaving is not None:
            self.host.leave(leaving)

    def _answer(self, outcome: i.Outcome) -> BaseException | None:
        """Feed an outcome. A listener that leaves the program stops the agent first; what it raised is returned (H5)."""
        try:
            self.feed(outcome)
        except LEAVING as leaving:
            if self._next is not None:
                self.feed(i.Dispose(keep_inbox=True))
            return leaving
        return None

    async def _run(self, operation: fx.Operation, scope: trio.CancelScope) -> tuple[i.Outcome, BaseException | None]:
        """Run one operation to its one outcome; nothing that it raises goes further (L8)."""
        self._op_scope = scope
        if self.kernel.cause is not None:
            scope.cancel()
        try:
            return await _RUN[type(operation)](self, operation), None
        except BaseException as error:
            return self._outcome_of(operation, error), leaving_in(error)
        finally:
            self._op_scope = None

    def _outcome_of(self, operation: fx.Operation, error: BaseException) -> i.Outcome:
        if isinstance(operation, fx.Maintain):
            return i.Maintained()
        real = without_cancelled(error) if self.kernel.cause is not None else error
        if real is None:
            return i.Interrupted()
        return i.Failed(failure_of(real), real)

    # --- waiting ------------------------------------------------------------------------------------------------------

    @property
    def quiet(self) -> bool:
        """Whether nothing is active, due, or about to start (L6)."""
        kernel = self.kernel
        return kernel.owed is None and kernel.quiet and not self._due and not self._draining

    @property
    def driving(self) -> bool:
        """Whether the driver's task runs or is about to; without it nothing that is owed settles any more."""
        return self._driving

    @property
    def tasks(self) -> Iterable[trio.lowlevel.Task]:
        """The tasks that run the agent's own operation, creation and flushes: to wait there is to wait for oneself."""
        flushing = [task for task, owner in self.host.flush_tasks.items() if owner is self]
        return [task for task in (self.task, self.creator, *flushing) if task is not None]

    async def until_quiet(self) -> None:
        """Wait until it is quiet and no flush is under way (P8)."""
        while not self.quiet or self.host.flushing(self):
            if self._waiting is None:
                self._waiting = trio.lowlevel.ParkingLot()
            await self._waiting.park()

    def wake_waiters(self) -> None:
        """Wake whoever waits for the agent to be quiet, if it is."""
        if self.kernel.owed is None and self._waiting and self.quiet and not self.host.flushing(self):
            self._waiting.unpark_all()


_RUN: dict[type[fx.Operation], Callable[[Driver, Any], Awaitable[i.Outcome]]] = {
    fx.Admit: run_admission,
    fx.Request: run_request,
    fx.RunTools: run_tools,
    fx.Stop: run_stopping,
    fx.Recover: run_recovery,
    fx.Maintain: run_maintenance,
}
"""What runs each operation."""
