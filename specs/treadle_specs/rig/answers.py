"""What a tester may answer at each kind of gate."""

from __future__ import annotations

from typing import Any, cast

from attrs import frozen

from treadle import UserMessage

from .protocol import Json, given, listed, mapped, message_of, messages_of, objects, one_of, refuse

ENDS = ("stop", "tool-calls", "max-tokens")


@frozen
class Raise:
    """Whoever waits at the gate raises."""

    message: str


@frozen
class StreamEnd:
    """How a stream ends: by a finish of some kind, by a failure, or by raising."""

    finish: str | None = None
    failure: tuple[str, str] | None = None
    raises: str | None = None


@frozen
class Play:
    """Model: stream these chunks; without an end the stream stays open."""

    chunks: tuple[Json, ...]
    end: StreamEnd | None


@frozen
class Settle:
    """Tool: the body is over."""

    text: str = ""
    error: bool = False
    concludes: bool = False
    contexts: tuple[UserMessage, ...] = ()


@frozen
class Admit:
    """Pre-step: enter with these messages, with what was claimed (``None``), or not at all."""

    enter: bool = True
    messages: tuple[UserMessage, ...] | None = None


def parse_answer(kind: str, request: Json) -> Any:
    """Read the answer out of a ``pass``."""
    if "raise" in request and kind != "model":
        return Raise(given(request, "raise", str))
    match kind:
        case "model":
            return _play(request)
        case "tool" | "stubborn-tool":
            contexts = messages_of(request, "contexts")
            return Settle(
                given(request, "text", str, ""),
                given(request, "error", bool, False),
                given(request, "concludes", bool, False),
                contexts,
            )
        case "pre-step":
            return _admit(request.get("decide", "default"))
        case "prompt-submit":
            return one_of(request, "decide", ("allow", "block"), "allow") == "allow"
        case "turn-stopping":
            steer = request.get("steer")
            return message_of(steer) if steer is not None else None
        case "request-error":
            action = request.get("action")
            if action not in (None, "retry"):
                refuse("invalid", f"'action' must be 'retry' or null, not {action!r}")
            return action == "retry"
        case "maintenance":
            return request.get("result")
        case _:
            return None


def _admit(decide: object) -> Admit:
    if decide == "default":
        return Admit()
    if decide == "reject":
        return Admit(enter=False)
    if type(decide) is dict and "enter" in decide:
        return Admit(messages=messages_of(cast("Json", decide), "enter"))
    return refuse("invalid", f"'decide' must be default, reject or {{enter: [messages]}}, not {decide!r}")


def _play(request: Json) -> Play:
    return Play(tuple([_chunk(chunk) for chunk in objects(request, "chunks")]), _end(request.get("end")))


def _chunk(chunk: Json) -> Json:
    kinds = [kind for kind in ("text", "reasoning", "call", "half_call", "usage") if kind in chunk]
    if len(kinds) != 1:
        refuse("invalid", f"a chunk is text, reasoning, call, half_call or usage, not {chunk!r}")
    kind = kinds[0]
    if kind in ("text", "reasoning"):
        given(chunk, kind, str)
    elif kind == "usage":
        usage = listed(chunk, "usage")
        if [type(count) for count in usage] != [int, int]:
            refuse("invalid", f"usage is two whole numbers, not {usage!r}")
    else:
        call = mapped(chunk, kind)
        for key in ("id", "name", "arguments"):
            given(call, key, str, "")
    return chunk


def _end(end: object) -> StreamEnd | None:
    if end is None:
        return None
    if end in ENDS:
        return StreamEnd(finish=cast("str", end))
    if type(end) is dict:
        fields = cast("Json", end)
        if "raise" in fields:
            return StreamEnd(raises=given(fields, "raise", str))
        if "error" in fields:
            failure = mapped(fields, "error")
            return StreamEnd(failure=(given(failure, "code", str, "UNKNOWN"), given(failure, "message", str, "")))
    return refuse("invalid", f"'end' must be null, one of {', '.join(ENDS)}, an error or a raise, not {end!r}")
