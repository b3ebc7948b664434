"""The abstraction walked in Python: every reachable state, every law in each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from attrs import frozen

from treadle.testing import TABLE, Row

from .fields import FIELDS, Abstract
from .laws import check
from .machine import index
from .options import OPTIONS

_NAMES = tuple(FIELDS)
_READ = attrgetter(*_NAMES)
Values = tuple[int, ...]


@frozen
class Walk:
    """What a walk found: the number of states and steps, and the first broken rule with the way to it."""

    states: int
    transitions: int
    rule: str | None = None
    path: tuple[str, ...] = ()


def walk(rows: Iterable[Row] = TABLE) -> Walk:
    """Visit every state of the abstraction over a table; stops at the first broken rule."""
    s = Abstract(index(rows))
    first: Values = _READ(s)
    came: dict[Values, tuple[Values, str] | None] = {first: None}
    todo = deque([first])
    transitions = 0
    while todo:
        at = todo.popleft()
        _write(s, at)
        for option in [option for option in OPTIONS if option.possible(s)]:
            _write(s, at)
            transitions += 1
            try:
                option.take(s)
                check(s)
            except AssertionError as broken:
                return Walk(len(came), transitions, str(broken), _way(came, at, option.name))
            to: Values = _READ(s)
            if to not in came:
                came[to] = (at, option.name)
                todo.append(to)
    return Walk(len(came), transitions)


def _write(s: Abstract, values: Values) -> None:
    for name, value in zip(_NAMES, values, strict=True):
        setattr(s, name, value)
    s.ended = s.told = 0


def _way(came: dict[Values, Any], at: Values, last: str) -> tuple[str, ...]:
    path = [last]
    while (step := came[at]) is not None:
        at, name = step
        path.append(name)
    return tuple(reversed(path))
