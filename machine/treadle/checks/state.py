"""What the monitor of a log remembers, and how it notes a broken rule."""

from __future__ import annotations

from attrs import define, field, frozen

from ..words.events import RequestContext, RequestHeader
from ..words.messages import Message, ToolCall, UserMessage


@frozen
class Breach:
    """One broken rule in a log: its id, what is wrong, and the number of the event that shows it."""

    rule: str
    message: str
    seq: int

    def __str__(self) -> str:
        return f"event {self.seq}: [{self.rule}] {self.message}"


@define
class Turn:
    """The turn that is open, or the last one.

    Attributes:
        number: of the last turn that was opened.
        open: whether it is.
        truncated: an answer of it was cut off by the output limit (T6).
        cut: an answer or attempt of it was cut off by a cancel (C5).
        owes: results of its last step are owed to the model (T3).
        prompt: the next-turn entry that it has claimed (I5).
        due: claims that must follow at once: how many entries of which list (I5).
        claimed: the claimed messages that no step has decided about, by id.
        ids: every id that it has taken in (I1).
        kept: claimed messages that were recorded outside a step (C6, H10).
        unrecorded: messages that a step accepted and did not record (C6).
        doubtful: breaches that an interruption excuses (P4).
    """

    number: int = 0
    open: bool = False
    truncated: bool = False
    cut: bool = False
    owes: bool = False
    prompt: str | None = None
    due: list[tuple[str, int]] = field(factory=lambda: [])
    claimed: dict[str, UserMessage] = field(factory=lambda: {})
    ids: set[str] = field(factory=lambda: set())
    kept: list[str] = field(factory=lambda: [])
    unrecorded: list[str] = field(factory=lambda: [])
    doubtful: list[Breach] = field(factory=lambda: [])


@define
class Step:
    """The step that is open, or the last one of its turn.

    Attributes:
        number: of the last step of the turn, 0 before the first.
        open: whether it is.
        batch: how many messages it accepted.
        accepted: those of them that are not recorded yet, in order.
        marked: a request context was recorded since the last attempt (T1).
        attempts: attempts that gave no answer.
        answered: an answer was recorded.
        retry: the number of the scheduled attempt, and whether it was started (Q6).
        asked: calls without a result, in the model's order.
        called: the seqs of their ``tool/call`` events.
        calls: whether the answer asked for any.
        concluded: a result concludes the turn (T5).
        waiting: next-step entries that the next claim must take, once the step has ended (I5, D6).
    """

    number: int = 0
    open: bool = False
    batch: int = 0
    accepted: list[UserMessage] = field(factory=lambda: [])
    marked: bool = False
    attempts: int = 0
    answered: bool = False
    retry: tuple[int, bool] | None = None
    asked: list[ToolCall] = field(factory=lambda: [])
    called: dict[str, int] = field(factory=lambda: {})
    calls: bool = False
    concluded: bool = False
    waiting: int = 0


@define
class Moving:
    """An entry that left next-turn: claimed, or steered if the next event puts it into next-step (I9)."""

    message: UserMessage
    start: int
    seq: int


@define(eq=False)
class LogState:
    """Everything that the rules need to know of the events so far.

    ``not_resumed`` is a breach unless the session was resumed just there: a crash excuses what did not follow (P4).
    """

    seq: int = 0
    inherited: int = 0
    breaches: list[Breach] = field(factory=lambda: [])
    turn: Turn = field(factory=Turn)
    step: Step = field(factory=Step)
    lists: dict[str, list[UserMessage]] = field(factory=lambda: {"next-turn": [], "next-step": []})
    pending: set[str] = field(factory=lambda: set())
    moving: Moving | None = None
    not_resumed: Breach | None = None
    recorded: set[str] = field(factory=lambda: set())
    call_ids: set[str] = field(factory=lambda: set())
    attempt_ids: set[str] = field(factory=lambda: set())
    header: RequestHeader | None = None
    context: RequestContext | None = None
    nodes: list[tuple[int, Message | None]] = field(factory=lambda: [])
    history: list[Message] = field(factory=lambda: [])

    def note(self, rule: str, message: str, seq: int | None = None) -> None:
        """Note a broken rule, at the event that is being taken unless another is named."""
        self.breaches.append(Breach(rule, message, self.seq if seq is None else seq))

    def doubt(self, rule: str, message: str, seq: int | None = None) -> None:
        """Note what is broken unless the turn turns out to be interrupted: a crash excuses what did not follow (P4)."""
        self.turn.doubtful.append(Breach(rule, message, self.seq if seq is None else seq))

    def was_not_resumed(self) -> None:
        """The session goes on as it was: what only a resume excuses is a breach."""
        if self.not_resumed is not None:
            self.breaches.append(self.not_resumed)
            self.not_resumed = None
