"""The steps of a turn and the attempts of their requests, up to the turn's end (T2, T4, H6, Q9, Q11)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from attrs import field, frozen

from ...models.adapter import ModelRequest, RetryPolicy
from ...words.call_config import CallConfig
from ...words.failures import Failure
from ...words.frames import StreamFrame
from ...words.messages import UserMessage
from ...words.signal import Signal
from ...words.stream import Chunk
from ..dispatch import Emit, Serial, Waterfall

if TYPE_CHECKING:
    from ...agent.agent import Agent


@frozen
class StepProposal:
    """A step about to be entered, with the messages it has claimed (T2)."""

    agent: Agent
    messages: tuple[UserMessage, ...]
    turn: int
    step: int
    signal: Signal


@frozen
class RequestProposal:
    """A request about to be prepared: its configuration may be replaced, its messages are out of reach (Q11)."""

    agent: Agent
    turn: int
    step: int
    signal: Signal


@frozen
class RequestFailure:
    """An attempt that failed, before anything is decided about it (H6).

    Attributes:
        prior: failures of earlier attempts of this step, oldest first.
        retry_policy: of the adapter that served the attempt.
    """

    agent: Agent
    turn: int
    step: int
    provider: str | None
    failure: Failure
    prior: tuple[Failure, ...]
    retry_policy: RetryPolicy | None
    signal: Signal


@frozen
class StreamProposal:
    """An attempt about to start; ``next()`` gives the adapter's stream (H2)."""

    agent: Agent
    request: ModelRequest
    turn: int
    step: int
    signal: Signal


@frozen
class AssistantStream:
    """One frame of a live attempt (Q9)."""

    agent: Agent
    frame: StreamFrame


@frozen
class TurnIsStopping:
    """The turn is about to close; a listener that steers keeps it open (T4)."""

    agent: Agent
    turn: int
    signal: Signal


@frozen
class Reject:
    """Pre-step: the step is not entered; the turn ends ``blocked`` (T2)."""


@frozen
class Enter:
    """Pre-step: the step is entered with exactly these messages (T2).

    ``starts_request_series`` marks the start of a new series of requests (Q12).
    """

    messages: tuple[UserMessage, ...] = field(converter=tuple)
    starts_request_series: bool = False


@frozen
class Retry:
    """Request-error: make another attempt in the same step (H6)."""


ASSISTANT_STREAM = Emit("agent/assistant-stream", AssistantStream, "A frame of a live attempt (Q9).")
PRE_STEP: Waterfall[StepProposal, Enter | Reject] = Waterfall(
    "agent/pre-step",
    StepProposal,
    "Enter a proposed step with its messages or with others, or refuse it (T2).",
    (Enter, Reject),
)
REQUEST: Waterfall[RequestProposal, CallConfig] = Waterfall(
    "agent/request",
    RequestProposal,
    "Replace the configuration of a request: provider, model, limits (Q11).",
    CallConfig,
)
REQUEST_ERROR: Waterfall[RequestFailure, Retry | None] = Waterfall(
    "agent/request-error", RequestFailure, "Decide whether a failed attempt is made again (H6).", (Retry, type(None))
)
LLM_STREAM: Waterfall[StreamProposal, AsyncIterator[Chunk]] = Waterfall(
    "llm/stream", StreamProposal, "Wrap or replace an attempt's stream.", AsyncIterator
)
TURN_STOPPING = Serial(
    "agent/turn-stopping", TurnIsStopping, "The turn is about to close; steering keeps it open (T4)."
)
