"""What becomes of an agent, its inbox and its session (I4, L3, L5, O1, O4, P8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import frozen

from ...kernel.effects import Status
from ...words.events import Event
from ...words.failures import Failure
from ...words.messages import UserMessage
from ...words.reasons import Cause
from ...words.signal import Signal
from ..dispatch import Emit, Serial

if TYPE_CHECKING:
    from ...agent.agent import Agent
    from ...session.log import Session


StartSource = Literal["startup", "resume", "clear", "compact"]
"""Why a session's life began (O1)."""


@frozen
class AgentStatus:
    """The agent began to run or came to rest; ``status`` is the new one (L5)."""

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
    """One pending message was edited in place, or moved to the running turn (I4, I9)."""

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
class AgentError:
    """Something failed: ``error`` is the exception, ``failure`` what the log says of it (T9, N8)."""

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
class AgentCreation:
    """A newly entered agent, before its queued input is released (O1)."""

    agent: Agent
    source: StartSource
    signal: Signal | None = None


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
class SessionFlushing:
    """A turn ended: make the log durable (P8)."""

    agent: Agent
    session: Session


@frozen
class MaintenanceMoment:
    """A maintenance task of the agent ``started``, or ``ended`` however it went (M1, M3)."""

    agent: Agent
    phase: Literal["started", "ended"]


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


AGENT_STATUS = Emit("agent/status", AgentStatus, "An agent began to run, or came to rest (L5).")
INBOX_INSERTED = Emit("agent/inbox/inserted", InboxInserted, "A message entered the inbox (I4).")
INBOX_CLAIMED = Emit("agent/inbox/claimed", InboxClaimed, "The open turn claimed a message (I4).")
INBOX_DISCARDED = Emit("agent/inbox/discarded", InboxDiscarded, "A message was discarded (I4).")
INBOX_UPDATED = Emit(
    "agent/inbox/updated", InboxUpdated, "A pending message was edited, or moved to the running turn (I9)."
)
AGENT_PARKED = Emit("agent/parked", AgentParked, "An activity left waking input behind (L3).")
AGENT_ERROR = Emit("agent/error", AgentError, "Something failed, whether or not it ended a turn (T9, N8).")
CANCEL_REQUESTED = Emit("agent/cancel-requested", CancelRequest, "An activity was cancelled (C2).")
AGENT_DISPOSED = Emit("agent/disposed", AgentGone, "The agent left the registry (O4).")
SESSION_START = Emit("agent/session-start", SessionStarted, "A session's life began (O18).")
SESSION_EVENT = Emit("session/event", SessionEventAdded, "An event was appended to a live log.")
MAINTENANCE = Emit("agent/maintenance", MaintenanceMoment, "A maintenance task starts, or has ended (M1, M3).")
CONFIG_START_FAILED = Emit(
    "agent-loop/config-start-failed", ConfigStartFailed, "A declared agent could not be started (O8)."
)
PRESET_SELECTED = Emit("agent-preset/selected", PresetChosen, "A session committed another preset (O9).")
AGENT_CREATED = Serial("agent/created", AgentCreation, "A new agent, before its input is released (O1).")
SESSION_FLUSH = Serial("session/flush", SessionFlushing, "A turn ended: make the log durable (P8).")
