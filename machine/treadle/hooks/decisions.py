"""What listeners of waterfalls may answer (H1, T2, H6, H7, K2)."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..words.messages import Block, UserMessage


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
class Allow:
    """Prompt-submit: the prompt goes on, with other content or with contexts that follow it (H7, H10)."""

    content: tuple[Block, ...] | None = None
    additional_contexts: tuple[UserMessage, ...] = field(default=(), converter=tuple)


@frozen
class BlockPrompt:
    """Prompt-submit: the prompt ends here; the turn ends ``blocked`` (H7)."""

    reason: str


@frozen
class Retry:
    """Request-error: make another attempt in the same step (H6)."""


@frozen
class AllowCall:
    """Pre-execute: the call may go on, with other arguments if given (K2)."""

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
    """Post-execute: other content or another value takes the place of the tool's (K2)."""

    content: tuple[Block, ...] | None = None
    value: Any = None
    additional_contexts: tuple[UserMessage, ...] = field(default=(), converter=tuple)


@frozen
class BlockResult:
    """Post-execute: the result is withheld; the model reads ``reason`` as an error (K2)."""

    reason: str
    additional_contexts: tuple[UserMessage, ...] = field(default=(), converter=tuple)
