"""Figures of many logs: latency, tokens, retries, failures and cancels, per model and per tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import quantiles
from typing import Any

from attrs import asdict, define, field

from treadle.extensions.usage import Price, Prices
from treadle.models import Usage

from . import names
from .attributes import USAGE, usage_told
from .replay import Log, replay
from .spans import Silent, Span, Value

NOTHING = Usage()
_CANCELLED = {"interrupted", "ABORTED", "ABORTED_BEFORE_DISPATCH"}
"""Errors that say that somebody stopped it."""


@define
class Times:
    """How long something took, each time, in seconds."""

    taken: list[float] = field(factory=list[float])

    def at(self, percent: int) -> float | None:
        """The percentile; ``None`` of nothing."""
        if len(self.taken) < 2:
            return self.taken[0] if self.taken else None
        return quantiles(self.taken, n=100, method="inclusive")[percent - 1]

    @property
    def told(self) -> dict[str, float | None]:
        """Median, 95th percentile and the longest."""
        return {"p50": self.at(50), "p95": self.at(95), "max": max(self.taken, default=None)}


@define
class ModelStats:
    """Of one model, as requested.

    Attributes:
        attempts: requests that were sent.
        retries: those of them that followed a failed one in the same step.
        failures: those that failed, by code.
        cancelled: those that a cancel cut off.
        latency: of the attempts that gave an answer.
        first_chunk: from the request to the first piece of the answer.
        unreported: attempts of which the provider reported no tokens.
        input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens: as it reported them, of all
            attempts, failed and interrupted ones included.
        cost: in the currency of the prices; ``None`` where the model has none.
    """

    attempts: int = 0
    retries: int = 0
    failures: Counter[str] = field(factory=Counter[str])
    cancelled: int = 0
    latency: Times = field(factory=Times)
    first_chunk: Times = field(factory=Times)
    unreported: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None

    @property
    def cached(self) -> float | None:
        """The share of the input that was found in caches; ``None`` without input."""
        return min(1.0, self.cache_read_tokens / self.input_tokens) if self.input_tokens else None


@define
class ToolStats:
    """Of one tool: calls, those that failed by code, those that a cancel stopped, and how long the others took."""

    calls: int = 0
    failures: Counter[str] = field(factory=Counter[str])
    cancelled: int = 0
    latency: Times = field(factory=Times)


@define
class Stats(Silent):
    """A sink that counts.

    Attributes:
        sessions: logs that were read.
        models: by the name that was asked for.
        tools: by name.
        turns: by the reason for which they ended.
        claim: how long messages waited until a turn took them.
        convergence: how long a cancelled turn took to come to rest, as far as the log tells.
        prices: by the model's name.
    """

    sessions: int = 0
    models: dict[str, ModelStats] = field(factory=dict[str, ModelStats])
    tools: dict[str, ToolStats] = field(factory=dict[str, ToolStats])
    turns: Counter[str] = field(factory=Counter[str])
    claim: Times = field(factory=Times)
    convergence: Times = field(factory=Times)
    prices: Prices = field(factory=dict[str, Price])

    def end(self, span: Span) -> None:
        """See ``Sink.end``."""
        match span.kind:
            case "chat":
                self._attempt(span)
            case "execute_tool":
                self._call(span)
            case "turn":
                self.turns[str(span.attributes.get(names.TURN_END))] += 1
            case "convergence":
                self.convergence.taken.append(span.seconds)
            case _:
                pass

    def claimed(self, span: Span, waited: float) -> None:  # noqa: ARG002 - the interface
        """See ``Sink.claimed``."""
        self.claim.taken.append(waited)

    def told(self) -> dict[str, Any]:
        """Everything as JSON takes it; times in seconds."""
        out: dict[str, Any] = asdict(self, recurse=True, filter=_is_figure, value_serializer=_told)
        return out

    def _attempt(self, span: Span) -> None:
        told = span.attributes
        model = str(told.get(names.MODEL, "?"))
        stats = self.models.setdefault(model, ModelStats())
        stats.attempts += 1
        stats.retries += _number(told, names.ATTEMPT) > 1
        usage = usage_told(told)
        stats.unreported += usage == NOTHING
        for field_name, _ in USAGE:
            setattr(stats, field_name, getattr(stats, field_name) + (getattr(usage, field_name) or 0))
        if model in self.prices:
            stats.cost = (stats.cost or 0.0) + self.prices[model].of(usage)
        first = told.get(names.TIME_TO_FIRST_CHUNK)
        if isinstance(first, float):
            stats.first_chunk.taken.append(first)
        _sort(stats, span)

    def _call(self, span: Span) -> None:
        stats = self.tools.setdefault(str(span.attributes[names.TOOL_NAME]), ToolStats())
        stats.calls += 1
        _sort(stats, span)


def _sort(stats: ModelStats | ToolStats, span: Span) -> None:
    if span.error is None:
        stats.latency.taken.append(span.seconds)
    elif span.error in _CANCELLED:
        stats.cancelled += 1
    else:
        stats.failures[span.error] += 1


def _number(attributes: Mapping[str, Value], name: str) -> int:
    value = attributes.get(name, 0)
    return value if isinstance(value, int) else 0


def _is_figure(attribute: Any, _value: Any) -> bool:
    return attribute.name != "prices"


def _told(_owner: Any, _field: Any, value: Any) -> Any:
    return value.told if isinstance(value, Times) else value


def stats_of(logs: Iterable[Log], prices: Prices | None = None) -> Stats:
    """Count what logs tell; what attempts cost where the price of their model is known."""
    stats = Stats(prices=dict(prices or {}))
    for header, events in logs:
        replay(header, events, stats)
        stats.sessions += 1
    return stats
