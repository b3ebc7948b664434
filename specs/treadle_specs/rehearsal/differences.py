"""What differs, in words: the event, who decided it, and the request that the model would get now."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any

from attrs import evolve, frozen

from treadle import (
    AssistantMessage,
    Blocked,
    Event,
    Message,
    ModelRequest,
    Reasoning,
    Session,
    SystemMessage,
    Text,
    ToolCall,
    ToolResultMessage,
)
from treadle.models import ToolSchema
from treadle.session import (
    AssistantAttempt,
    AssistantMessageAdded,
    InboxSpliced,
    RequestContext,
    RequestHeader,
    RetryScheduled,
    RetryStarted,
    StepStart,
    SystemMessageAdded,
    ToolCallStarted,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
    to_builtins,
)

from .recording import Recording

_NOT_COMPARED = ("stream", "attemptId", "refused", "body", "contexts")


@frozen
class Difference:
    """The first difference of a session.

    Attributes:
        session: the id of the session it was found in: the rehearsed one, or a sub-agent's.
        seq: the number of the recorded event; of one that is new, the number it has now.
        kind: ``request`` when what the model is sent changes, ``hook`` when something was decided otherwise, ``event``
            otherwise.
        message: one sentence.
        diff: lines of a diff of the event, ``-`` for what was recorded.
        request: lines of a diff of the first request that differs, empty when none does.
    """

    session: str
    seq: int
    kind: str
    message: str
    diff: tuple[str, ...] = ()
    request: tuple[str, ...] = ()

    def with_request(self, lines: Sequence[str]) -> Difference:
        """This difference, and what becomes of the request."""
        return evolve(self, request=tuple(lines))

    def __str__(self) -> str:
        lines = [f"event {self.seq}: {self.message}"]
        lines += [f"  {line}" for line in self.diff]
        if self.request:
            lines += ["the first request that differs:", *[f"  {line}" for line in self.request]]
        return "\n".join(lines)


# --- events -------------------------------------------------------------------------------------------------------------


def differs(recorded: Event, live: Event, recording: Recording) -> Difference:
    """Another event than was recorded, or the same with other content."""
    kind, message = _told(recorded, live)
    return Difference(recording.header.id, recorded.seq, kind, message, _diff(_shown(recorded), _shown(live)))


def more(live: Event, recording: Recording) -> Difference:
    """An event where the recorded session was over."""
    message = f"the agent goes on with {live.type}, where the recorded session was over"
    return Difference(recording.header.id, live.seq, "event", message, _diff([], _shown(live)))


def missing(recorded: Event, recording: Recording) -> Difference:
    """An event that does not come."""
    kind = "hook" if type(recorded.data) in (RetryScheduled, InboxSpliced, TurnStart) else "event"
    message = f"{recorded.type} does not come any more: the agent waits, or has come to rest{_cause(recorded)}"
    return Difference(recording.header.id, recorded.seq, kind, message, _diff(_shown(recorded), []))


def runs_now(recorded: Event, name: str, recording: Recording) -> Difference:
    """A call that was refused, and is not any more."""
    message = (
        f"a hook or guard decided otherwise: the call of {name!r} was refused ({recorded.data.code}), and runs now"
    )
    return Difference(recording.header.id, recorded.seq, "hook", message, _diff(_shown(recorded), []))


def _cause(recorded: Event) -> str:
    match recorded.data:
        case RetryScheduled():
            return "; the failure is not retried"
        case ToolResultAdded(code="TOOL_TIMEOUT"):
            return "; the tool has no such timeout"
        case _:
            return ""


def _told(recorded: Event, live: Event) -> tuple[str, str]:
    """Of which kind a difference is, and a sentence about it."""
    was, now = recorded.data, live.data
    if type(was) is type(now):
        return _changed(was, now)
    if type(now) is SystemMessageAdded:
        return "request", "the system prompt changed"
    if type(was) is SystemMessageAdded:
        return "request", "the system prompt did not change here any more"
    if type(now) is RequestHeader:
        return "request", "the configuration or the tools of the request changed"
    if type(was) is RequestHeader:
        return "request", "the configuration and the tools of the request did not change here any more"
    if RetryScheduled in (type(was), type(now)):
        does = "is retried now" if type(now) is RetryScheduled else "is not retried any more"
        return "hook", f"the retry policy or a hook decided otherwise: the failed attempt {does}"
    if type(was) is StepStart:
        return "hook", f"a hook decided otherwise: the step was entered, and now {_instead(now)}"
    if type(now) is StepStart:
        return "hook", f"a hook decided otherwise: the step is entered now; when recorded, {_instead(was)}"
    if type(now) is TurnEnd and not isinstance(now.reason, Blocked):
        return "event", f"the turn ends where {recorded.type} was recorded: {_reason(now)}"
    if type(was) is InboxSpliced:
        return "hook", f"a message or a change of the inbox does not come here any more; {live.type} comes instead"
    return "event", f"{live.type} comes where {recorded.type} was recorded"


def _instead(data: object) -> str:
    match data:
        case TurnEnd(reason=Blocked(detail=detail)):
            return f"the turn was blocked{f' ({detail})' if detail else ''}"
        case TurnEnd(reason=reason):
            return f"the turn ended: {type(reason).__name__.lower()}"
        case _:
            return f"{type(data).__name__} came"


def _changed(was: Any, now: Any) -> tuple[str, str]:
    match was:
        case SystemMessageAdded():
            return "request", "the system prompt changed"
        case RequestHeader():
            return "request", _header(was, now)
        case RequestContext():
            return "request", "the route of the requests changed"
        case StepStart() | UserMessageAdded():
            return "request", "other messages enter the step: contexts, or what hooks add, change or leave out"
        case RetryScheduled():
            waited = f"it waits {now.delay:.3g} s now, and waited {was.delay:.3g} s"
            return "hook", f"the retry policy or a hook decided otherwise: {waited}"
        case RetryStarted():
            return "event", "another attempt is started"
        case ToolResultAdded():
            who = "a hook or guard decided otherwise: " if was.refused or now.refused else ""
            return ("hook" if who else "event"), f"{who}the result of a tool call changed"
        case ToolCallStarted():
            return "event", f"{now.name!r} is called where {was.name!r} was"
        case AssistantMessageAdded() | AssistantAttempt():
            return "event", "what is kept of the model's answer changed"
        case InboxSpliced():
            return "hook", "another message enters the inbox, or is claimed"
        case TurnEnd():
            return "event", f"the turn ends otherwise: {_reason(now)}; when recorded, {_reason(was)}"
        case _:
            return "event", "the event changed"


def _reason(data: TurnEnd) -> str:
    return json.dumps(to_builtins(data.reason), ensure_ascii=False)


def _header(was: RequestHeader, now: RequestHeader) -> str:
    before = {one.name: one for one in was.tools}
    after = {one.name: one for one in now.tools}
    told: list[str] = []
    told += [f"the tool {name!r} is no longer there" for name in before if name not in after]
    told += [f"the tool {name!r} is new" for name in after if name not in before]
    told += [f"the tool {name!r} is told otherwise" for name in before if name in after and before[name] != after[name]]
    if was.config != now.config:
        told.append("the configuration of the call changed: options, or an agent/request hook")
    if not told and was.tools != now.tools:
        told.append("the order of the tools changed")
    return "; ".join(told) or "the request is told anew for another reason"


def _shown(entry: Event) -> list[str]:
    """An event as lines."""
    data: Any = to_builtins(entry.data)
    if isinstance(data, dict):
        data = {key: value for key, value in data.items() if key not in _NOT_COMPARED}  # pyright: ignore[reportUnknownVariableType]
    return [entry.type, *json.dumps(data, indent=1, ensure_ascii=False).splitlines()]


def _diff(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    lines = list(difflib.unified_diff(before, after, "recorded", "now", lineterm="", n=2))
    return tuple([line for line in lines[2:] if not line.startswith("@@")])


# --- requests -----------------------------------------------------------------------------------------------------------


@frozen
class Request:
    """What a model is sent, as lines."""

    lines: tuple[str, ...]

    @classmethod
    def of(cls, config: Any, tools: Sequence[ToolSchema], messages: Sequence[Message]) -> Request:
        """The lines of a request: configuration, tools, messages."""
        lines = [f"config: {json.dumps(to_builtins(config), ensure_ascii=False)}"]
        for one in tools:
            lines += [
                f"tool {one.name}: {one.description}",
                *_indented(json.dumps(to_builtins(one.parameters), indent=1)),
            ]
        for each in messages:
            lines += _message(each)
        return cls(tuple(lines))

    @classmethod
    def of_live(cls, request: ModelRequest) -> Request:
        """A request that is made now."""
        return cls.of(request.config, request.tools, list(request.messages))


def recorded_request(recording: Recording, seq: int | None) -> Request | None:
    """The request whose attempt is the recorded event ``seq``; ``None`` when there is none."""
    if seq is None:
        return None
    before = recording.events[:seq]
    header = next((one.data for one in reversed(before) if type(one.data) is RequestHeader), None)
    if header is None:
        return None
    return Request.of(header.config, header.tools, list(Session(recording.header, before).history()))


def request_diff(recorded: Request | None, live: Request) -> tuple[str, ...]:
    """The lines in which two requests differ; empty when they are the same."""
    return _diff(recorded.lines if recorded is not None else (), live.lines)


def _message(given: Message) -> list[str]:
    match given:
        case SystemMessage():
            return ["system:", *_indented(given.text)]
        case AssistantMessage():
            return ["assistant:", *[line for block in given.content for line in _block(block)]]
        case ToolResultMessage():
            head = "tool result" + (f" ({given.result.code})" if given.result.code else "") + ":"
            return [head, *[line for block in given.result.content for line in _block(block)]]
        case _:
            source = getattr(given.source, "name", None)
            return [
                f"user{f' ({source})' if source else ''}:",
                *[line for block in given.content for line in _block(block)],
            ]


def _block(block: Any) -> list[str]:
    match block:
        case Text():
            return _indented(block.text)
        case Reasoning():
            return [f"  (reasoning) {line}" for line in block.text.splitlines() or [""]]
        case ToolCall():
            return [f"  calls {block.name} {block.arguments}"]
        case _:
            return _indented(json.dumps(to_builtins(block), ensure_ascii=False))


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines() or [""]]
