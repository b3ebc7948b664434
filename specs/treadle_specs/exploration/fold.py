"""One commit, effect by effect: what its records add up to, and that each may stand where it stands.

The fold starts from what held before the commit and believes only the effects. Afterwards it is compared with the
kernel: the log, the notifications and the kernel's own state must tell the same story (I6, L5).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel
from treadle.words import events as ev
from treadle.words import reasons as why

from .node import Pending, View
from .violation import Violation, require


class Fold:
    """What one commit adds up to.

    Attributes:
        opened: turns that it opened.
        ended: the reasons of the turns that it ended.
        begun: operations that it began, ``PROCEED`` among them.
        fates: the fate of each message that reached one.
        parked: the ids that ``agent/parked`` told of, ``None`` when it was not told.
    """

    __slots__ = (
        *(
            "before",
            "view",
            "given",
            "turn",
            "step",
            "turn_open",
            "step_open",
            "running",
            "lists",
            "claimed",
            "accepted",
        ),
        *("asked", "called", "cause", "opened", "ended", "steps", "begun", "fates", "parked", "told", "aborted"),
        *("news", "unclaimed", "dropped", "owed_fate", "errors", "last", "requested", "finished", "reread", "claims"),
    )

    def __init__(self, before: Kernel, view: View, given: i.Input) -> None:
        self.before = before
        self.view = view
        self.given: Any = given
        self.turn, self.step = before.turn, before.step
        self.turn_open, self.step_open, self.running = before.turn_open, before.step_open, before.running
        self.lists: dict[str, list[Pending]] = {"next-turn": list(view.turns), "next-step": list(view.steps)}
        self.claimed = list(view.claimed)
        self.accepted = list(view.accepted)
        self.asked = list(view.asked)
        self.called = set(view.called)
        self.cause = before.cause
        self.opened = self.steps = 0
        self.ended: list[why.EndReason] = []
        self.begun: list[Any] = []
        self.fates: dict[str, fx.Fate] = {}
        self.parked: tuple[str, ...] | None = None
        self.told = self.aborted = self.last = self.requested = self.finished = self.reread = False
        self.news: deque[tuple[type, str]] = deque()
        self.unclaimed: deque[str] = deque()
        self.claims: list[str] = []
        self.dropped: deque[str] = deque()
        self.owed_fate: tuple[str, int | None] | None = None
        self.errors = 0

    # --- taking effects -----------------------------------------------------------------------------------------------

    def take(self, effects: tuple[fx.Effect, ...]) -> None:
        """Fold the effects of the commit.

        Raises:
            Violation: one of them may not stand where it stands.
        """
        for effect in effects:
            if self.last:
                raise Violation("H4", f"{effect} follows what must come last")
            kind: type[object] = effect.__class__
            if self.owed_fate is not None and kind is not fx.Settle:
                raise Violation("D8", f"{self.owed_fate[0]} was recorded, and its receipt is not settled with it")
            part: Any = effect
            if kind is fx.Record:
                part, kind = part.data, part.data.__class__
            elif kind is fx.Publish:
                self.told = True
                part, kind = part.notice, part.notice.__class__
            _TAKERS[kind](self, part)
        require(self.owed_fate is None, "D8", "a recorded message has no fate")
        require(not self.unclaimed, "I4", "claimed and not told: {}", list(self.unclaimed))
        require(not self.news, "I4", "changed and not told: {}", list(self.news))
        require(not self.dropped, "I4", "removed and not told as discarded: {}", list(self.dropped))

    # --- turns and steps ----------------------------------------------------------------------------------------------

    def turn_start(self, data: ev.TurnStart) -> None:
        """A turn opens, after the end of the one before (T10, L4), and not while an activity is cancelled (C4)."""
        require(not self.turn_open, "T10", "a turn opens inside a turn")
        require(data.turn == self.turn + 1, "L4", "turn {} follows turn {}", data.turn, self.turn)
        require(self.cause is None, "C4", "a turn opens during convergence")
        require(self.running, "L5", "a turn opens while the status is idle")
        self.turn_open, self.turn, self.step = True, data.turn, 0
        self.opened += 1
        self.claims = []

    def turn_end(self, data: ev.TurnEnd) -> None:
        """The open turn ends once, with nothing of it open (T10, N3)."""
        require(self.turn_open, "N3", "turn {} ends and is not open", data.turn)
        require(data.turn == self.turn, "N3", "turn {} ends while turn {} is open", data.turn, self.turn)
        require(not self.step_open, "T10", "a turn ends inside a step")
        require(not self.accepted, "N2", "accepted and neither recorded nor settled: {}", self.accepted)
        require(not self.claimed, "N2", "claimed and neither recorded nor settled: {}", self.claimed)
        self.turn_open = False
        self.step = 0
        self.ended.append(data.reason)

    def step_start(self, data: ev.StepStart) -> None:
        """A step opens inside the turn, under the next number, with the batch that was decided (T0, T10, C4)."""
        require(self.turn_open and not self.step_open, "T10", "a step opens outside a turn or inside a step")
        require((data.turn, data.step) == (self.turn, self.step + 1), "L4", "step {} follows {}", data.step, self.step)
        require(self.cause is None, "C6", "a step opens although the turn was cancelled")
        require(isinstance(self.given, i.Entered), "T2", "a step opens without a decision")
        claimed = {message.id: message for message in self.before.claimed}
        batch = self.given.messages
        require(data.accepted == tuple([message.id for message in batch]), "T0", "accepted is {}", data.accepted)
        amended = tuple([message for message in batch if claimed.get(message.id) != message])
        require(data.amended == amended, "T0", "amended is {}, not {}", data.amended, amended)
        self.step_open, self.step = True, data.step
        self.steps += 1
        self.accepted = list(data.accepted)
        self.claimed = [message_id for message_id in self.claimed if message_id not in data.accepted]
        require(not self.claimed, "T2", "left out without a fate: {}", self.claimed)

    def step_end(self, data: ev.StepEnd) -> None:
        """The open step ends with every call answered and every accepted message settled (N1, T12)."""
        require(self.step_open, "T10", "a step ends and none is open")
        require((data.turn, data.step) == (self.turn, self.step), "T10", "step {}.{} ends", data.turn, data.step)
        require(not self.asked, "N1", "calls without a result: {}", self.asked)
        require(not self.accepted, "T12", "accepted and neither recorded nor settled: {}", self.accepted)
        self.step_open = False

    # --- what a step records ------------------------------------------------------------------------------------------

    def user_message(self, data: ev.UserMessageAdded) -> None:
        """A message of the batch enters the history, in order, never between a call and its result (N1, N2, T1)."""
        message_id = data.message.id
        require(self.turn_open, "T10", "{} is recorded outside a turn", message_id)
        require(not self.asked, "N1", "{} stands between a call and its result", message_id)
        if self.accepted:
            require(self.step_open and self.accepted[0] == message_id, "T1", "{} is recorded out of order", message_id)
            del self.accepted[0]
            self.owed_fate = (message_id, self.step)
        else:
            require(message_id in self.claimed, "N2", "{} is recorded and was not taken in", message_id)
            require(not self.step_open, "C6", "{} was claimed for the next step and enters the open one", message_id)
            self.claimed.remove(message_id)
            self.owed_fate = (message_id, None)

    def request_mark(self, _: Any) -> None:
        """System message, header and context come with the prepared call, before its attempt (T1)."""
        require(self.step_open and isinstance(self.given, i.Prepared), "T1", "recorded outside the preparation")
        require(self.cause is None, "C6", "recorded although the turn was cancelled")

    def assistant(self, data: Any) -> None:
        """An answer or attempt stands in the open step, after the accepted batch (T1, Q9)."""
        require(self.step_open, "T10", "an answer outside a step")
        require(not self.asked, "N1", "an answer while calls wait for results: {}", self.asked)
        if isinstance(self.given, i.Answered):
            require(data == self.given.fact, "C5", "the answer was changed")
            self.asked = [call.call_id for call in data.message.calls]
        require(not self.accepted or self.cause is not None, "T1", "an answer before the accepted batch")

    def tool_call(self, data: ev.ToolCallStarted) -> None:
        """A call is recorded once, while its result is due (K5)."""
        require(self.step_open and data.call_id in self.asked, "K5", "call {} was not asked for", data.call_id)
        require(data.call_id not in self.called, "K5", "call {} is recorded twice", data.call_id)
        self.called.add(data.call_id)

    def tool_result(self, data: ev.ToolResultAdded) -> None:
        """Results come in the model's order, one per call, each after its call (N1, K5)."""
        require(self.step_open and self.asked, "N1", "a result for {}, and none is due", data.call_id)
        require(self.asked[0] == data.call_id, "K5", "a result for {} before {}", data.call_id, self.asked[0])
        if type(self.given) is i.CallSettled:
            require(data == self.given.result, "K6", "the result of {} was replaced", data.call_id)
        started = data.call_id in self.called
        require(started or data.code == "TOOL_NOT_STARTED", "K5", "a result for {} before its call", data.call_id)
        del self.asked[0]

    # --- the inbox ----------------------------------------------------------------------------------------------------

    def spliced(self, data: ev.InboxSpliced) -> None:
        """A recorded splice folds, changes something, and says by its outcome what became of the removed (I3, I6)."""
        entries = self.lists[data.target]
        end = data.start + data.removed_count
        require(0 <= data.start <= end <= len(entries), "I6", "{} does not fit {}", data, entries)
        removed = entries[data.start : end]
        require(removed or data.inserted, "I2", "a splice that changes nothing is recorded")
        inserted = [message.id for message in data.inserted]
        entries[data.start : end] = self._inserted(dict(removed), inserted)
        every = [message_id for target in self.lists.values() for message_id, _ in target]
        require(len(every) == len(set(every)), "I1", "an id is pending twice: {}", every)
        lost = [message_id for message_id, _ in removed if message_id not in inserted]
        moved = type(self.given) is i.SteerMessage
        claim = bool(lost) and data.outcome is None and not moved
        require(data.outcome is None or (lost and not moved), "I3", "the outcome of {}", data)
        if claim:
            require(not inserted and data.start == 0, "I3", "a claim is a pure deletion from the front: {}", data)
            self.unclaimed.extend(lost)
        elif data.outcome:
            self.dropped.extend(lost)

    def _inserted(self, removed: dict[str, bool], inserted: list[str]) -> list[Pending]:
        out: list[Pending] = []
        steered = type(self.given) is i.SteerMessage
        for message_id in inserted:
            known = message_id in removed
            self.news.append((fx.Updated if known or steered else fx.Inserted, message_id))
            if known:
                out.append((message_id, removed[message_id]))
                continue
            require(message_id not in self.claimed + self.accepted, "I1", "{} is pending and claimed", message_id)
            out.append((message_id, _presses(self.given, self.cause, removed)))
        return out

    def told_claimed(self, notice: fx.Claimed) -> None:
        """Every claim is told, in order, with its turn (I4)."""
        require(
            self.unclaimed and self.unclaimed[0] == notice.message.id, "I4", "{} was not claimed", notice.message.id
        )
        require(notice.turn == self.turn and self.turn_open, "I4", "claimed for turn {}", notice.turn)
        self.claimed.append(self.unclaimed.popleft())
        self.claims.append(notice.message.id)

    def told_discarded(self, notice: fx.Discarded) -> None:
        """Every removal is told, in order, once (I4); a cancel is told before what it removed (C3)."""
        require(self.dropped and self.dropped[0] == notice.message.id, "I4", "{} was not removed", notice.message.id)
        require(self.fates.get(notice.message.id) == fx.Rejected("discarded"), "I5", "discarded without its fate")
        require(self.requested or not self.aborted, "C3", "a discard is told before the cancel that caused it")
        self.dropped.popleft()

    def told_news(self, notice: Any) -> None:
        """Every insertion is told as ``inserted`` or ``updated``, after what the same change removed (I4)."""
        expected = self.news.popleft() if self.news else None
        require(expected == (type(notice), notice.message.id), "I4", "told {}, expected {}", notice, expected)
        require(not self.dropped, "I4", "an insertion is told before what it replaced")

    # --- the rest -----------------------------------------------------------------------------------------------------

    def settle(self, effect: fx.Settle) -> None:
        """A message reaches one fate, and only one that was accepted does (I5, N2)."""
        message_id, fate = effect.message_id, effect.fate
        require(message_id not in self.fates, "I5", "{} meets a second fate", message_id)
        self.fates[message_id] = fate
        if self.owed_fate is not None:
            require((message_id, self.owed_fate[1]) == (self.owed_fate[0], getattr(fate, "step", -1)), "D8", str(fate))
            require(getattr(fate, "turn", 0) == self.turn, "D8", "{} is admitted to {}", message_id, fate)
            self.owed_fate = None
            return
        require(isinstance(fate, fx.Rejected), "N2", "{} is admitted and not recorded", message_id)
        reason = getattr(fate, "reason", "")
        if reason == "discarded":
            require(message_id in self.dropped, "I5", "{} is discarded and was not removed", message_id)
        elif message_id in self.claimed:
            self.claimed.remove(message_id)
            require(reason == self._claim_fate(), "D8", "{} ended as {}", message_id, reason)
        else:
            require(
                message_id in self.accepted and reason == "aborted", "I5", "{} met {} from nowhere", message_id, fate
            )
            require(not self.before.keep, "C6", "{} was to be kept", message_id)
            self.accepted.remove(message_id)

    def _claim_fate(self) -> str:
        if self.cause is not None:
            require(not self.before.keep, "C6", "a claimed message was to be kept")
            return "aborted"
        match self.given:
            case i.Entered():
                return "left-out"
            case i.Refused():
                return "blocked"
            case _:
                return "failed"

    def told_status(self, notice: fx.StatusChanged) -> None:
        """Status alternates (L5)."""
        running = notice.status == "running"
        require(running is not self.running, "L5", "status {} repeats", notice.status)
        require(not self.turn_open, "L5", "status {} is told inside a turn", notice.status)
        self.running = running

    def told_parked(self, notice: fx.Parked) -> None:
        """What was left behind is told (L3)."""
        self.parked = tuple([message.id for message in notice.messages])

    def told_error(self, notice: fx.ErrorReported) -> None:
        """A failure is told between the step's and the turn's end (T9)."""
        self.errors += 1
        if self.cause is None and type(self.given) is not i.CallSettled:
            require(not self.step_open and self.turn_open, "T9", "a failure is told before the step's end")
        require(notice.turn == self.turn, "T9", "a failure of turn {} is told in turn {}", notice.turn, self.turn)

    def told_cancel(self, notice: fx.CancelRequested) -> None:
        """A cancel is told once, by the call that made it, before anything else (C2, C3)."""
        require(self.aborted and not self.requested, "C2", "a cancel is told and was none")
        require(notice.cause == self.cause, "C2", "told {}, cancelled by {}", notice.cause, self.cause)
        self.requested = True

    def abort(self, effect: fx.Abort) -> None:
        """The signal is set once per activity, before anything is told (C2, C3)."""
        require(self.before.cause is None and not self.aborted, "C2", "an activity is cancelled twice")
        require(isinstance(self.given, (i.Cancel, i.Dispose)), "C11", "{} cancels", self.given)
        require(not self.told, "C3", "something is told before the signal is set")
        self.aborted = True
        self.cause = effect.cause

    def begin(self, effect: fx.Begin) -> None:
        """At most one operation is begun; none under a cancel but the calls of a whole answer (L7, C9, C4)."""
        operation = effect.operation
        self._owe(operation)
        if self.cause is not None:
            whole = isinstance(operation, fx.RunTools) and isinstance(self.given, i.Answered)
            require(whole, "C9", "{} begins after the cancel", type(operation).__name__)

    def proceed(self, _: fx.Proceed) -> None:
        """The next commit of the same step follows once this one is told (H4)."""
        self._owe(fx.PROCEED)
        self.last = True

    def _owe(self, operation: Any) -> None:
        require(not self.begun, "L7", "{} begins beside {}", operation, self.begun)
        self.begun.append(operation)

    def read_again(self, _: fx.Reread) -> None:
        """Latch and inbox are read again once this commit is told (H4)."""
        self.last = self.reread = True

    def finish(self, _: fx.Finish) -> None:
        """The agent can be unwound, once (O4)."""
        require(not self.finished and not self.turn_open and not self.running, "O4", "the agent ends in the middle")
        self.finished = True


def _presses(given: Any, cause: why.Cause | None, removed: dict[str, bool]) -> bool:
    """Whether what an input puts into a list came by a waking delivery, or presses (I3, C7)."""
    match given:
        case i.Deliver():
            return given.wakeup
        case i.ReplaceMessage():
            return next(iter(removed.values()), False)
        case i.SteerMessage():
            return True
        case i.CallSettled():
            return cause is None
        case _:
            return False


_TAKERS: dict[Any, Callable[[Fold, Any], None]] = {
    ev.TurnStart: Fold.turn_start,
    ev.TurnEnd: Fold.turn_end,
    ev.StepStart: Fold.step_start,
    ev.StepEnd: Fold.step_end,
    ev.UserMessageAdded: Fold.user_message,
    ev.SystemMessageAdded: Fold.request_mark,
    ev.RequestHeader: Fold.request_mark,
    ev.RequestContext: Fold.request_mark,
    ev.AssistantMessageAdded: Fold.assistant,
    ev.AssistantAttempt: Fold.assistant,
    ev.ToolCallStarted: Fold.tool_call,
    ev.ToolResultAdded: Fold.tool_result,
    ev.InboxSpliced: Fold.spliced,
    fx.Claimed: Fold.told_claimed,
    fx.Discarded: Fold.told_discarded,
    fx.Inserted: Fold.told_news,
    fx.Updated: Fold.told_news,
    fx.Parked: Fold.told_parked,
    fx.StatusChanged: Fold.told_status,
    fx.ErrorReported: Fold.told_error,
    fx.CancelRequested: Fold.told_cancel,
    fx.Abort: Fold.abort,
    fx.Settle: Fold.settle,
    fx.Begin: Fold.begin,
    fx.Proceed: Fold.proceed,
    fx.Reread: Fold.read_again,
    fx.Finish: Fold.finish,
}
