"""What an agent is created with (Q4, L10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from ..errors import MisuseError
from ..models.bounds import DEFAULT_BOUNDS, AnswerBounds
from ..words.call_config import CallConfig

MAX_STEPS_PER_TURN = 1_000
"""How many steps a turn may have unless told otherwise: more than any job, and an end to a runaway one (T11)."""


def _positive(_: Any, attribute: Any, value: Any) -> None:
    if value is not None and (type(value) is not int or value <= 0):
        raise MisuseError(f"agent option {attribute.name} must be a positive whole number or None, not {value!r}")


def _count(_: Any, attribute: Any, value: Any) -> None:
    if type(value) is not int or value <= 0:
        raise MisuseError(f"agent option {attribute.name} must be a positive whole number, not {value!r}")


def _seconds(_: Any, attribute: Any, value: Any) -> None:
    if type(value) not in (int, float) or not value > 0:
        raise MisuseError(f"agent option {attribute.name} must be positive seconds, not {value!r}")


@frozen
class AgentOptions:
    """Options of one agent.

    Attributes:
        provider: the model route; an adapter must be registered under it at call time.
        model: the model's id, read by the adapter.
        reasoning_effort: a word that the exact model takes; the adapter's default otherwise.
        max_tokens: bound on the output of one request; the adapter's default otherwise.
        max_steps_per_turn: ends a turn that has had so many steps with ``STEP_LIMIT``; ``None`` for no bound (T11).
        max_parallel_tool_calls: size of the parallel pool (K4).
        convergence_warning: seconds of a cancellation's convergence before a warning is logged (C10).
        max_answer_bytes: what one answer of the model may hold, its stream included; see ``AnswerBounds`` (X3).
        max_answer_calls: how many tools one answer may ask for.
        max_answer_seconds: how long one answer may take.
        extra: options that plugins registered (L10).
    """

    provider: str | None = None
    model: str | None = None
    reasoning_effort: str | None = None
    max_tokens: int | None = field(default=None, validator=_positive)
    max_steps_per_turn: int | None = field(default=MAX_STEPS_PER_TURN, validator=_positive)
    max_parallel_tool_calls: int = field(default=10, validator=_count)
    convergence_warning: float = field(default=5.0, validator=_seconds)
    max_answer_bytes: int = DEFAULT_BOUNDS.bytes
    max_answer_calls: int = field(default=DEFAULT_BOUNDS.calls, validator=_count)
    max_answer_seconds: float = field(default=DEFAULT_BOUNDS.seconds, validator=_seconds)
    extra: dict[str, Any] = field(factory=lambda: {})
    config: CallConfig = field(init=False, repr=False, eq=False)
    bounds: AnswerBounds = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        for name in self.extra:
            if name not in _EXTRA:
                raise MisuseError(f"no plugin registered the agent option {name!r}; see register_agent_option (L10)")
            check = _EXTRA[name]
            if check is not None:
                check(self.extra[name])
        object.__setattr__(
            self, "config", CallConfig(self.provider, self.model, self.max_tokens, self.reasoning_effort)
        )
        bounds = AnswerBounds(self.max_answer_bytes, self.max_answer_calls, self.max_answer_seconds)
        object.__setattr__(self, "bounds", bounds)


_EXTRA: dict[str, Callable[[Any], object] | None] = {}


def register_agent_option(name: str, check: Callable[[Any], object] | None = None) -> None:
    """Let ``AgentOptions.extra`` carry an option of a plugin (L10).

    Args:
        name: the key.
        check: called with each value; raises to refuse it.

    Raises:
        MisuseError: the name is taken.
    """
    if name in _EXTRA:
        raise MisuseError(f"agent option {name!r} is registered already")
    _EXTRA[name] = check


DEFAULT_OPTIONS = AgentOptions()
