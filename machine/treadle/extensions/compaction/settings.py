"""What users set of compaction (Z1–Z5)."""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen

from ...errors import MisuseError
from ...models import Message
from .ledger import estimate_tokens
from .summaries import ModelSummary, Summarizer


def nobody_pins(_: Message) -> bool:
    """No message is pinned beyond those that say so themselves."""
    return False


def _share(_: object, attribute: object, value: object) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value <= 1:
        raise MisuseError(f"{getattr(attribute, 'name', 'a share')} must be above 0 and at most 1, not {value!r}")


def _count(_: object, attribute: object, value: object) -> None:
    least = 0 if getattr(attribute, "name", "") == "keep_turns" else 1
    if value is None and getattr(attribute, "name", "") in ("keep_steps", "window"):
        return
    if type(value) is not int or value < least:
        name = getattr(attribute, "name", "it")
        raise MisuseError(f"{name} must be a whole number, {least} at least, not {value!r}")


@frozen(eq=False)
class Settings:
    """What a compaction keeps, when it is made, and who writes its summaries.

    Attributes:
        summarize: writes the summary; the agent's own model unless given. See ``ModelSummary``.
        keep_turns: how many of the last turns are kept as they are, beside the open one.
        keep_steps: where these alone do not fit, so many of the last answers are kept, each with the results of its
            calls, and all that was said to the model in these turns; ``None`` keeps the turns in any case.
        pinned: which messages are kept as they are besides those with ``UserMessage.pinned``.
        between_turns: the share of the window beyond which history is compacted between turns.
        within_turn: the share beyond which it is compacted before a step.
        window: the model's context window in tokens, where its adapter does not know it.
        max_summary_tokens: what a summary may take.
        estimate: tokens of a message; corrected by what providers report.

    Raises:
        MisuseError: a number is none that can be.
    """

    summarize: Summarizer = field(factory=ModelSummary)
    keep_turns: int = field(default=3, validator=_count)
    keep_steps: int | None = field(default=4, validator=_count)
    pinned: Callable[[Message], bool] = nobody_pins
    between_turns: float = field(default=0.75, validator=_share)
    within_turn: float = field(default=0.95, validator=_share)
    window: int | None = field(default=None, validator=_count)
    max_summary_tokens: int = field(default=2_000, validator=_count)
    estimate: Callable[[Message], int] = estimate_tokens
