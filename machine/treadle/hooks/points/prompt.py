"""What enters a turn, and the system prompt before it (H7, H10, R1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

from ...words.call_config import ToolSchema
from ...words.messages import Block, UserMessage
from ...words.signal import Signal
from ..dispatch import Waterfall

if TYPE_CHECKING:
    from ...agent.agent import Agent


@frozen
class PromptSubmission:
    """A prompt that the turn has just claimed, before its first step is proposed (H7, H10)."""

    agent: Agent
    message: UserMessage
    turn: int
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
class Allow:
    """Prompt-submit: the prompt goes on, with other content or with contexts that follow it (H7, H10)."""

    content: tuple[Block, ...] | None = None
    additional_contexts: tuple[UserMessage, ...] = field(default=(), converter=tuple)


@frozen
class BlockPrompt:
    """Prompt-submit: the prompt ends here; the turn ends ``blocked`` (H7)."""

    reason: str


PROMPT_SUBMIT: Waterfall[PromptSubmission, Allow | BlockPrompt] = Waterfall(
    "agent/prompt-submit", PromptSubmission, "Let a claimed prompt in, or block it (H7).", (Allow, BlockPrompt)
)
SYSTEM_PROMPT_ASSEMBLE: Waterfall[PromptAssembly, Prompt] = Waterfall(
    "system-prompt/assemble", PromptAssembly, "Replace the assembled prompt (R1).", Prompt
)
