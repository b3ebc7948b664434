"""treadle: a verified driver core for AI agents, on trio.

A ``Host`` holds agents; an ``Agent`` takes messages, runs turns, and can be stopped at any moment without losing
anything. Everything it does is decided by a pure kernel along one lifecycle table, and recorded in a session log.
"""

from .agent import Agent
from .agent_inbox import Inbox, message
from .config import Config, load_config
from .contexts import ContextSource
from .creation import AgentFactory, CreateOptions, ResumeOptions
from .default_model import DefaultModel, ModelSelection, SelectionEditor
from .effects import Admitted, Rejected
from .ending import Ending
from .engine import Converging
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
    MisuseError,
    NoFactory,
    NoStore,
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
from .factory import LoopFactory
from .handle import AgentHandle
from .hooks import Emit, HookPoint, Mode, Serial, Waterfall
from .host import Host
from .ids import AttemptId, CallId, MessageId, SessionId, new_id, session_id
from .initiator import current_initiator
from .lifecycle import LIFECYCLE, TABLE, Lifecycle, Row, State, Trigger
from .models.adapter import ModelAdapter, ModelInfo, ModelRequest, RetryPolicy
from .models.failures import Code, Failure, ModelFailure
from .models.messages import (
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
from .models.runtime import Models, PreparedCall
from .models.scripted import Answer, Call, ScriptedModel
from .models.stream import (
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
from .opening import open_agent
from .options import AgentOptions, register_agent_option
from .preset_components import Composition
from .preset_documents import PresetDefinition, read_definition
from .preset_revisions import ComponentRow, Lease, PresetInfo
from .presets import PresetDocument, PresetInventory, PresetRoster, Presets
from .profile import TomlProfile
from .prompt_parts import PERSONA, PromptRegistry
from .receipts import Receipt
from .registry import Agents
from .retry import Retries, install_retries
from .scope import Scope
from .session.config import CallConfig, ToolSchema
from .session.events import Event, decode_event, encode_event, event
from .session.log import Session, SessionHeader
from .session.memory import MemoryStore
from .session.projections import Projection
from .session.reasons import (
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
from .sessions import Sessions
from .signal import Signal
from .subagent import subagent
from .tools.definition import Tool, ToolOutput, ToolRun, tool
from .tools.registry import ToolRegistry

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
