"""Where answers come from: the interface of an adapter, the routes to adapters, and how a stream becomes a message.

What writes an adapter finds it here: what it is given (a request with its messages and tools), what it yields (chunks),
and how it fails. May import: the root, ``words``.
"""

from ..lossless import repair_text
from ..words.call_config import CallConfig, ToolSchema
from ..words.failures import MAX_MESSAGE, Code, Failure, ModelFailure, clean_failure, describe
from ..words.messages import (
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
    text_of,
)
from ..words.stream import (
    ArgumentsDelta,
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    Finished,
    ReasoningDelta,
    Segment,
    TextDelta,
    TimedStream,
    Usage,
    UsageReport,
)
from .adapter import RETRIED_CODES, UNKNOWN_MODEL, ModelAdapter, ModelInfo, ModelRequest, RetryPolicy
from .assembly import MAX_CALLS, MAX_CHARACTERS
from .routes import Models, PreparedCall

__all__ = [
    "MAX_CALLS",
    "MAX_CHARACTERS",
    "MAX_MESSAGE",
    "RETRIED_CODES",
    "UNKNOWN_MODEL",
    "AgentSource",
    "ArgumentsDelta",
    "AssistantMessage",
    "Block",
    "BlockEnd",
    "BlockStart",
    "CallConfig",
    "Chunk",
    "Code",
    "Failure",
    "Finish",
    "Finished",
    "HookSource",
    "Message",
    "ModelAdapter",
    "ModelFailure",
    "ModelInfo",
    "ModelRequest",
    "Models",
    "PreparedCall",
    "Reasoning",
    "ReasoningDelta",
    "RetryPolicy",
    "Segment",
    "Source",
    "SystemMessage",
    "Text",
    "TextDelta",
    "TimedStream",
    "ToolCall",
    "ToolResult",
    "ToolResultMessage",
    "ToolSchema",
    "ToolSource",
    "Usage",
    "UsageReport",
    "UserMessage",
    "UserSource",
    "clean_failure",
    "describe",
    "repair_text",
    "text_of",
]
