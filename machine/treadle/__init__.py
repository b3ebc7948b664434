"""treadle: a verified driver core for AI agents, on trio.

A ``Host`` holds agents; an ``Agent`` takes messages, runs turns, and can be stopped at any moment without losing
anything. Everything it does is decided by a pure kernel along one lifecycle table, and recorded in a session log.

Here is what a program that embeds agents uses daily. The rest is in modules by theme, each public name in one of them:
``treadle.agent``, ``hooks``, ``tools``, ``models``, ``session``, ``extensions``, ``prompt``, ``presets``, ``asyncio``,
``testing`` and ``errors``. docs/public-names.md lists them all.
"""

from .agent import Admitted, Agent, AgentHandle, AgentOptions, Receipt, Rejected, TurnAnswer, message
from .errors import (
    AgentBusy,
    AgentDisposed,
    DuplicateMessage,
    DuplicateSession,
    InvalidMessage,
    MessageRejected,
    MisuseError,
    SessionCorrupt,
    SessionLocked,
    SessionNotFound,
    StoreFailure,
    ToolError,
    TreadleError,
)
from .host.host import Host
from .host.opening import open_agent
from .host.registry import Agents
from .host.sessions import Sessions
from .host.subagent import subagent
from .kernel.lifecycle import State
from .loop.retry import Retries
from .models import (
    AssistantMessage,
    Block,
    Failure,
    Message,
    ModelFailure,
    ModelRequest,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from .models.scripted import Answer, Call, ScriptedModel
from .session import (
    Aborted,
    Blocked,
    ByDisposal,
    ByHook,
    ByParent,
    ByUser,
    Cause,
    Completed,
    EndReason,
    Errored,
    Event,
    Interrupted,
    MaxTokens,
    MemoryStore,
    Session,
    SessionHeader,
)
from .tools import Tool, ToolOutput, ToolRun, tool
from .words.signal import Signal

__version__ = "0.1.0"

__all__ = [
    "Aborted",
    "Admitted",
    "Agent",
    "AgentBusy",
    "AgentDisposed",
    "AgentHandle",
    "AgentOptions",
    "Agents",
    "Answer",
    "AssistantMessage",
    "Block",
    "Blocked",
    "ByDisposal",
    "ByHook",
    "ByParent",
    "ByUser",
    "Call",
    "Cause",
    "Completed",
    "DuplicateMessage",
    "DuplicateSession",
    "EndReason",
    "Errored",
    "Event",
    "Failure",
    "Host",
    "Interrupted",
    "InvalidMessage",
    "MaxTokens",
    "MemoryStore",
    "Message",
    "MessageRejected",
    "MisuseError",
    "ModelFailure",
    "ModelRequest",
    "Reasoning",
    "Receipt",
    "Rejected",
    "Retries",
    "ScriptedModel",
    "Session",
    "SessionCorrupt",
    "SessionHeader",
    "SessionLocked",
    "SessionNotFound",
    "Sessions",
    "Signal",
    "State",
    "StoreFailure",
    "SystemMessage",
    "Text",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolOutput",
    "ToolResultMessage",
    "ToolRun",
    "TreadleError",
    "TurnAnswer",
    "UserMessage",
    "message",
    "open_agent",
    "subagent",
    "tool",
]
