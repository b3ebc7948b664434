"""What is told of one agent, held to its log: order, completeness, frames, waits and warnings (H4, L5, Q6, Q9, C10)."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from treadle import Agent, Errored, Event, Failure, State
from treadle.hooks import FrameChunk, FrameEnd, FrameStart
from treadle.session import (
    Aborted,
    AssistantAttempt,
    AssistantMessageAdded,
    InboxSpliced,
    RequestContext,
    RequestHeader,
    RetryScheduled,
    RetryStarted,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
)

from ...exploration.violation import require
from .answers import POLICY
from .surroundings import Surroundings

SLACK = 1e-6


@define(eq=False)
class Frames:
    """The open attempt as frames tell it."""

    attempt: str
    chunks: int = 0


@define(eq=False)
class Witness:
    """Listens to one attached agent from its first moment on.

    Attributes:
        heard: the number of the next event that is due to be told.
        counts: notices by kind, and what the log says there should be.
        warned: times at which a warning about its convergence was logged.
        failed: how many attempts of the step have failed, whatever was done about it (H6).
    """

    world: Surroundings
    agent: Agent
    heard: int = 0
    turn: int = 0
    step: int = 0
    status: str = "idle"
    claimed: int = 0
    told_claimed: int = 0
    cancels: int = 0
    gone: int = 0
    created: int = 0
    started: int = 0
    retry: tuple[float, float] | None = None
    failed: int = 0
    calls: set[str] = field(factory=set[str])
    header: RequestHeader | None = None
    context: RequestContext | None = None
    headers: int = 0
    frames: Frames | None = None
    revision: int = 0
    ended: list[tuple[str, int]] = field(factory=list[tuple[str, int]])
    warned: list[float] = field(factory=list[float])
    flush_failed: int = 0
    errors: list[Any] = field(factory=list[Any])

    def begin(self) -> None:
        """What was there before it was attached is not told."""
        for entry in self.agent.session.events[: self.heard]:
            if isinstance(entry.data, RequestHeader):
                self.header = entry.data
            elif isinstance(entry.data, RequestContext):
                self.context = entry.data
        self.calls.update(self.agent.session.call_ids)

    def event(self, entry: Event) -> None:
        """An event is told: the next one, whoever acts in between (H4)."""
        require(
            entry.seq == self.heard, "H4", "event {} of {} is told, and {} is due", entry.seq, self.agent.id, self.heard
        )
        require(not self.gone, "N4", "event {} of {} is told after its end", entry.seq, self.agent.id)
        self.heard += 1
        data = entry.data
        match data:
            case TurnStart():
                self.turn, self.step = data.turn, 0
                self.world.actor_of(self.agent).latched = False
            case StepStart():
                self.step, self.failed = data.step, 0
            case StepEnd() | TurnEnd():
                self.retry, self.world.actor_of(self.agent).given = None, None
            case AssistantMessageAdded() | AssistantAttempt():
                self._attempted(data)
            case InboxSpliced():
                if data.removed_count and data.outcome is None and not data.inserted:
                    self.claimed += data.removed_count
            case RetryScheduled() | RetryStarted():
                self._scheduled(data) if isinstance(data, RetryScheduled) else self._retried()
            case RequestHeader():
                self._header(data)
            case RequestContext():
                require(data != self.context, "Q2", "a context is recorded again: {}", data)
                self.context = data
            case _:
                pass
        if isinstance(data, TurnEnd) and isinstance(data.reason, Errored):
            self._given_up(data.reason.failure)
        if isinstance(data, TurnEnd) and isinstance(data.reason, Aborted):
            self.world.actor_of(self.agent).aborted(data.turn, data.reason.reason)
        self.world.crew.told(self.agent, entry, self.turn, self.step)

    def _scheduled(self, data: RetryScheduled) -> None:
        """The wait is the policy's, and what the provider asks for where that is longer (Q6)."""
        asked, retries = data.failure.retry_after or 0.0, self.failed - 1
        require(data.attempt == retries + 2, "Q6", "attempt {} is announced after {} retries", data.attempt, retries)
        require(retries < POLICY.max_retries, "Q6", "retry {} of {}", retries + 1, POLICY.max_retries)
        require(asked <= POLICY.max_delay, "Q6", "a retry is waited for {} s", asked)
        require(data.failure.code in POLICY.codes, "Q6", "{} is retried", data.failure.code)
        due = max(min(POLICY.base_delay * 2.0**retries, POLICY.max_delay), asked)
        require(
            abs(data.delay - due) <= SLACK, "Q6", "retry {} waits {} s, and {} are due", retries + 1, data.delay, due
        )
        self.retry = (self.world.bench.now, data.delay)

    def _given_up(self, failure: Failure) -> None:
        """A turn fails with what may be retried only once that was retried as often as the policy says (Q6)."""
        if failure.code in POLICY.codes and (failure.retry_after or 0.0) <= POLICY.max_delay:
            retries = self.failed - 1
            require(retries == POLICY.max_retries, "Q6", "given up after {} retries: {}", retries, failure)

    def _retried(self) -> None:
        require(self.retry is not None, "Q6", "a retry starts that was not scheduled")
        assert self.retry is not None
        scheduled, delay = self.retry
        waited = self.world.bench.now - scheduled
        require(abs(waited - delay) <= SLACK, "Q6", "a wait of {} s took {} s", delay, waited)
        self.retry = None

    def _attempted(self, data: AssistantMessageAdded | AssistantAttempt) -> None:
        """Nothing is kept that came after a cancel; each call has an id of its own (C5, K3)."""
        given, stream = self.world.actor_of(self.agent).given, data.stream
        self.failed += isinstance(data, AssistantAttempt)
        if given is not None and stream is not None and self.agent.state is State.CANCEL_CONVERGENCE:
            kept = len(list(stream.chunks()))
            require(kept <= given, "C5", "{} chunks are kept of {} that came before the cancel", kept, given)
        for call in data.message.calls if isinstance(data, AssistantMessageAdded) else ():
            require(call.call_id not in self.calls, "K3", "the call id {} comes again", call.call_id)
            self.calls.add(call.call_id)

    def _header(self, data: RequestHeader) -> None:
        self.headers += 1
        same = self.header is not None and self.header.config == data.config and self.header.tools == data.tools
        if data.reason == "initial":
            require(self.header is None, "Q2", "a second initial header")
        elif data.reason == "resume":
            require(self.headers == 1 and self.header is not None, "Q2", "a header says resume out of place")
        elif data.reason == "change":
            require(not same, "Q2", "a header says change, and nothing did")
        self.header = data

    # --- notices ------------------------------------------------------------------------------------------------------

    def notice_status(self, status: str) -> None:
        """Status alternates (L5)."""
        require(status != self.status, "L5", "status {} is told twice", status)
        require(not self.gone, "N4", "status {} is told after the end", status)
        self.status = status

    def frame(self, frame: Any) -> None:
        """One frame of a stream (Q9)."""
        require(not self.gone, "N4", "a frame is told after the end")
        match frame:
            case FrameStart():
                require(self.frames is None, "Q9", "an attempt starts inside another")
                require(
                    frame.revision == self.revision + 1, "Q9", "revision {} after {}", frame.revision, self.revision
                )
                require((frame.turn, frame.step) == (self.agent.engine.kernel.turn, self.agent.engine.kernel.step), "Q9",
                        "a frame names turn {} step {}", frame.turn, frame.step)  # fmt: skip
                self.revision = frame.revision
                self.frames = Frames(frame.attempt_id)
            case FrameChunk():
                now = self.frames
                require(now is not None and now.attempt == frame.attempt_id, "Q9", "a chunk of no attempt")
                assert now is not None
                require(frame.index == now.chunks, "Q9", "chunk {} where {} is due", frame.index, now.chunks)
                now.chunks += 1
            case FrameEnd():
                self._frame_end(frame)
            case _:
                pass

    def _frame_end(self, frame: FrameEnd) -> None:
        now, self.frames = self.frames, None
        require(now is not None and now.attempt == frame.attempt_id, "Q9", "an end of no attempt")
        assert now is not None
        if frame.committed is None:
            return
        tag, seq = frame.committed
        require(frame.index == now.chunks, "Q9", "an end of {} chunks after {}", frame.index, now.chunks)
        entry: Any = self.agent.session.events[seq]
        require(entry.type == tag, "Q9", "event {} is {}, and the end says {}", seq, entry.type, tag)
        require(self.heard > seq, "Q9", "the end of an attempt is told before event {}", seq)
        stream: Any = getattr(entry.data, "stream", None)
        held = len(list(stream.chunks())) if stream is not None else None
        require(held in (None, now.chunks), "Q9", "event {} holds {} chunks of {}", seq, held, now.chunks)

    # --- at rest ------------------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Nothing is owed to listeners any more."""
        session = self.agent.session
        if not self.gone:
            require(
                self.heard == len(session),
                "H4",
                "{} of {} events of {} were told",
                self.heard,
                len(session),
                session.id,
            )
            require(
                self.told_claimed == self.claimed, "I4", "{} claims are told of {}", self.told_claimed, self.claimed
            )
            require(self.status == self.agent.status, "L5", "{} is told, and it is {}", self.status, self.agent.status)
        require(self.created == 1, "O1", "created is told {} times", self.created)
        require(self.started <= 1, "O18", "session-start is told {} times", self.started)
