"""The catalogue of hook points: what listeners are given and what they may answer (H2, H8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal, cast

from attrs import frozen

from ..kernel.effects import Status
from ..models.adapter import ModelRequest, RetryPolicy
from ..words.call_config import CallConfig, ToolSchema
from ..words.events import Event
from ..words.failures import Failure
from ..words.frames import StreamFrame
from ..words.messages import Block, ToolCall, UserMessage
from ..words.reasons import Cause
from ..words.signal import Signal
from ..words.stream import Chunk
from .decisions import (
    AcceptResult,
    Allow,
    AllowCall,
    AskCall,
    BlockPrompt,
    BlockResult,
    DenyCall,
    Enter,
    Reject,
    ReplaceResult,
    Retry,
)
from .dispatch import Emit, HookPoint, Serial, Waterfall

if TYPE_CHECKING:
    from ..agent.agent import Agent
    from ..session.log import Session

StartSource = Literal["startup", "resume", "clear", "compact"]
"""Why a session's life began (O1)."""

# --- payloads ---------------------------------------------------------------------------------------------------------


@frozen
class AgentStatus:
    """Status flipped; it is the new one (L5)."""

    agent: Agent
    status: Status


@frozen
class InboxInserted:
    """One message entered the inbox (I4)."""

    agent: Agent
    message: UserMessage


@frozen
class InboxDiscarded:
    """One message was discarded from the inbox (I4)."""

    agent: Agent
    message: UserMessage


@frozen
class InboxUpdated:
    """One pending message was edited in place, or steered (I4, I9)."""

    agent: Agent
    message: UserMessage


@frozen
class InboxClaimed:
    """The open turn claimed one message (I4)."""

    agent: Agent
    message: UserMessage
    turn: int


@frozen
class AgentParked:
    """An activity ended and left waking input behind (L3)."""

    agent: Agent
    messages: tuple[UserMessage, ...]


@frozen
class AssistantStream:
    """One frame of a live attempt (Q9)."""

    agent: Agent
    frame: StreamFrame


@frozen
class AgentError:
    """Something failed (T9, N8): ``error`` is the exception, ``failure`` what the log says of it."""

    agent: Agent
    turn: int
    step: int
    error: BaseException
    failure: Failure


@frozen
class CancelRequest:
    """An activity was cancelled (C2)."""

    agent: Agent
    cause: Cause


@frozen
class AgentGone:
    """The agent left the registry (O4)."""

    agent: Agent


@frozen
class SessionStarted:
    """The session's life began (O18)."""

    agent: Agent
    source: StartSource


@frozen
class SessionEventAdded:
    """One event was appended to the log of a live session."""

    agent: Agent
    session: Session
    event: Event


@frozen
class ToolSettled:
    """A tool call has its final result (K2)."""

    agent: Agent
    call: ToolCall
    content: tuple[Block, ...]
    is_error: bool
    code: str | None
    value: Any


@frozen
class AgentCreation:
    """A newly entered agent, before its queued input is released (O1)."""

    agent: Agent
    source: StartSource
    signal: Signal | None = None


@frozen
class TurnIsStopping:
    """The turn is about to close; steer to object (T4)."""

    agent: Agent
    turn: int
    signal: Signal


@frozen
class SessionFlushing:
    """A turn ended: make the log durable (P8)."""

    agent: Agent
    session: Session


@frozen
class PromptSubmission:
    """A claimed next-turn entry, before pre-step (H7, H10)."""

    agent: Agent
    message: UserMessage
    turn: int
    signal: Signal


@frozen
class StepProposal:
    """The claimed batch of a proposed step (T2)."""

    agent: Agent
    messages: tuple[UserMessage, ...]
    turn: int
    step: int
    signal: Signal


@frozen
class RequestProposal:
    """A request about to be prepared (Q11); messages are out of reach."""

    agent: Agent
    turn: int
    step: int
    signal: Signal


@frozen
class RequestFailure:
    """A failed attempt (H6).

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
class Prompt:
    """An assembled prompt: the system text, the tools, and contexts to add to the batch (R1)."""

    system: str = ""
    tools: tuple[ToolSchema, ...] = ()
    contexts: tuple[UserMessage, ...] = ()


@frozen
class PromptAssembly:
    """A prompt about to be assembled (R1)."""

    agent: Agent
    turn: int
    step: int
    signal: Signal


@frozen
class ToolProposal:
    """A call about to run (K2): ``arguments`` are parsed."""

    agent: Agent
    call: ToolCall
    arguments: dict[str, Any]
    turn: int
    step: int
    signal: Signal


@frozen
class ToolOutcome:
    """A call that ran, before its result is final (K2)."""

    agent: Agent
    call: ToolCall
    arguments: dict[str, Any]
    content: tuple[Block, ...]
    is_error: bool
    code: str | None
    value: Any
    turn: int
    step: int
    signal: Signal


@frozen
class ConfigStartFailed:
    """A declared agent could not be started (O8)."""

    session_id: str
    error: BaseException


@frozen
class PresetChosen:
    """A session committed another preset (O9)."""

    session_id: str
    preset: str


# --- the points -------------------------------------------------------------------------------------------------------


AGENT_STATUS = Emit("agent/status", AgentStatus, "Status flipped between idle and running (L5).")
INBOX_INSERTED = Emit("agent/inbox/inserted", InboxInserted, "A message entered the inbox (I4).")
INBOX_CLAIMED = Emit("agent/inbox/claimed", InboxClaimed, "The open turn claimed a message (I4).")
INBOX_DISCARDED = Emit("agent/inbox/discarded", InboxDiscarded, "A message was discarded (I4).")
INBOX_UPDATED = Emit("agent/inbox/updated", InboxUpdated, "A message was edited or steered (I9).")
AGENT_PARKED = Emit("agent/parked", AgentParked, "An activity left waking input behind (L3).")
ASSISTANT_STREAM = Emit("agent/assistant-stream", AssistantStream, "A frame of a live attempt (Q9).")
AGENT_ERROR = Emit("agent/error", AgentError, "Something failed (T9, N8).")
CANCEL_REQUESTED = Emit("agent/cancel-requested", CancelRequest, "An activity was cancelled (C2).")
AGENT_DISPOSED = Emit("agent/disposed", AgentGone, "The agent left the registry (O4).")
SESSION_START = Emit("agent/session-start", SessionStarted, "A session's life began (O18).")
SESSION_EVENT = Emit("session/event", SessionEventAdded, "An event was appended to a live log.")
TOOLS_RESULT = Emit("tools/result", ToolSettled, "A call has its final result (K2).")
CONFIG_START_FAILED = Emit(
    "agent-loop/config-start-failed", ConfigStartFailed, "A declared agent could not be started (O8)."
)
PRESET_SELECTED = Emit("agent-preset/selected", PresetChosen, "A session committed another preset (O9).")

AGENT_CREATED = Serial("agent/created", AgentCreation, "A new agent, before its input is released (O1).")
TURN_STOPPING = Serial("agent/turn-stopping", TurnIsStopping, "The turn is about to close (T4).")
SESSION_FLUSH = Serial("session/flush", SessionFlushing, "A turn ended: make the log durable (P8).")

PROMPT_SUBMIT: Waterfall[PromptSubmission, Allow | BlockPrompt] = Waterfall(
    "agent/prompt-submit", PromptSubmission, "Let a claimed prompt in, or block it (H7).", (Allow, BlockPrompt)
)
PRE_STEP: Waterfall[StepProposal, Enter | Reject] = Waterfall(
    "agent/pre-step", StepProposal, "Decide about a proposed step (T2).", (Enter, Reject)
)
REQUEST: Waterfall[RequestProposal, CallConfig] = Waterfall(
    "agent/request", RequestProposal, "Replace the call's configuration (Q11).", CallConfig
)
REQUEST_ERROR: Waterfall[RequestFailure, Retry | None] = Waterfall(
    "agent/request-error", RequestFailure, "Own the recovery of a failed attempt (H6).", (Retry, type(None))
)
LLM_STREAM: Waterfall[StreamProposal, AsyncIterator[Chunk]] = Waterfall(
    "llm/stream", StreamProposal, "Wrap or replace an attempt's stream.", AsyncIterator
)
SYSTEM_PROMPT_ASSEMBLE: Waterfall[PromptAssembly, Prompt] = Waterfall(
    "system-prompt/assemble", PromptAssembly, "Replace the assembled prompt (R1).", Prompt
)
TOOLS_PRE_EXECUTE: Waterfall[ToolProposal, AllowCall | DenyCall | AskCall] = Waterfall(
    "tools/pre-execute", ToolProposal, "Allow, deny or ask about a call (K2).", (AllowCall, DenyCall, AskCall)
)
TOOLS_EXECUTE: Waterfall[ToolProposal, Any] = Waterfall(
    "tools/execute", ToolProposal, "Wrap the execution of a call (K2).", object
)
TOOLS_POST_EXECUTE: Waterfall[ToolOutcome, AcceptResult | ReplaceResult | BlockResult] = Waterfall(
    "tools/post-execute", ToolOutcome, "Accept or change a result (K2).", (AcceptResult, ReplaceResult, BlockResult)
)

POINTS: tuple[HookPoint[Any], ...] = tuple(
    [cast("HookPoint[Any]", value) for value in list(globals().values()) if isinstance(value, HookPoint)]
)
"""Every hook point, in the order of the catalogue."""
