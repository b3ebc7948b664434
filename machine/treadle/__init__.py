"""treadle: a verified driver core for AI agents, on trio.

A ``Host`` holds agents; an ``Agent`` takes messages, runs turns, and can be stopped at any moment without losing
anything. Everything it does is decided by a pure kernel along one lifecycle table, and recorded in a session log.
"""

from .agent.agent import Agent
from .agent.asking import TurnAnswer
from .agent.creation import AgentFactory, CreateOptions, ResumeOptions
from .agent.ending import Ending
from .agent.engine import Converging
from .agent.handle import AgentHandle
from .agent.inbox import Inbox, message
from .agent.initiator import current_initiator
from .agent.options import AgentOptions, register_agent_option
from .agent.receipts import Receipt
from .errors import (
    AgentBusy,
    AgentDisposed,
    BridgeClosed,
    ConfigError,
    DelegationLimit,
    DuplicateMessage,
    DuplicateSession,
    HookError,
    InvalidData,
    InvalidMessage,
    InvalidTrigger,
    InvariantViolated,
    MaintenanceCancelled,
    MessageRejected,
    MisuseError,
    NoFactory,
    NoStore,
    ParentCancelled,
    PresetError,
    PromptError,
    ScopeClosed,
    SessionCorrupt,
    SessionFormatUnsupported,
    SessionLocked,
    SessionNotFound,
    StoreFailure,
    StreamOverrun,
    ToolError,
    TreadleError,
)
from .hooks.dispatch import Emit, HookPoint, Mode, Serial, Waterfall
from .hooks.scope import Scope
from .host.config import Config, load_config
from .host.default_model import DefaultModel, ModelSelection, SelectionEditor
from .host.host import Host
from .host.opening import open_agent
from .host.presets.components import Composition
from .host.presets.documents import PresetDefinition, read_definition
from .host.presets.presets import PresetDocument, PresetInventory, PresetRoster, Presets
from .host.presets.revisions import ComponentRow, Lease, PresetInfo
from .host.profile import TomlProfile
from .host.registry import Agents
from .host.sessions import Sessions
from .host.subagent import subagent
from .ids import AttemptId, CallId, MessageId, SessionId, new_id, session_id
from .kernel.effects import Admitted, Rejected
from .kernel.lifecycle import LIFECYCLE, TABLE, Lifecycle, Row, State, Trigger
from .loop.factory import LoopFactory
from .loop.retry import Retries, install_retries
from .models.adapter import ModelAdapter, ModelInfo, ModelRequest, RetryPolicy
from .models.routes import Models, PreparedCall
from .models.scripted import Answer, Call, ScriptedModel
from .prompt.contexts import ContextSource
from .prompt.registry import PERSONA, PromptRegistry
from .session.log import Session, SessionHeader
from .session.memory import MemoryStore
from .session.projections import Projection
from .session.repair import Recovery
from .session.store import (
    Listed,
    Listing,
    OpenSession,
    SessionStore,
    SessionWriter,
    StoredSession,
    TornTail,
    Unreadable,
)
from .tools.definition import Tool, ToolOutput, ToolRun, tool
from .tools.registry import ToolRegistry
from .words.call_config import CallConfig, ToolSchema
from .words.events import Event, decode_event, encode_event, event
from .words.failures import Code, Failure, ModelFailure
from .words.messages import (
    AgentSource,
    AssistantMessage,
    Block,
    HookSource,
    Message,
    Reasoning,
    Source,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolResultMessage,
    ToolSource,
    UserMessage,
    UserSource,
)
from .words.reasons import (
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
    Interrupted,
    MaxTokens,
)
from .words.signal import Signal
from .words.stream import (
    ArgumentsDelta,
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    Finished,
    ReasoningDelta,
    TextDelta,
    TimedStream,
    Usage,
    UsageReport,
)

__version__ = "0.1.0"

__all__ = [
    "LIFECYCLE",
    "PERSONA",
    "TABLE",
    "Aborted",
    "Admitted",
    "Agent",
    "AgentBusy",
    "AgentDisposed",
    "AgentFactory",
    "AgentHandle",
    "AgentOptions",
    "AgentSource",
    "Agents",
    "Answer",
    "ArgumentsDelta",
    "AssistantMessage",
    "AttemptId",
    "Block",
    "BlockEnd",
    "BlockStart",
    "Blocked",
    "BridgeClosed",
    "ByDisposal",
    "ByHook",
    "ByParent",
    "ByUser",
    "Call",
    "CallConfig",
    "CallId",
    "Cause",
    "Chunk",
    "Code",
    "Completed",
    "ComponentRow",
    "Composition",
    "Config",
    "ConfigError",
    "ContextSource",
    "Converging",
    "CreateOptions",
    "DefaultModel",
    "DelegationLimit",
    "DuplicateMessage",
    "DuplicateSession",
    "Emit",
    "EndReason",
    "Ending",
    "Errored",
    "Event",
    "Failure",
    "Finish",
    "Finished",
    "HookError",
    "HookPoint",
    "HookSource",
    "Host",
    "Inbox",
    "Interrupted",
    "InvalidData",
    "InvalidMessage",
    "InvalidTrigger",
    "InvariantViolated",
    "Lease",
    "Lifecycle",
    "Listed",
    "Listing",
    "LoopFactory",
    "MaintenanceCancelled",
    "MaxTokens",
    "MemoryStore",
    "Message",
    "MessageId",
    "MessageRejected",
    "MisuseError",
    "Mode",
    "ModelAdapter",
    "ModelFailure",
    "ModelInfo",
    "ModelRequest",
    "ModelSelection",
    "Models",
    "NoFactory",
    "NoStore",
    "OpenSession",
    "ParentCancelled",
    "PreparedCall",
    "PresetDefinition",
    "PresetDocument",
    "PresetError",
    "PresetInfo",
    "PresetInventory",
    "PresetRoster",
    "Presets",
    "Projection",
    "PromptError",
    "PromptRegistry",
    "Reasoning",
    "ReasoningDelta",
    "Receipt",
    "Recovery",
    "Rejected",
    "ResumeOptions",
    "Retries",
    "RetryPolicy",
    "Row",
    "Scope",
    "ScopeClosed",
    "ScriptedModel",
    "SelectionEditor",
    "Serial",
    "Session",
    "SessionCorrupt",
    "SessionFormatUnsupported",
    "SessionHeader",
    "SessionId",
    "SessionLocked",
    "SessionNotFound",
    "SessionStore",
    "SessionWriter",
    "Sessions",
    "Signal",
    "Source",
    "State",
    "StoreFailure",
    "StoredSession",
    "StreamOverrun",
    "SystemMessage",
    "Text",
    "TextDelta",
    "TimedStream",
    "TomlProfile",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolOutput",
    "ToolRegistry",
    "ToolResult",
    "ToolResultMessage",
    "ToolRun",
    "ToolSchema",
    "ToolSource",
    "TornTail",
    "TreadleError",
    "Trigger",
    "TurnAnswer",
    "Unreadable",
    "Usage",
    "UsageReport",
    "UserMessage",
    "UserSource",
    "Waterfall",
    "current_initiator",
    "decode_event",
    "encode_event",
    "event",
    "install_retries",
    "load_config",
    "message",
    "new_id",
    "open_agent",
    "read_definition",
    "register_agent_option",
    "session_id",
    "subagent",
    "tool",
]
