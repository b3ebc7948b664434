"""The table over the abstraction: what a trigger does, and whether a state has it."""

from __future__ import annotations

from collections.abc import Iterable

from treadle import State
from treadle.testing import Row, Trigger

from .fields import CONSTANTS, Abstract
from .verbs import VERBS


class NoRow(AssertionError):
    """The table has no row for a trigger: a fault of the caller (L1)."""


def index(rows: Iterable[Row]) -> dict[tuple[int, Trigger], Row]:
    """The table by state number and trigger."""
    return {(CONSTANTS[row.source.name], row.trigger): row for row in rows}


def allows(s: Abstract, trigger: Trigger) -> bool:
    """Whether the table lists ``trigger`` for the present state."""
    return (s.state, trigger) in s.table


def fire(s: Abstract, trigger: Trigger) -> None:
    """Move along the row of ``trigger``, and run its verbs."""
    row = s.table.get((s.state, trigger))
    if row is None:
        raise NoRow("L1")
    s.state = NUMBER[row.dest]
    for verb in row.verbs:
        VERBS[verb.__name__](s)


NUMBER: dict[State, int] = {state: number for number, state in enumerate(State)}
"""States as the abstraction counts them."""
