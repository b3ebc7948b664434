"""Sums of attempts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...models import Usage, joined_usage
from .charge import Charge
from .prices import Prices


class Spent(msgspec.Struct, omit_defaults=True):
    """What several attempts used together; every attempt counts, failed and interrupted ones included.

    Attributes:
        steps: steps in which a model was asked.
        attempts: requests that were sent.
        failed: those of them that failed.
        interrupted: those that were cut off.
        unreported: those of which the provider reported no tokens.
        input: tokens that were read, as reported or else estimated: what budgets go by.
        output: tokens that were written, likewise.
        reported: the tokens that were reported, by model.
        guessed: the estimated tokens of those that were not, by model.
    """

    steps: int = 0
    attempts: int = 0
    failed: int = 0
    interrupted: int = 0
    unreported: int = 0
    input: int = 0
    output: int = 0
    reported: dict[str, Usage] = msgspec.field(default_factory=dict[str, Usage])
    guessed: dict[str, Usage] = msgspec.field(default_factory=dict[str, Usage])

    def add(self, charge: Charge) -> None:
        """Count one attempt."""
        self.attempts += 1
        self.steps += charge.step
        self.failed += charge.outcome == "failed"
        self.interrupted += charge.outcome == "interrupted"
        counted = charge.usage or charge.guessed
        if counted is not None:
            self.input += counted.input_tokens or 0
            self.output += counted.output_tokens or 0
        if charge.usage is not None:
            self.reported[charge.model] = joined_usage(self.reported.get(charge.model), charge.usage)
        else:
            self.unreported += 1
            if charge.guessed is not None:
                self.guessed[charge.model] = joined_usage(self.guessed.get(charge.model), charge.guessed)

    def plus(self, other: Spent) -> Spent:
        """Both together."""
        return Spent(
            self.steps + other.steps,
            self.attempts + other.attempts,
            self.failed + other.failed,
            self.interrupted + other.interrupted,
            self.unreported + other.unreported,
            self.input + other.input,
            self.output + other.output,
            _joined(self.reported, other.reported),
            _joined(self.guessed, other.guessed),
        )

    @property
    def usage(self) -> Usage:
        """The tokens that providers reported; a count that none did is absent (C5)."""
        return joined_usage(*self.reported.values())

    @property
    def cached(self) -> float | None:
        """The share of the input that was found in caches, from 0 to 1; ``None`` where no provider told."""
        usage = self.usage
        if usage.cache_read_tokens is None or not usage.input_tokens:
            return None
        return min(1.0, usage.cache_read_tokens / usage.input_tokens)

    def cost(self, prices: Prices) -> float | None:
        """What the reported tokens cost, of the models whose price is known; ``None`` where none is."""
        costs = [prices[model].of(usage) for model, usage in self.reported.items() if model in prices]
        return sum(costs) if costs else None

    def counted_cost(self, prices: Prices) -> float:
        """What reported and estimated tokens cost, of the models whose price is known: what budgets go by."""
        total = 0.0
        for used in (self.reported, self.guessed):
            for model, usage in used.items():
                if model in prices:
                    total += prices[model].of(usage)
        return total

    def unpriced(self, prices: Prices) -> tuple[str, ...]:
        """The models that were asked and have no price."""
        return tuple(sorted((self.reported.keys() | self.guessed.keys()) - prices.keys()))


def _joined(one: Mapping[str, Usage], other: Mapping[str, Usage]) -> dict[str, Usage]:
    return {model: joined_usage(one.get(model), other.get(model)) for model in [*one, *(other.keys() - one.keys())]}
