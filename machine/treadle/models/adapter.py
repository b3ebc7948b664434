"""The interface that model adapters implement, and what they are handed (Q4–Q8)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from attrs import field, frozen, validators

from ..words.call_config import CallConfig, ToolSchema
from ..words.messages import Message
from ..words.stream import Chunk
from .bounds import DEFAULT_BOUNDS, AnswerBounds

if TYPE_CHECKING:
    from ..words.signal import Signal

RETRIED_CODES = frozenset({"EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT"})
"""The codes that a ``normal`` policy retries (Q6)."""


@frozen
class RetryPolicy:
    """How failed attempts of one adapter are retried (Q6).

    Attributes:
        kind: ``normal`` retries ``codes`` only, ``always`` every failure.
        max_retries: retries of one step; the first attempt is not counted.
        codes: what ``normal`` retries.
        base_delay: seconds before the first retry; doubles each time.
        max_delay: longest wait in seconds; a provider's longer retry-after makes the failure terminal.
        jitter: fraction by which a wait may vary either way.
    """

    kind: Literal["normal", "always"] = "normal"
    max_retries: int = field(default=5, validator=validators.ge(0))
    codes: frozenset[str] = RETRIED_CODES
    base_delay: float = field(default=0.5, validator=validators.ge(0))
    max_delay: float = field(default=10.0, validator=validators.ge(0))
    jitter: float = field(default=0.1, validator=[validators.ge(0), validators.le(1)])


@frozen
class ModelInfo:
    """What an adapter knows about one exact model (Q4).

    Attributes:
        context_window: tokens, ``None`` when unknown.
        default_max_tokens: filled in when the configuration names none.
        reasoning_efforts: the words the model takes; empty when it takes none.
        default_reasoning_effort: filled in when the configuration names none.
        system_prompt_mode: ``append`` when system messages may stand anywhere in the history, ``replace`` when only
            at its head (Q3).
    """

    context_window: int | None = None
    default_max_tokens: int | None = None
    reasoning_efforts: tuple[str, ...] = ()
    default_reasoning_effort: str | None = None
    system_prompt_mode: Literal["append", "replace"] = "append"


UNKNOWN_MODEL = ModelInfo()
"""Nothing is known; nothing is filled in and nothing refused."""


@frozen
class ModelRequest:
    """One attempt's request: a pure function of the log (Q1).

    Attributes:
        config: provider, model and limits, resolved.
        messages: the derived history, oldest first; it does not change during the attempt.
        tools: what the model may call.
        attempt_id: unique per attempt.
        session_id: the session it is made for; some providers cache by it.
        signal: tells when the turn is cancelled; the attempt's scope is cancelled as well.
        bounds: what the answer may be; the driver checks them as well (X3).
    """

    config: CallConfig
    messages: Sequence[Message]
    tools: tuple[ToolSchema, ...]
    attempt_id: str
    session_id: str
    signal: Signal
    bounds: AnswerBounds = DEFAULT_BOUNDS


@runtime_checkable
class ModelAdapter(Protocol):
    """Speaks to one kind of provider. One instance may serve many agents at once.

    An adapter makes one provider attempt per ``stream``: it never retries by itself (Q6). It reports failure by
    raising ``ModelFailure`` or by finishing with ``error`` (Q5). ``check_model`` is the kit that tests adapters.
    """

    @property
    def name(self) -> str:
        """Identifies the adapter; replay data goes back only to the adapter of the same name (Q10)."""
        ...

    @property
    def retry_policy(self) -> RetryPolicy | None:
        """How failures are retried; ``None`` leaves each failure terminal (Q6)."""
        ...

    async def model_info(self, model: str) -> ModelInfo:
        """Resolve what is known about a model; called once per model and registration."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Make one attempt: block starts, deltas, block ends, usage, and one finish, after which nothing comes (Q5).

        Arguments of tool calls stay the raw text of the provider. Cancelling the surrounding scope must end the
        attempt and release its connection.
        """
        ...
