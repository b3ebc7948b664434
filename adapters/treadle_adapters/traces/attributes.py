"""What is said of each kind of span, by the conventions; no content."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from treadle import Errored, SessionHeader
from treadle.models import TimedStream, Usage
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    EndReason,
    Interrupted,
    RequestHeader,
    ToolCallStarted,
)

from . import names
from .spans import Value

USAGE = (
    ("input_tokens", names.INPUT_TOKENS),
    ("output_tokens", names.OUTPUT_TOKENS),
    ("cache_read_tokens", names.CACHE_READ_TOKENS),
    ("cache_write_tokens", names.CACHE_WRITE_TOKENS),
    ("reasoning_tokens", names.REASONING_TOKENS),
)
"""What is counted, and what the conventions call it."""


def tag_of(member: object) -> str:
    """The word for a cause or a reason, as the log has it."""
    tag = msgspec.to_builtins(member).get("kind") if isinstance(member, msgspec.Struct) else None
    return tag if isinstance(tag, str) else getattr(member, "tag", None) or type(member).__name__


def provider(request: RequestHeader | None) -> dict[str, Value]:
    """Who is asked."""
    name = request.config.provider if request is not None else None
    return {names.PROVIDER: name} if name else {}


def invocation(header: SessionHeader, request: RequestHeader | None, turn: int) -> dict[str, Value]:
    """Of ``invoke_agent``."""
    out: dict[str, Value] = {names.OPERATION: "invoke_agent", names.TURN: turn, **provider(request)}
    if header.parent_session is not None:
        out[names.PARENT_SESSION] = header.parent_session
    return out


def chat_name(request: RequestHeader | None) -> str:
    """What an attempt's span is called."""
    model = request.config.model if request is not None else None
    return f"chat {model}" if model else "chat"


def chat(request: RequestHeader | None, attempt: int) -> dict[str, Value]:
    """Of an attempt, as far as it is known when it begins."""
    out: dict[str, Value] = {names.OPERATION: "chat", names.STREAM: True, names.ATTEMPT: attempt, **provider(request)}
    if request is not None:
        config = request.config
        if config.model:
            out[names.MODEL] = config.model
        if config.max_tokens is not None:
            out[names.MAX_TOKENS] = config.max_tokens
        if config.reasoning_effort is not None:
            out[names.REASONING_LEVEL] = config.reasoning_effort
    return out


def answer(data: AssistantMessageAdded | AssistantAttempt, begin: int, end: int, ahead: int) -> dict[str, Value]:
    """Of an attempt, once it is over: tokens, the time to the first chunk, why it ended.

    Args:
        data: what the log has of it.
        begin: of its span.
        end: of its span.
        ahead: milliseconds by which those are ahead of the log's times.
    """
    out: dict[str, Value] = {}
    usage = data.usage
    if usage is not None:
        for field, name in USAGE:
            count: int | None = getattr(usage, field)
            if count is not None:
                out[name] = count
    if data.finish is not None:
        kind = data.finish.kind
        out[names.FINISH_REASONS] = (names.FINISHES.get(kind, kind),)
    first = first_chunk(data.stream)
    if first is not None:
        out[names.TIME_TO_FIRST_CHUNK] = (max(begin, min(first + ahead, end)) - begin) / 1000
    return out


def usage_told(told: Mapping[str, Value]) -> Usage:
    """The tokens that the attributes of an attempt tell."""
    counts = {field: count for field, name in USAGE if isinstance(count := told.get(name), int)}
    return Usage(**counts)


def first_chunk(stream: TimedStream | None) -> int | None:
    """When the first chunk came, in milliseconds since the epoch; ``None`` if none did."""
    if stream is None or not stream.segments:
        return None
    times = stream.segments[0].times
    return times[0] if times else None


def call(data: ToolCallStarted, description: str | None) -> dict[str, Value]:
    """Of a tool call."""
    out: dict[str, Value] = {
        names.OPERATION: "execute_tool",
        names.TOOL_NAME: data.name,
        names.TOOL_CALL: data.call_id,
        names.TOOL_TYPE: "function",
    }
    if description:
        out[names.TOOL_DESCRIPTION] = description
    return out


def failure_of(data: AssistantMessageAdded | AssistantAttempt) -> str | None:
    """The code of what an attempt failed with; ``None`` if it did not, ``interrupted`` if a cancel cut it off."""
    if data.interrupted:
        return "interrupted"
    if isinstance(data, AssistantMessageAdded):
        return None
    failure = data.finish.failure if data.finish is not None else None
    return failure.code if failure is not None else "UNKNOWN"


def error_of(reason: EndReason) -> str | None:
    """The code of what a turn failed with, ``None`` if it did not: a cancel is no failure."""
    if isinstance(reason, Errored):
        return reason.failure.code
    return "interrupted" if isinstance(reason, Interrupted) else None
