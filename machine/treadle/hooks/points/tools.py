"""What happens to a tool call, from the arguments to the final result (K2, K11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from ...words.messages import Block, ToolCall, UserMessage
from ...words.signal import Signal
from ..dispatch import Emit, Waterfall

if TYPE_CHECKING:
    from ...agent.agent import Agent


@frozen
class ToolProposal:
    """A call about to run; ``arguments`` are parsed (K2)."""

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
class ToolSettled:
    """A tool call has its final result (K2)."""

    agent: Agent
    call: ToolCall
    content: tuple[Block, ...]
    is_error: bool
    code: str | None
    value: Any


@frozen
class AllowCall:
    """Pre-execute: the call may go on, with other arguments if given, made plain JSON as what tools return (K2, K9)."""

    arguments: dict[str, Any] | None = None


@frozen
class DenyCall:
    """Pre-execute or a guard: the call does not run; ``reason`` is what the model reads (K2)."""

    reason: str
    code: str = "DENIED"


@frozen
class AskCall:
    """Pre-execute: somebody must approve the call first (K2)."""

    question: str


@frozen
class AcceptResult:
    """Post-execute: the result stands; contexts are handed over beside it (K2, K11)."""

    additional_contexts: tuple[UserMessage, ...] = field(default=(), converter=tuple)


@frozen
class ReplaceResult:
    """Post-execute: other content or another value, as a tool returns it, takes the place of the tool's (K2, K9)."""

    content: tuple[Block, ...] | None = None
    value: Any = None
    additional_contexts: tuple[UserMessage, ...] = field(default=(), converter=tuple)


@frozen
class BlockResult:
    """Post-execute: the result is withheld; the model reads ``reason`` as an error (K2)."""

    reason: str
    additional_contexts: tuple[UserMessage, ...] = field(default=(), converter=tuple)


TOOLS_RESULT = Emit("tools/result", ToolSettled, "A call has its final result (K2).")
TOOLS_PRE_EXECUTE: Waterfall[ToolProposal, AllowCall | DenyCall | AskCall] = Waterfall(
    "tools/pre-execute", ToolProposal, "Allow, deny or ask about a call (K2).", (AllowCall, DenyCall, AskCall)
)
TOOLS_EXECUTE: Waterfall[ToolProposal, Any] = Waterfall(
    "tools/execute", ToolProposal, "Wrap the execution of a call (K2).", object
)
TOOLS_POST_EXECUTE: Waterfall[ToolOutcome, AcceptResult | ReplaceResult | BlockResult] = Waterfall(
    "tools/post-execute", ToolOutcome, "Accept or change a result (K2).", (AcceptResult, ReplaceResult, BlockResult)
)
