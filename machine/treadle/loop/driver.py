"""The shell around the kernel: performs what it decides, and tells of it once that is done.

How it works. Whatever happens to an agent is an input: a delivery, a cancel, the outcome of an operation. ``feed``
gives it to the kernel and performs the effects that come back, in order: facts are appended to the log, notices are
queued, at most one operation begins. Only then is the queue told (``Outbox``). Inputs come from anywhere, also from a
listener in the middle of telling; as the kernel is synchronous and everything is appended before anybody hears of it,
there is no state in between for such an input to meet.

Operations are all that ever waits. They run one after the other in one task (``Runner``), which an idle agent does not
have. A cancel reaches the one under way by its signal and then by its cancel scope. Whatever an operation raises, the
runner makes exactly one outcome of it: a hook or an adapter can break a turn but never the loop. What asks to leave the
program is raised only when the outcome has been fed and everybody has been told.

Others call the driver's methods and read its attributes; they write none of them (§9, H4, L7, L8).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, assert_never

import trio

from ..agent.agent import Agent
from ..agent.delivery import Receipt
from ..agent.engine import Converging
from ..agent.idle import forbid_flush_wait, forbid_wait
from ..agent.initiator import CURRENT, Initiator
from ..agent.maintenance import MaintenanceTask
from ..containment import LEAVING
from ..hooks.points import SESSION_EVENT, SESSION_FLUSH
from ..kernel import effects as fx
from ..kernel import inputs as i
from ..kernel.effects import Begin, Publish, Record
from ..kernel.kernel import Kernel
from ..words.events import Target, TurnEnd, TurnStart
from ..words.messages import UserMessage
from ..words.reasons import ByParent
from ..words.signal import SignalSource
from .flushes import Flushes
from .notices import TOLD
from .outbox import Outbox
from .request_state import RequestState
from .runner import Runner
from .services import Services, Shared

_REPLAY = i.Replayed()
_PROCEED = i.Proceeded()
Control = fx.Settle | fx.Proceed | fx.Reread | fx.Abort | fx.Finish


class Driver:
    """Drives one agent. Nothing but this class feeds the kernel, and nothing but it writes the agent's log.

    Attributes:
        agent: the agent.
        kernel: what decides for it.
        outbox: what is still to be told of it.
        receipts: of messages whose fate is open, by message id (D8).
        ended: how many turns have ended.
        last_ended: the number of the last of them.
        unwinding: the task that runs the clean-ups of the agent's disposal, while there is one (O4).
        creator: the task that creates the agent, ``None`` once that is over (O15).
    """

    __slots__ = (
        "_changes",
        "_finished",
        "_flushes",
        "_requests",
        "_runner",
        "_settled",
        "_shared",
        "_waiters",
        "agent",
        "creator",
        "ended",
        "kernel",
        "last_ended",
        "outbox",
        "receipts",
        "unwinding",
    )

    def __init__(self, agent: Agent, shared: Shared, kernel: Kernel, requests: RequestState | None = None) -> None:
        self.agent = agent
        self.kernel = kernel
        self.outbox = Outbox(agent, kernel, self)
        self.receipts: dict[str, Receipt] = {}
        self.ended = self.last_ended = 0
        self.unwinding: trio.lowlevel.Task | None = None
        self._changes: trio.Event | None = None
        self.creator: trio.lowlevel.Task | None = None
        self._shared = shared
        self._requests = requests
        self._runner: Runner | None = None
        self._flushes: Flushes | None = None
        self._finished: Callable[[], None] | None = None
        self._waiters: trio.Event | None = None
        self._settled: tuple[Receipt, ...] = ()

    @property
    def host(self) -> Services:
        """What the host gives to all of its drivers."""
        return self._shared.host

    # --- what is asked of an agent ------------------------------------------------------------------------------------

    def check_thread(self) -> None:
        """Raise when called from a foreign thread (D2)."""
        host = self._shared.host
        if threading.get_ident() != host.thread_id:
            host.check_here()

    @trio.lowlevel.enable_ki_protection
    def deliver(self, message: UserMessage, target: Target, wakeup: bool) -> Receipt:
        """Deliver a message; returns its receipt (D1, D8).

        Raises:
            DuplicateMessage: its id is taken (I1).
            AgentDisposed: the agent accepts nothing any more (L9).
        """
        receipt, receipts, runner = Receipt(message.id, self), self.receipts, self._runner
        own = runner is not None and runner.running and runner.own
        known = receipts.get(message.id)
        receipts[message.id] = receipt
        try:
            self.feed(i.Deliver(message, target, wakeup, own))
        except Exception:
            if known is not None:
                receipts[message.id] = known
            else:
                receipts.pop(message.id, None)
            raise
        return receipt

    @trio.lowlevel.enable_ki_protection
    def maintain(self, task: MaintenanceTask[Any]) -> None:
        """Claim the idle agent for a maintenance task (M1).

        Raises:
            AgentBusy: the agent is not truly idle.
            AgentDisposed: it is in disposal or disposed.
        """
        activity = self.runner.activity
        before, activity.task = activity.task, task
        try:
            self.feed(i.BeginMaintenance())
        except Exception:
            activity.task = before
            raise

    @trio.lowlevel.enable_ki_protection
    def dispose(self, keep_inbox: bool, finished: Callable[[], None]) -> None:
        """Have the agent end; ``finished`` is called once nothing of it is active any more (O4)."""
        self._finished = finished
        try:
            self.feed(i.Dispose(keep_inbox))
        except LEAVING as leaving:
            self.host.leave(leaving)  # the disposal goes on, and the host ends in order (H5)
        if self._runner is None or not self._runner.running:
            finished()

    @trio.lowlevel.enable_ki_protection
    def reject_open(self, fate: fx.Rejected) -> None:
        """Settle the receipts whose messages will have no other fate any more (D8)."""
        for receipt in list(self.receipts.values()):
            receipt.reach(fate)
        self.receipts.clear()
        self._changed()

    def creating(self) -> None:
        """The running task creates the agent."""
        self.creator = trio.lowlevel.current_task()

    def created(self) -> None:
        """The creation is over, one way or the other."""
        self.creator = None

    # --- feeding the kernel -------------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    def feed(self, given: i.Input) -> None:
        """Give the kernel one input, perform what it asks for, and tell everybody (H4)."""
        effects = self.kernel.receive(given)
        if effects:
            self._perform(effects)
        outbox = self.outbox
        if not outbox.telling:
            if outbox.due:
                outbox.drain()
            elif self.kernel.owed is None:
                self.wake_waiters()

    def perform_next(self, given: i.Proceeded | i.Replayed) -> None:
        """Give the kernel an input that it wanted back, in the middle of telling; see ``Outbox``."""
        self._perform(self.kernel.receive(given))

    def _perform(self, effects: tuple[fx.Effect, ...]) -> None:
        scope, outbox, session = self.agent.scope, self.outbox, self.agent.session
        commit, due, watched = session.commit, outbox.due, scope.heard[SESSION_EVENT]
        now: int | None = None  # one commit is one moment
        self._settled = ()
        for effect in effects:
            if type(effect) is Record:
                data = effect.data
                if now is None:
                    now = session.clock()
                entry = commit(data, effect.replaces, now)
                if watched:
                    due.append(entry)
                if type(data) is TurnStart and self._runner is not None:
                    self._runner.activity.signal = SignalSource()  # a turn has its own (H9)
                elif type(data) is TurnEnd:
                    self._turn_ended(data.turn)
            elif type(effect) is Publish:
                # What would be told first, to nobody, need not be queued.
                if due or outbox.telling or scope.heard[TOLD[type(effect.notice)].point]:
                    due.append(effect)
            elif type(effect) is Begin:
                (self._runner or self.runner).begin(effect.operation)
            else:
                self._control(effect)
        if outbox.after is not None:
            outbox.committed()

    def _control(self, effect: Control) -> None:
        match effect:
            case fx.Settle():
                receipt = self.receipts.pop(effect.message_id, None)
                if receipt is not None:
                    fate = effect.fate
                    # A message that no turn has claimed can only be discarded.
                    unclaimed = isinstance(fate, fx.Rejected) and fate.reason == "discarded"
                    receipt.reach(fate, None if unclaimed else self.kernel.turn)
                    self._settled += (receipt,)
                    self._changed()
            case fx.Proceed():
                self.outbox.committed()
                self.outbox.due.append(_PROCEED)
            case fx.Reread():
                self.outbox.due.append(_REPLAY)
            case fx.Abort():
                self.runner.abort(effect.cause)
            case fx.Finish():
                self.finish()
            case _:
                assert_never(effect)

    def _turn_ended(self, turn: int) -> None:
        self.ended += 1
        self.last_ended = turn
        self._changed()
        (self._runner or self.runner).turn_ended()
        if self.agent.scope.heard[SESSION_FLUSH]:
            flushed = self.flushes.begin().over
            for receipt in self._settled:
                receipt.hold_for(flushed.wait)

    # --- operations ---------------------------------------------------------------------------------------------------

    @property
    def runner(self) -> Runner:
        """What runs operations; made when the first one begins."""
        if self._runner is None:
            requests = self._requests if self._requests is not None else RequestState()
            self._runner = Runner(self.agent, self._shared, self.kernel, self.outbox, requests, self)
        return self._runner

    @property
    def flushes(self) -> Flushes:
        """What flushes; made when the first turn ends."""
        if self._flushes is None:
            self._flushes = Flushes(self.agent, self.host.spawn, self.outbox.report_listener, self.wake_waiters)
        return self._flushes

    def finish(self) -> None:
        """Nothing of the agent is active any more (O4)."""
        if self._finished is not None:
            self._finished()

    def runs(self, initiator: Initiator | None) -> bool:
        """Whether that is the running activity's own initiator (O7)."""
        return self._runner is not None and self._runner.runs(initiator)

    # --- waiting ------------------------------------------------------------------------------------------------------

    @property
    def quiet(self) -> bool:
        """Whether nothing is active, due, or about to start, and no flush is under way (L6, P8)."""
        kernel, outbox, flushes = self.kernel, self.outbox, self._flushes
        if kernel.owed is not None or outbox.due or outbox.telling or (flushes is not None and flushes.under_way):
            return False
        return kernel.quiet

    def wake_waiters(self) -> None:
        """Wake whoever waits for the agent to be quiet, if it is."""
        waiters = self._waiters
        if self.kernel.owed is None and (waiters is not None or self._changes is not None) and self.quiet:
            if waiters is not None:
                waiters.set()
                self._waiters = None
            self._changed()

    def _changed(self) -> None:
        if self._changes is not None:
            self._changes.set()
            self._changes = None

    async def until_changed(self) -> None:
        """Wait until a message has met its fate, a turn has ended, or the agent is quiet (D9)."""
        if self._changes is None:
            self._changes = trio.Event()
        await self._changes.wait()

    async def until_quiet(self) -> None:
        """Wait until the agent is quiet; see ``when_quiet`` for what else that takes (L6)."""
        while not self.quiet:
            if self._waiters is None:
                self._waiters = trio.Event()
            await self._waiters.wait()

    async def flushed(self) -> None:
        """Wait for the flushes that are under way now (P8)."""
        if self._flushes is not None:
            await self._flushes.wait()

    async def durable(self) -> None:
        """Flush what has been recorded so far (P8).

        Raises:
            Exception: what the flush failed with; it was reported as ``agent/error``, too.
        """
        if self.agent.scope.heard[SESSION_FLUSH]:
            flush = self.flushes.begin()
            await flush.over.wait()
            if flush.failure is not None:
                raise flush.failure

    @property
    def converging(self) -> Converging | None:
        """What a cancellation is waiting for (C10)."""
        runner = self._runner
        return runner.convergence.state() if runner is not None and runner.convergence is not None else None

    def awaited_tasks(self) -> Iterator[trio.lowlevel.Task]:
        """The tasks whose end ``when_idle`` waits for (L6)."""
        if self._runner is not None and self._runner.task is not None:
            yield self._runner.task
        if self.creator is not None:
            yield self.creator
        if self._flushes is not None:
            yield from self._flushes.tasks

    def last_tasks(self) -> Iterator[trio.lowlevel.Task]:
        """The tasks that flush, and that runs the clean-ups of the disposal (P8, O4)."""
        if self._flushes is not None:
            yield from self._flushes.tasks
        if self.unwinding is not None:
            yield self.unwinding

    def forbid_wait(self, what: str, *, known: bool) -> None:
        """Raise where the running task is awaited by what it would wait for; ``known``: only a flush is left (L6)."""
        (forbid_flush_wait if known else forbid_wait)(self, what)

    @property
    def stopping_own(self) -> bool:
        """Whether the caller is code of the running activity's own, which is being cancelled (O6)."""
        return self.kernel.cause is not None and self.runs(CURRENT.get())

    def cancel_with_parent(self) -> bool:
        """Cancel a child whose parent's turn is being cancelled while it awaits the child (O6).

        Called where a wait for the child was cancelled. Returns whether the wait was the parent's own; then the
        caller waits for the child's convergence before it lets the cancellation go on, so that nothing of the child's
        happens after the parent's turn.
        """
        above = getattr(self.agent.parent, "engine", None)
        if not isinstance(above, Driver) or not above.stopping_own:
            return False
        self.feed(i.Cancel(ByParent(), above.kernel.keep))
        return True
