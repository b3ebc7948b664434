"""What may be limited, and how much of it there is."""

from __future__ import annotations

import math
from typing import Any

from attrs import field, fields, frozen

from ...errors import MisuseError


def _whole(_: Any, attribute: Any, value: Any) -> None:
    if value is not None and (type(value) is not int or value <= 0):
        raise MisuseError(f"a limit of {attribute.name} is a positive whole number or None, not {value!r}")


def _number(_: Any, attribute: Any, value: Any) -> None:
    if value is not None and not (type(value) in (int, float) and math.isfinite(value) and value > 0):
        raise MisuseError(f"a limit of {attribute.name} is a positive number or None, not {value!r}")


@frozen
class Limits:
    """How much may be spent; ``None`` is no limit.

    Attributes:
        steps: steps in which a model is asked.
        calls: requests to models; a retry is one.
        input_tokens: tokens that models read, cached ones included.
        output_tokens: tokens that models write, reasoning included.
        cost: in the currency of the price table.
        seconds: real time: of a turn from its start, of a session the sum of its turns, of a host since the first turn.
    """

    steps: int | None = field(default=None, validator=_whole)
    calls: int | None = field(default=None, validator=_whole)
    input_tokens: int | None = field(default=None, validator=_whole)
    output_tokens: int | None = field(default=None, validator=_whole)
    cost: float | None = field(default=None, validator=_number)
    seconds: float | None = field(default=None, validator=_number)

    @property
    def given(self) -> dict[str, float]:
        """The limits there are, by name."""
        named = {one.name: getattr(self, one.name) for one in fields(type(self))}
        return {name: bound for name, bound in named.items() if bound is not None}
