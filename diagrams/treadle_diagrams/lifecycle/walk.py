"""Walks: which rows were taken, how often and how long it took; from pairs, coverage files, or many of both."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, cast

from attrs import evolve, field, frozen

from treadle import MisuseError
from treadle.errors import InvalidData
from treadle.testing import TABLE

from ..drawing.units import duration
from .graph import Graph, Transition, graph_of


class Passage(NamedTuple):
    """One transition that happened: in ``state`` came ``trigger``, at ``time`` milliseconds (``None``: unknown).

    ``seq`` is the event of the log that tells it, where it was read from one.
    """

    state: Enum
    trigger: Enum
    time: float | None = None
    seq: int | None = None


@frozen
class Visit:
    """How one row was walked.

    Attributes:
        count: how often.
        spent: milliseconds in the row's state until it led away, summed up; ``None`` when nothing is known. A loop
            leads nowhere: it has no time of its own, and the state's clock runs on.
        first: when it was first taken, in milliseconds; ``None`` when unknown.
        last: when it was last taken, in milliseconds; ``None`` when unknown.
    """

    count: int
    spent: float | None = None
    first: float | None = None
    last: float | None = None

    def __str__(self) -> str:
        """Count and time, as in ``×4 1.2s``; empty when it was not walked."""
        if not self.count:
            return ""
        return f"×{self.count}" if self.spent is None else f"×{self.count} {duration(self.spent)}"


@frozen
class Walk:
    """Visits by the names of state and trigger, as in ``("IDLE", "WAKE")``. A count of 0 is a row not walked."""

    visits: Mapping[tuple[str, str], Visit] = field(factory=dict[tuple[str, str], Visit])

    def count(self, key: tuple[str, str]) -> int:
        """How often the row of that key was walked."""
        visit = self.visits.get(key)
        return visit.count if visit else 0

    def told(self, key: tuple[str, str]) -> str:
        """Count and time of the row of that key; empty when it was not walked."""
        return str(self.visits.get(key) or "")


def walk_through(
    passages: Iterable[tuple[Enum, Enum] | tuple[Enum, Enum, float | None] | Passage],
    rows: Iterable[Transition] = TABLE,
) -> Walk:
    """Make a walk of transitions in the order in which they happened.

    Args:
        passages: ``(state, trigger)`` or ``(state, trigger, milliseconds)``; ``Passage`` is such a tuple.
        rows: the table they were made on: it says which of them are loops.

    Raises:
        MisuseError: a passage has no row in the table (L1).
    """
    moves = {move.key: move for move in graph_of(rows).moves}
    visits: dict[tuple[str, str], Visit] = {}
    entered: float | None = None
    for given in passages:
        told = given if isinstance(given, Passage) else None
        passage = told or Passage(given[0], given[1], given[2] if len(given) == 3 else None)
        key = (passage.state.name, passage.trigger.name)
        if key not in moves:
            raise MisuseError(
                f"no row for {key[1]} in {key[0]} (L1): give the table on which the walk was made as rows"
            )
        spent = None
        if moves[key].source != moves[key].dest:
            if passage.time is not None and entered is not None:
                spent = passage.time - entered
            entered = passage.time
        visits[key] = _joined(visits.get(key), Visit(1, spent, passage.time, passage.time))
    return Walk(visits)


def merge_walks(walks: Iterable[Walk]) -> Walk:
    """Join walks into one, as over many logs: counts and times are summed."""
    visits: dict[tuple[str, str], Visit] = {}
    for walk in walks:
        for key, visit in walk.visits.items():
            visits[key] = _joined(visits.get(key), visit)
    return Walk(visits)


def _joined(one: Visit | None, other: Visit) -> Visit:
    if one is None:
        return other
    spent = [visit.spent for visit in (one, other) if visit.spent is not None]
    first = [visit.first for visit in (one, other) if visit.first is not None]
    last = [visit.last for visit in (one, other) if visit.last is not None]
    return evolve(
        other,
        count=one.count + other.count,
        spent=sum(spent) if spent else None,
        first=min(first, default=None),
        last=max(last, default=None),
    )


def walked_graph(rows: Iterable[Transition], walk: Walk | None) -> Graph:
    """The graph of a table, on which a walk is to be drawn, if there is one.

    Raises:
        MisuseError: a visit has no row to be drawn on: the drawing would hide what was walked.
    """
    graph = graph_of(rows)
    strays = sorted(" ".join(key) for key in set(walk.visits if walk else ()) - {move.key for move in graph.moves})
    if strays:
        raise MisuseError(f"the walk has rows that the table has not: {', '.join(strays)}; draw it on its own table")
    return graph


MAX_COVERAGE = 1 << 20
"""Bytes that a coverage file may have (X3)."""

# --- coverage files ---------------------------------------------------------------------------------------------------


def coverage_text(walk: Walk) -> str:
    """The coverage file of a walk: ``{"rows": {"IDLE WAKE": 3, …}}``, sorted, with an end of line."""
    rows = {" ".join(key): visit.count for key, visit in sorted(walk.visits.items())}
    return json.dumps({"rows": rows}, indent=1) + "\n"


def walk_of_coverage(text: str | bytes) -> Walk:
    """Read the content of a coverage file. Rows it counts as 0, or leaves out, were not visited.

    Raises:
        InvalidData: it is no coverage file; the message says what is wrong and where.
    """
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidData(f'a coverage file is JSON like {{"rows": {{"IDLE WAKE": 3}}}}: {error}') from error
    rows = cast("dict[str, Any]", raw).get("rows") if isinstance(raw, dict) else None
    if not isinstance(rows, dict):
        raise InvalidData('a coverage file has an object under "rows", like {"rows": {"IDLE WAKE": 3}}')
    return Walk(
        {_row_key(name): Visit(_row_count(name, count)) for name, count in cast("dict[str, Any]", rows).items()}
    )


def read_coverage(path: str | Path) -> Walk:
    """Read a coverage file.

    Raises:
        InvalidData: it is no coverage file.
        OSError: it cannot be read.
    """
    with Path(path).open("rb") as file:
        content = file.read(MAX_COVERAGE + 1)
    if len(content) > MAX_COVERAGE:
        raise InvalidData(f"{path} is longer than {MAX_COVERAGE:,} bytes, so it is no coverage file (X3)")
    try:
        return walk_of_coverage(content)
    except InvalidData as error:
        raise InvalidData(f"{path}: {error}") from error


def _row_key(name: str) -> tuple[str, str]:
    state, _, trigger = name.partition(" ")
    if not state or not trigger:
        raise InvalidData(f"a row is named by state and trigger, like 'IDLE WAKE', not {name!r}", "$.rows")
    return state, trigger


def _row_count(name: str, count: Any) -> int:
    if type(count) is not int or count < 0:
        raise InvalidData(f"a count is a whole number from 0, not {count!r}", f"$.rows[{name!r}]")
    return count
