"""An agent as the contract speaks of it (§1), and the acts that its rules name: record, tell, claim, end a step, a turn."""

from __future__ import annotations

from typing import Any, Self

from treadle import Failure, ToolCall, UserMessage
from treadle.agent import Target
from treadle.kernel import effects as fx
from treadle.words import events as ev
from treadle.words import reasons as why

TURN: Target = "next-turn"
STEP: Target = "next-step"

IDLE, ADMISSION, IN_STEP, STOPPING = "idle", "admission", "step", "turn_stopping"
CONVERGING, MAINTAINING, DISPOSING, GONE = "cancel_convergence", "maintenance", "disposal", "disposed"

OPEN = ""
"""A text that the contract leaves open."""

Entry = tuple[UserMessage, bool]
"""A pending message, and whether it came by a waking delivery; in next-step such an entry presses (§1)."""

Messages = tuple[UserMessage, ...]


class Agent:
    """One agent. Everything it holds is immutable, so that a copy shares all of it.

    Attributes:
        next_turn, next_step: what is pending.
        claimed: the batch for whose step admission is under way.
        accepted: the batch that the open step entered with and has not recorded.
        calls, modes: the calls of the answer, and how far each is (§11).
        endings: by call, the code of the result that stands for a body which came to none of its own (C4).
        here: ids that the open turn took (I1).
        recorded: ids in the session's history (I1).
        owed: the operation whose outcome is awaited.
        latched: a wake is kept for replay.
        keep: the cancel keeps what was claimed.
        truncated, owes, series, concluded: of the open turn: an answer was cut off (T6), the model is owed results (T3),
            a request series begins (Q12), a result asked that the turn end (T5).
        out: what the present input leads to.
    """

    def __init__(self, max_steps: int | None = None, pool: int = 10, *, held: bool = False) -> None:
        self.state = IDLE
        self.turn = self.step = self.attempt = 0
        self.next_turn: tuple[Entry, ...] = ()
        self.next_step: tuple[Entry, ...] = ()
        self.claimed: Messages = ()
        self.accepted: Messages = ()
        self.calls: tuple[ToolCall, ...] = ()
        self.modes: tuple[str, ...] = ()
        self.endings: tuple[tuple[int, str], ...] = ()
        self.here: frozenset[str] = frozenset()
        self.recorded: frozenset[str] = frozenset()
        self.owed: Any = None
        self.cause: why.Cause | None = None
        self.last_reason: why.EndReason | None = None
        self.turn_open = self.step_open = self.running = self.latched = self.reserved = False
        self.keep = self.truncated = self.owes = self.series = self.concluded = False
        self.held, self.max_steps, self.pool = held, max_steps, pool
        self.out: list[fx.Effect] = []

    def copy(self) -> Self:
        """An independent copy."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    # --- words (§1) ---------------------------------------------------------------------------------------------------

    @property
    def pressing(self) -> bool:
        """Whether something forces one more step."""
        for _, waking in self.next_step:
            if waking:
                return True
        return False

    @property
    def usable(self) -> bool:
        """Whether a wake would find work (D5)."""
        return bool(self.next_turn) or self.pressing

    @property
    def held_back(self) -> bool:
        """Whether the next claim waits: for the end of creation, or for a release (O0, D8)."""
        return self.held or self.reserved

    @property
    def truly_idle(self) -> bool:
        """Whether maintenance or a reservation may begin (M1, D8)."""
        return self.state == IDLE and not self.held_back and not (self.latched and self.usable)

    @property
    def accepts_next_step(self) -> bool:
        """Whether a next-step delivery would enter the open turn (D8)."""
        return self.state in (ADMISSION, IN_STEP, STOPPING)

    @property
    def leaving(self) -> bool:
        """Whether nothing is accepted any more (L9)."""
        return self.state in (DISPOSING, GONE)

    def inbox(self, target: Target) -> tuple[Entry, ...]:
        """One of the two lists."""
        return self.next_turn if target == TURN else self.next_step

    def pending(self) -> list[tuple[Target, int, UserMessage, bool]]:
        """Every pending message with its place, in the order of a claim."""
        return [
            (target, at, message, waking)
            for target in (STEP, TURN)
            for at, (message, waking) in enumerate(self.inbox(target))
        ]

    def taken(self, message_id: str) -> bool:
        """Whether an id is pending, of the open turn, or recorded (I1)."""
        return (
            message_id in self.here
            or message_id in self.recorded
            or any([message.id == message_id for message, _ in self.next_turn + self.next_step])
        )

    # --- telling ------------------------------------------------------------------------------------------------------

    def record(self, data: Any, replaces: int | None = None) -> None:
        """A fact goes into the log."""
        self.out.append(fx.Record(data, replaces))

    def tell(self, notice: fx.Notice) -> None:
        """Listeners are told."""
        self.out.append(fx.Publish(notice))

    def reject(self, message: UserMessage, reason: str) -> None:
        """A message ends without entering (D8)."""
        self.out.append(fx.Settle(message.id, fx.Rejected(reason)))

    def admit(self, messages: Messages, step: int | None) -> None:
        """Messages enter the history, in order (N2)."""
        for message in messages:
            self.record(ev.UserMessageAdded(message))
            self.out.append(fx.Settle(message.id, fx.Admitted(self.turn, step)))
            self.recorded |= {message.id}

    def begin(self, operation: fx.Operation) -> None:
        """Something is to be done, and its outcome is awaited (L7)."""
        self.owed = operation
        self.out.append(fx.Begin(operation))

    def report(self, failure: Failure, error: Any = None, step: int | None = None) -> None:
        """A failure is visible (N8)."""
        self.tell(fx.ErrorReported(self.turn, self.step if step is None else step, failure, error))

    def park(self) -> None:
        """What waits for another wake is told (L3)."""
        waiting = tuple([message for _, _, message, waking in self.pending() if waking])
        if waiting:
            self.tell(fx.Parked(waiting))

    # --- the inbox (§3) -----------------------------------------------------------------------------------------------

    def splice(
        self, target: Target, start: int, count: int, entries: tuple[Entry, ...] = (), gone: bool = False
    ) -> None:
        """One recorded change of a list; ``gone``: an id leaves the inbox by it, and not by a claim (I3)."""
        there = self.inbox(target)
        there = (*there[:start], *entries, *there[start + count :])
        if target == TURN:
            self.next_turn = there
        else:
            self.next_step = there
        inserted = tuple([message for message, _ in entries])
        self.record(ev.InboxSpliced(target, start, count, inserted, "canceled" if gone else None))

    def insert(self, target: Target, messages: Messages, waking: bool) -> None:
        """Messages arrive at the end of a list (I4)."""
        self.splice(target, len(self.inbox(target)), 0, tuple([(message, waking) for message in messages]))
        for message in messages:
            self.tell(fx.Inserted(message))

    def empty(self) -> Messages:
        """Drop all that is pending, next-step first; both records come before anything is told (I7, C3)."""
        gone = tuple([message for _, _, message, _ in self.pending()])
        for target in (STEP, TURN):
            if there := self.inbox(target):
                self.splice(target, 0, len(there), gone=True)
        self.latched = False  # nothing is left for it (D5)
        return gone

    def discard(self, gone: Messages) -> None:
        """Tell what was dropped (I4)."""
        for message in gone:
            self.reject(message, "discarded")
            self.tell(fx.Discarded(message))

    # --- turns and steps (§5) -----------------------------------------------------------------------------------------

    def open_turn(self) -> None:
        """The next turn opens, with all of next-step and then the first of next-turn (I5, L2)."""
        self.latched = False
        self._status(True)
        self.turn, self.turn_open = self.turn + 1, True
        self.record(ev.TurnStart(self.turn))
        self.claim(prompts=1)

    def claim(self, prompts: int = 0) -> None:
        """A batch is taken out of the inbox for the turn's next step, if it may have one (I5, T11)."""
        if self.max_steps is not None and self.step >= self.max_steps:
            self.fail(Failure(OPEN, "STEP_LIMIT"))
            return
        first = tuple([message for message, _ in self.next_turn[:prompts]])
        batch = self._take(STEP, tuple([message for message, _ in self.next_step])) + self._take(TURN, first)
        self.state, self.claimed = ADMISSION, batch
        self.begin(fx.Admit(self.turn, self.step + 1, batch, first[0] if first else None))

    def _take(self, target: Target, messages: Messages) -> Messages:
        if messages:
            self.splice(target, 0, len(messages))
        for message in messages:
            self.tell(fx.Claimed(message, self.turn))
            self.here |= {message.id}
        return messages

    def end_step(self) -> None:
        """An open step ends. What it entered with is recorded, unless a cancel drops it (T12, C6)."""
        if not self.step_open:
            return
        if self.cause is None or self.keep:
            self.admit(self.accepted, self.step)
        else:
            for message in self.accepted:
                self.reject(message, "aborted")
        self.accepted, self.calls, self.modes, self.endings = (), (), (), ()
        self.step_open = self.concluded = False
        self.record(ev.StepEnd(self.turn, self.step))

    def end_turn(self, reason: why.EndReason) -> None:
        """The turn ends, for one reason, and leaves nothing to the next (N3, T6)."""
        self.record(ev.TurnEnd(self.turn, reason))
        self.last_reason, self.step, self.claimed, self.here = reason, 0, (), frozenset()
        self.turn_open = self.truncated = self.owes = self.series = self.keep = False

    def close(self) -> None:
        """Nothing is owed and nothing presses: the turn is complete, and the next prompt's begins (T6, §2)."""
        self.end_turn(why.MAX_TOKENS if self.truncated else why.COMPLETED)
        if self.next_turn and not self.held_back:
            self.open_turn()
        else:
            self.latched = self.latched or bool(self.next_turn)
            self.come_to_rest()

    def fail(self, failure: Failure, error: Any = None, step: int | None = None) -> None:
        """The turn ends with a failure; the rest of the inbox stays parked (T9, L3)."""
        self.end_step()
        self.report(failure, error, step)
        for message in self.claimed:
            self.reject(message, "failed")
        self.end_turn(why.Errored(failure))
        self.come_to_rest()
        self.park()

    def come_to_rest(self) -> None:
        """Nothing is active (L5, L7)."""
        self.state, self.owed = IDLE, None
        self._status(False)

    def _status(self, running: bool) -> None:
        if running is not self.running:
            self.running = running
            self.tell(fx.StatusChanged("running" if running else "idle"))
