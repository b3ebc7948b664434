"""A session's log told as a transcript: fed event by event, so that it can be told while the session runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import define, field

from treadle import AssistantMessage, Block, Event, Reasoning, Text, ToolCall
from treadle.extensions.budgets import BudgetNearlySpent
from treadle.extensions.usage import SubAgentUsage, UsageLedger
from treadle.models import BlockStart, Chunk, ReasoningDelta, TextDelta, TimedStream
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    EndSeed,
    InboxSpliced,
    PresetSelected,
    Replace,
    RequestContext,
    RequestHeader,
    RetryScheduled,
    RetryStarted,
    StepEnd,
    StepStart,
    SystemMessageAdded,
    ToolCallStarted,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
)

from .clock import SteadyClock, set_back_text
from .entries import (
    Answered,
    AnyEntry,
    Called,
    Dropped,
    Failed,
    Noted,
    Part,
    Prompted,
    Retried,
    Routed,
    Said,
    Settled,
    TurnClosed,
    TurnOpened,
)
from .letters import Letter, Mail
from .phrases import blocks_text, end_text, route_text, source_text, tag_of


def transcript(events: Iterable[Event]) -> list[AnyEntry]:
    """The transcript of a log, or of its beginning."""
    teller = Teller()
    return [entry for event in events for entry in teller.take(event)]


@define(eq=False)
class _Tally:
    """What is counted over one turn."""

    began: int | None = None
    steps: int = 0
    calls: int = 0


@define(eq=False)
class Teller:
    """Tells a log as a transcript. Nothing it gave is taken back by what follows.

    Attributes:
        mail: what became of the messages so far.
        used: what attempts used so far.
    """

    mail: Mail = field(factory=Mail)
    used: UsageLedger = field(factory=UsageLedger)
    _turn: int | None = None
    _step: int | None = None
    _sent: int | None = None
    """When the last request was sent: with the last event before the answer."""
    _clock: SteadyClock = field(factory=SteadyClock)
    _set_back: bool = False
    _tally: _Tally = field(factory=_Tally)
    _calls: dict[str, tuple[str, int | None]] = field(factory=dict[str, "tuple[str, int | None]"])

    def take(self, entry: Event) -> list[AnyEntry]:
        """Tell one event; most tell one entry or none."""
        self.used.take(entry)
        steady = self._clock.take(entry)
        back, entry = steady.time - entry.time, steady
        if back and not self._set_back:
            self._set_back = True
            note = Noted(seq=entry.seq, time=entry.time, turn=self._turn, type="clock", text=set_back_text(back))
            return [note, *self._take(entry)]
        return self._take(entry)

    def _take(self, entry: Event) -> list[AnyEntry]:
        fallen = self.mail.take(entry)
        told = self._tell(entry)
        if not isinstance(entry.data, (InboxSpliced, ToolCallStarted, ToolResultAdded)):
            self._sent = entry.time
        if not fallen:
            return told
        return [*[self._dropped(entry, letter) for letter in fallen], *told]

    def _dropped(self, entry: Event, letter: Letter) -> Dropped:
        turn = self._turn if self._turn is not None else letter.turn
        return Dropped(
            seq=entry.seq,
            time=entry.time,
            turn=turn,
            id=letter.id,
            text=letter.text,
            sender=letter.sender,
            fate=letter.fate,
        )

    def _tell(self, entry: Event) -> list[AnyEntry]:
        data = entry.data
        if isinstance(data, (TurnStart, TurnEnd, StepStart, StepEnd)):
            return self._bound(entry)
        if isinstance(data, (AssistantMessageAdded, AssistantAttempt, ToolCallStarted, ToolResultAdded)):
            return [self._work(entry)]
        if isinstance(data, (InboxSpliced, RequestContext, RetryStarted, SubAgentUsage)):
            return []
        return [self._word(entry)]

    def _at(self, entry: Event) -> dict[str, Any]:
        op = entry.surface_op
        place = {"seq": entry.seq, "time": entry.time, "turn": self._turn, "step": self._step}
        if isinstance(op, Replace):
            return {**place, "replaces": (op.first, op.last), "stands_for": entry.source_event_seqs}
        return place

    # --- turns and steps ----------------------------------------------------------------------------------------------

    def _bound(self, entry: Event) -> list[AnyEntry]:
        match entry.data:
            case TurnStart(turn=turn):
                self._turn, self._step, self._tally = turn, None, _Tally(entry.time)
                return [TurnOpened(**self._at(entry))]
            case TurnEnd() as data:
                self._turn, self._step = data.turn, None
                closed = self._closed(entry, data)
                self._turn, self._tally, self._calls = None, _Tally(), {}
                return [closed]
            case StepStart() as data:
                self._step = data.step
                self._tally.steps += 1
            case _:
                self._step = None
        return []

    def _closed(self, entry: Event, data: TurnEnd) -> TurnClosed:
        tally, used = self._tally, self.used
        return TurnClosed(
            **self._at(entry),
            ended=tag_of(data.reason),
            why=end_text(data.reason),
            took=None if tally.began is None else entry.time - tally.began,
            steps=tally.steps,
            calls=tally.calls,
            attempts=used.turn.attempts,
            usage=used.turn.usage,
            below=used.turn_below.usage if used.turn_below.attempts else None,
            by_model=used.whole_turn.reported,
        )

    # --- what model and tools do --------------------------------------------------------------------------------------

    def _work(self, entry: Event) -> AnyEntry:
        match entry.data:
            case AssistantMessageAdded() as data:
                return self._answered(entry, data)
            case AssistantAttempt() as data:
                return self._failed(entry, data)
            case ToolCallStarted() as data:
                self._calls[data.call_id] = data.name, entry.time
                self._tally.calls += 1
                return Called(**self._at(entry), call_id=data.call_id, name=data.name, arguments=data.arguments)
            case data:
                return self._settled(entry, data)

    def _answered(self, entry: Event, data: AssistantMessageAdded) -> Answered:
        for call in data.message.calls:
            self._calls[call.call_id] = call.name, None
        began = began_of(data.stream)
        return Answered(
            **self._at(entry),
            attempt_id=data.attempt_id,
            parts=parts_of(data.message),
            interrupted=data.interrupted,
            finish=data.finish.kind if data.finish is not None else "",
            usage=data.usage,
            took=None if self._sent is None else entry.time - self._sent,
            first=None if self._sent is None or began is None else max(0, min(began, entry.time) - self._sent),
        )

    def _failed(self, entry: Event, data: AssistantAttempt) -> Failed:
        failure = data.finish.failure if data.finish is not None else None
        return Failed(
            **self._at(entry),
            attempt_id=data.attempt_id,
            code=failure.code if failure is not None else "",
            why=failure.message if failure is not None else "",
            parts=streamed_parts(data.stream),
            interrupted=data.interrupted,
            usage=data.usage,
            took=None if self._sent is None else entry.time - self._sent,
        )

    def _settled(self, entry: Event, data: ToolResultAdded) -> Settled:
        name, called = self._calls.pop(data.call_id, ("", None))
        return Settled(
            **self._at(entry),
            call_id=data.call_id,
            name=name,
            text=blocks_text(data.content),
            is_error=data.is_error,
            code=data.code or "",
            concludes=data.concludes_turn and not data.is_error,
            took=None if called is None else entry.time - called,
        )

    # --- what is said -------------------------------------------------------------------------------------------------

    def _word(self, entry: Event) -> AnyEntry:
        at = self._at(entry)
        match entry.data:
            case UserMessageAdded(message=message):
                letter = self.mail.letter(message.id)
                return Said(
                    **at,
                    id=message.id,
                    text=blocks_text(message.content),
                    sender=source_text(message.source),
                    way="context" if letter is None else letter.way,
                    waited=None if letter is None else _waited(letter),
                )
            case SystemMessageAdded(message=message):
                return Prompted(**at, text=blocks_text(message.content))
            case RequestHeader() as data:
                route = route_text(data.config.provider, data.config.model)
                return Routed(**at, route=route, reason=data.reason, tools=tuple([tool.name for tool in data.tools]))
            case RetryScheduled() as data:
                failure = data.failure
                return Retried(**at, attempt=data.attempt, delay=data.delay, code=failure.code, why=failure.message)
            case _:
                return Noted(**at, type=entry.type, text=_note(entry))


def _waited(letter: Letter) -> int | None:
    return None if letter.claimed is None else letter.claimed.time - letter.accepted.time


def _note(entry: Event) -> str:
    match entry.data:
        case EndSeed() as data:
            parent = f" from session {data.parent}" if data.parent else ""
            return f"what lies before was inherited{parent}: {data.inherited} events"
        case PresetSelected() as data:
            return f"preset {data.preset}"
        case BudgetNearlySpent() as data:
            return f"the {data.account} has used {data.amount:,g} of {data.bound:,g} {data.limit.replace('_', ' ')}"
        case _:
            return ""


# --- answers ----------------------------------------------------------------------------------------------------------


def parts_of(message: AssistantMessage) -> tuple[Part, ...]:
    """The pieces of a recorded answer."""
    return tuple([_part(block) for block in message.content])


def _part(block: Block) -> Part:
    match block:
        case Text(text=text):
            return Part("text", text)
        case Reasoning(text=text):
            return Part("reasoning", text)
        case ToolCall() as call:
            return Part("call", call.arguments, call.call_id, call.name)
        case _:
            return Part("text", f"[{tag_of(block)}]")


def streamed_parts(stream: TimedStream | None) -> tuple[Part, ...]:
    """What had arrived of an attempt that gave no message; tool calls by their names only."""
    parts: list[Part] = []
    for _, chunk in stream.chunks() if stream is not None else ():
        part = _piece(chunk)
        if part is None:
            continue
        if parts and parts[-1].kind == part.kind != "call":
            part = Part(part.kind, parts.pop().text + part.text)
        parts.append(part)
    return tuple(parts)


def _piece(chunk: Chunk) -> Part | None:
    match chunk:
        case TextDelta(text=text):
            return Part("text", text)
        case ReasoningDelta(text=text):
            return Part("reasoning", text)
        case BlockStart(kind="tool-call", name=name, call_id=call_id):
            return Part("call", "", call_id or "", name or "")
        case _:
            return None


def began_of(stream: TimedStream | None) -> int | None:
    """When the first piece of an attempt arrived, in milliseconds since the epoch."""
    return next((segment.times[0] for segment in stream.segments if segment.times), None) if stream else None
