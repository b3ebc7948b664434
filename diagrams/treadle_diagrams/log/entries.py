"""What a transcript is made of: one class per kind of thing that is shown, each with its place in the log."""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import asdict, frozen

from treadle.models import Usage

from .letters import Way
from .usage import usage_fields


@frozen(kw_only=True)
class Entry:
    """One thing that is shown.

    Attributes:
        seq: the event that tells it.
        time: of that event, in milliseconds since the epoch.
        turn: the turn it belongs to; ``None`` between turns.
        step: the step it belongs to; ``None`` outside of steps.
        replaces: the events whose place it took in the history (S3), first and last.
        stands_for: all of them, in the order of the history.
    """

    kind: ClassVar[str] = "entry"
    seq: int
    time: int
    turn: int | None = None
    step: int | None = None
    replaces: tuple[int, int] | None = None
    stands_for: tuple[int, ...] | None = None


@frozen(kw_only=True)
class TurnOpened(Entry):
    """A turn began."""

    kind = "turn"


@frozen(kw_only=True)
class TurnClosed(Entry):
    """A turn ended.

    Attributes:
        ended: the tag of the reason: ``completed``, ``aborted``, ….
        why: the reason in words.
        took: milliseconds; ``None`` when its beginning is not in the log.
        steps: how many steps it had.
        calls: how many tool calls were recorded.
        attempts: how many requests were sent, failed and interrupted ones included.
        usage: the tokens of all of them; what no provider reported is absent.
        below: those of sub-agents during the turn.
        by_model: both together, by model.
    """

    kind = "turn-end"
    ended: str
    why: str
    took: int | None
    steps: int
    calls: int
    attempts: int
    usage: Usage
    below: Usage | None
    by_model: dict[str, Usage]


@frozen(kw_only=True)
class Said(Entry):
    """A user message entered the history.

    Attributes:
        id: its identity.
        text: what it says.
        sender: whose it is: ``you``, ``tool …``, ``hook …``, ``agent …``.
        way: how it came.
        waited: milliseconds in the inbox; ``None`` when it never lay there.
    """

    kind = "message"
    id: str
    text: str
    sender: str
    way: Way
    waited: int | None = None


@frozen(kw_only=True)
class Prompted(Entry):
    """The system prompt was set or changed; empty text clears it."""

    kind = "system"
    text: str


@frozen(kw_only=True)
class Routed(Entry):
    """The configuration of the requests that follow.

    Attributes:
        route: provider and model.
        reason: why it was written: ``initial``, ``resume``, ``change`` or ``series`` (Q2).
        tools: the names of the tools that the model may call.
    """

    kind = "request"
    route: str
    reason: str
    tools: tuple[str, ...]


@frozen
class Part:
    """A piece of an answer: ``reasoning``, ``text``, or a ``call`` that the model asks for."""

    kind: str
    text: str
    call_id: str = ""
    name: str = ""


@frozen(kw_only=True)
class Answered(Entry):
    """The model answered.

    Attributes:
        attempt_id: the provider call that gave it.
        parts: in order.
        interrupted: whether a stop cut it off (C5).
        finish: why the stream ended; empty when it was cut off.
        usage: what the provider reported.
        took: milliseconds since the request was sent.
        first: milliseconds until the first piece arrived.
    """

    kind = "answer"
    attempt_id: str
    parts: tuple[Part, ...]
    interrupted: bool
    finish: str
    usage: Usage | None
    took: int | None
    first: int | None


@frozen(kw_only=True)
class Failed(Entry):
    """A provider call gave no message.

    Attributes:
        attempt_id: which call.
        code: the failure's code, empty when a stop cut it off.
        why: what happened, in words.
        parts: what had arrived and was not kept in the history.
        interrupted: whether a stop cut it off.
        usage: what the provider reported.
        took: milliseconds since the request was sent.
    """

    kind = "attempt"
    attempt_id: str
    code: str
    why: str
    parts: tuple[Part, ...]
    interrupted: bool
    usage: Usage | None
    took: int | None


@frozen(kw_only=True)
class Retried(Entry):
    """Another attempt, of number ``attempt``, will be made after ``delay`` seconds."""

    kind = "retry"
    attempt: int
    delay: float
    code: str
    why: str


@frozen(kw_only=True)
class Called(Entry):
    """A tool call was dispatched, or is about to be settled without being run."""

    kind = "call"
    call_id: str
    name: str
    arguments: str


@frozen(kw_only=True)
class Settled(Entry):
    """A tool call got its result.

    Attributes:
        call_id: the call it answers.
        name: the tool's.
        text: what the model reads.
        is_error: whether the call failed.
        code: the kind of failure.
        concludes: whether the tool asks to end the turn (T5).
        took: milliseconds since the call; ``None`` when none was recorded.
    """

    kind = "result"
    call_id: str
    name: str
    text: str
    is_error: bool
    code: str
    concludes: bool
    took: int | None


@frozen(kw_only=True)
class Dropped(Entry):
    """An accepted message did not enter: ``fate`` says what became of it."""

    kind = "dropped"
    id: str
    text: str
    sender: str
    fate: str


@frozen(kw_only=True)
class Noted(Entry):
    """Anything else worth a line: a fork's seed, a preset, an event of a plugin."""

    kind = "note"
    type: str
    text: str


AnyEntry = (
    TurnOpened
    | TurnClosed
    | Said
    | Prompted
    | Routed
    | Answered
    | Failed
    | Retried
    | Called
    | Settled
    | Dropped
    | Noted
)
"""Every kind of entry."""


def plain(entry: Entry) -> dict[str, Any]:
    """An entry as JSON values: its kind, then its fields; what is absent is left out."""
    fields = {name: value for name, value in asdict(entry, value_serializer=_plain_value).items() if value is not None}
    return {"kind": entry.kind, **fields}


def _plain_value(_instance: Any, _attribute: Any, value: Any) -> Any:
    return usage_fields(value) if isinstance(value, Usage) else value
