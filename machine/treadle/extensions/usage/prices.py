"""What models cost: a table that users give; none is shipped, as prices change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from attrs import field, frozen

from ...errors import MisuseError
from ...models import Usage

MILLION = 1_000_000


def _amount(_: Any, attribute: Any, value: Any) -> None:
    fits = type(value) in (int, float) and math.isfinite(value) and value >= 0
    if not fits and not (value is None and attribute.name.startswith("cache")):
        raise MisuseError(f"a price's {attribute.name} is a number that is not negative, not {value!r}")


@frozen
class Price:
    """What a model costs, per million tokens, in a currency of your own.

    Attributes:
        input: tokens read by the model and found in no cache.
        output: tokens it wrote, reasoning included.
        cache_read: tokens found in a cache; as ``input`` unless given.
        cache_write: tokens written to one; as ``input`` unless given.
    """

    input: float = field(validator=_amount)
    output: float = field(validator=_amount)
    cache_read: float | None = field(default=None, validator=_amount)
    cache_write: float | None = field(default=None, validator=_amount)

    def of(self, usage: Usage) -> float:
        """What these tokens cost; those of caches are part of the input."""
        read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
        plain = max(0, (usage.input_tokens or 0) - read - write)
        by_cache = read * (self.input if self.cache_read is None else self.cache_read)
        by_cache += write * (self.input if self.cache_write is None else self.cache_write)
        return (plain * self.input + (usage.output_tokens or 0) * self.output + by_cache) / MILLION


Prices: TypeAlias = Mapping[str, Price]
"""Prices by the model's name, as requests name it."""
