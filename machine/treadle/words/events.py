"""The event vocabulary of the session log (S1, S2, S7).

Every event is an envelope around typed data. Data classes are registered under their tag with ``event``; a plugin
registers its own without touching core. Names are snake_case here and camelCase on the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, final

import msgspec

from ..errors import InvalidData, MisuseError, SessionFormatUnsupported
from ..lossless import check_bytes, check_depth, check_json
from ..sums import ENCODER, decode_hook, to_builtins
from .call_config import CallConfig, ToolSchema
from .failures import Failure
from .messages import AssistantMessage, Block, SystemMessage, ToolBody, UserMessage
from .reasons import EndReason
from .stream import Finish, TimedStream, Usage

Target = Literal["next-turn", "next-step"]
"""The two pending lists of the inbox (§3)."""

# --- the registry of tags ---------------------------------------------------------------------------------------------


class EventType(msgspec.Struct, frozen=True):
    """What is known about one event type."""

    tag: str
    data: type
    surface: bool
    core: bool
    since: int


_BY_TAG: dict[str, EventType] = {}


class _Types(dict[type, EventType]):
    def __missing__(self, cls: type) -> EventType:
        raise MisuseError(f"{cls.__name__} is no registered event data; register it with @event(tag)")


BY_CLASS = _Types()
"""The registered type by the class of its data; raises ``MisuseError`` for a class without one."""
D = TypeVar("D", bound=type)


def event(tag: str, *, surface: bool = False, core: bool = False, since: int = 1) -> Callable[[D], D]:
    """Register a frozen msgspec struct as the data of events tagged ``tag`` (S2).

    Args:
        tag: the type on the wire, such as ``"my-plugin/thing"``.
        surface: whether events of this type enter the model-visible surface (S3).
        core: whether the type is part of the core vocabulary.
        since: the format version that introduced it.

    Raises:
        MisuseError: the tag is taken, or the class is no frozen struct.
    """

    def decorate(cls: D) -> D:
        config = getattr(cls, "__struct_config__", None)
        if config is None or not config.frozen:
            raise MisuseError(f"{cls.__name__} must be a frozen msgspec.Struct to be the data of {tag!r}")
        if tag in _BY_TAG:
            raise MisuseError(f"event type {tag!r} is registered already")
        known = EventType(tag, cls, surface, core, since)
        _BY_TAG[tag] = BY_CLASS[cls] = known
        _DECODERS[tag] = msgspec.json.Decoder(cls, dec_hook=decode_hook)
        return cls

    return decorate


_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {}


def known_types() -> tuple[EventType, ...]:
    """Every registered event type, core first, in the order of registration."""
    return tuple(sorted(_BY_TAG.values(), key=lambda known: not known.core))


def type_of(data: object) -> EventType:
    """The registered type of an event's data.

    Raises:
        MisuseError: the class was never registered with ``event``.
    """
    return BY_CLASS[type(data)]


def type_named(tag: str) -> EventType | None:
    """The registered type of a tag, ``None`` when it is unknown here."""
    return _BY_TAG.get(tag)


def detached(data: Any) -> Any:
    """A copy of event data that nobody else holds, exactly as reading the log gives it back (S1).

    Raises:
        MisuseError: the class was never registered with ``event``.
        InvalidData: it is not losslessly JSON, reading would refuse it, or it is more than can be recorded (X3).
    """
    known = type_of(data)
    try:
        check_json(to_builtins(data))
        encoded = ENCODER.encode(data)
        check_bytes(len(encoded), f"an event {known.tag!r}")
        return _DECODERS[known.tag].decode(encoded)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidData(str(error)) from error


# --- the envelope -----------------------------------------------------------------------------------------------------


class Append(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="append"):
    """The event adds a node at the end of the surface (S3)."""


class Replace(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag="replace"):
    """The event takes the place of the surface nodes from ``first`` to ``last``, both included, by seq (S3)."""

    first: int
    last: int


SurfaceOp = Append | Replace
APPEND = Append()


@final
class Event(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One immutable entry of the log (S1).

    Attributes:
        type: the tag.
        seq: position in the log, from 0.
        time: milliseconds since the epoch.
        data: the typed data; plain JSON for a type unknown here.
        surface_op: how it entered the surface; ``None`` for events that are not of the surface.
        source_event_seqs: earlier events it was made from or shadows.
        ignorable: whether a reader that does not know the type may skip it (S2).
    """

    type: str
    seq: int
    time: int
    data: Any
    surface_op: SurfaceOp | None = None
    source_event_seqs: tuple[int, ...] | None = None
    ignorable: bool = False


class _Envelope(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The envelope as decoded, its data still raw."""

    type: str
    seq: int
    time: int
    data: msgspec.Raw
    surface_op: SurfaceOp | None = None
    source_event_seqs: tuple[int, ...] | None = None
    ignorable: bool = False


_ENVELOPES = msgspec.json.Decoder(_Envelope)


def encode_event(entry: Event) -> bytes:
    """Encode one event as a line of strict UTF-8 JSON, without the line's end (S7, N6)."""
    return ENCODER.encode(entry)


def decode_event(line: bytes | bytearray | memoryview) -> Event:
    """Decode one stored event; data of a known type is built by its tag (S2).

    Raises:
        InvalidData: it is no JSON, no envelope, or its data does not fit its type.
        SessionFormatUnsupported: its type is unknown here and not marked ignorable (S2).
    """
    try:
        raw = _ENVELOPES.decode(line)
        decoder = _DECODERS.get(raw.type)
        if decoder is not None:
            data = decoder.decode(raw.data)
        elif raw.ignorable:
            data = msgspec.json.decode(raw.data)
            check_json(data)
            check_depth(data)
        else:
            raise SessionFormatUnsupported(
                f"event {raw.seq} has the type {raw.type!r}, which is unknown here and not ignorable (S2): "
                "load the plugin that registers it, or use a newer treadle"
            )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidData(f"no valid event: {error}") from error
    return Event(raw.type, raw.seq, raw.time, data, raw.surface_op, raw.source_event_seqs, raw.ignorable)


# --- core types -------------------------------------------------------------------------------------------------------


class _Data(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of the core data classes: immutable, camelCase on the wire, defaults left out."""


@event("turn/start", core=True)
class TurnStart(_Data, frozen=True, gc=False):
    """A turn opens. Numbers grow by one for the life of the session (L4)."""

    turn: int


@event("turn/end", core=True)
class TurnEnd(_Data, frozen=True, gc=False):
    """The open turn ends, with exactly one reason (N3)."""

    turn: int
    reason: EndReason


@event("step/start", core=True)
class StepStart(_Data, frozen=True, gc=False):
    """A step is entered.

    Attributes:
        accepted: ids of the entered batch, in order (T0).
        amended: the messages that hooks added or changed before entry, in full (T0).
    """

    turn: int
    step: int
    accepted: tuple[str, ...] = ()
    amended: tuple[UserMessage, ...] = ()


@event("step/end", core=True)
class StepEnd(_Data, frozen=True, gc=False):
    """The open step ends."""

    turn: int
    step: int


@event("user/message", surface=True, core=True)
class UserMessageAdded(_Data, frozen=True, gc=False):
    """A user message enters the history (N2)."""

    message: UserMessage


@event("system/message", surface=True, core=True)
class SystemMessageAdded(_Data, frozen=True, gc=False):
    """The system prompt, first or changed; empty content clears it (Q3)."""

    message: SystemMessage


@event("assistant/message", surface=True, core=True)
class AssistantMessageAdded(_Data, frozen=True, gc=False):
    """An answer, whole or interrupted (C5).

    Attributes:
        message: what enters the history, unless its content is empty (S4, T6).
        attempt_id: the provider call that gave it.
        finish: why the stream ended; absent when it was interrupted.
        usage: the tokens the provider reported; absent when it reported none (C5).
        interrupted: whether a cancel cut it off.
        stream: the exact timed stream (Q9).
    """

    message: AssistantMessage
    attempt_id: str
    finish: Finish | None = None
    usage: Usage | None = None
    interrupted: bool = False
    stream: TimedStream | None = None


@event("assistant/attempt", core=True)
class AssistantAttempt(_Data, frozen=True, gc=False):
    """A provider call that gave no message: it failed, or was cut off before anything visible came (C5, Q9)."""

    attempt_id: str
    finish: Finish | None = None
    usage: Usage | None = None
    interrupted: bool = False
    stream: TimedStream | None = None


@event("tool/call", core=True)
class ToolCallStarted(_Data, frozen=True, gc=False):
    """A tool call is dispatched, or settled without being run (K5)."""

    call_id: str
    name: str
    arguments: str = ""


@event("tool/result", surface=True, core=True)
class ToolResultAdded(_Data, frozen=True, gc=False):
    """The one result of a call (N1).

    Attributes:
        call_id: the call it answers.
        content: what the model reads.
        is_error: whether the call failed.
        code: the kind of failure.
        concludes_turn: whether the tool asks to end the turn here (T5).
        value: the structured value, for programs; the model does not see it.
        refused: whether the body was not run, because of what was asked for or by whom (K2, K3).
        body: what the body came to, where that is something else.
        contexts: how many messages were handed over beside it; they enter the inbox next (K11).
    """

    call_id: str
    content: tuple[Block, ...] = ()
    is_error: bool = False
    code: str | None = None
    concludes_turn: bool = False
    value: Any = None
    refused: bool = False
    body: ToolBody | None = None
    contexts: int = 0


@event("request/header", core=True)
class RequestHeader(_Data, frozen=True, gc=False):
    """Config and tools of the requests that follow (Q1, Q2)."""

    config: CallConfig
    tools: tuple[ToolSchema, ...]
    reason: Literal["initial", "resume", "change", "series"]


@event("request/context", core=True)
class RequestContext(_Data, frozen=True, gc=False):
    """The route the requests take, when it changed (Q2)."""

    provider: str
    model: str
    context_window: int | None = None
    system_prompt_mode: Literal["append", "replace"] = "append"


@event("session/end-seed", core=True)
class EndSeed(_Data, frozen=True, gc=False):
    """What lies before was inherited from ``parent`` (S5)."""

    inherited: int
    parent: str | None = None


@event("agent/inbox/spliced", core=True)
class InboxSpliced(_Data, frozen=True, gc=False):
    """One change of a pending list, normalized (I3)."""

    target: Target
    start: int
    removed_count: int = 0
    inserted: tuple[UserMessage, ...] = ()
    outcome: Literal["canceled"] | None = None


@event("llm/retry", core=True)
class RetryScheduled(_Data, frozen=True, gc=False):
    """A retry will start after ``delay`` seconds (Q6)."""

    turn: int
    step: int
    attempt: int
    delay: float
    failure: Failure


@event("llm/retry-started", core=True)
class RetryStarted(_Data, frozen=True, gc=False):
    """The scheduled retry starts (Q6)."""

    turn: int
    step: int
    attempt: int


@event("agent-preset/selected", core=True)
class PresetSelected(_Data, frozen=True, gc=False):
    """The session runs under this preset from here on (O9)."""

    preset: str
