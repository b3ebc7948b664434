"""What is drawn: the rows of a lifecycle table as states and arrows, without any place on paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Protocol

from attrs import frozen

from treadle import State
from treadle.kernel.lifecycle import INITIAL
from treadle.testing import TABLE


class Transition(Protocol):
    """A row of a lifecycle table: treadle's own ``Row``, or a plugin's over its own enums."""

    @property
    def source(self) -> Enum:
        """Where it starts."""
        ...

    @property
    def trigger(self) -> Enum:
        """What moves it."""
        ...

    @property
    def dest(self) -> Enum:
        """Where it leads."""
        ...

    @property
    def verbs(self) -> tuple[Callable[..., Any], ...]:
        """What runs, in order."""
        ...


@frozen
class Move:
    """One row as it is drawn.

    Attributes:
        key: the names of state and trigger, by which walks count.
        source: the shown name of the state it starts in.
        trigger: the shown name of what moves it.
        dest: the shown name of the state it leads to.
        verbs: the names of what it runs, in order.
    """

    key: tuple[str, str]
    source: str
    trigger: str
    dest: str
    verbs: tuple[str, ...]


@frozen
class Arrow:
    """All moves from one state to another: drawn as one arrow with several labels."""

    source: str
    dest: str
    moves: tuple[Move, ...]

    @property
    def loops(self) -> bool:
        """Whether it leads back to where it starts."""
        return self.source == self.dest


@frozen
class Graph:
    """A table ready to be drawn.

    Attributes:
        states: those that rows mention, in life order, foreign ones last.
        moves: one per row, in the table's order.
        arrows: the moves, merged by source and dest, in the table's order.
        initial: where an agent begins, ``None`` when the table does not mention that state.
    """

    states: tuple[str, ...]
    moves: tuple[Move, ...]
    arrows: tuple[Arrow, ...]
    initial: str | None


def shown(member: Enum) -> str:
    """The name a state or trigger is drawn under: its value where that is text, as in the contract."""
    return member.value if isinstance(member.value, str) else member.name.lower()


def graph_of(rows: Iterable[Transition] = TABLE) -> Graph:
    """Make the graph of a table. Nothing is judged: a table that is no sound lifecycle is drawn as it is."""
    rows = tuple(rows)
    moves = tuple(_move(row) for row in rows)
    merged: dict[tuple[str, str], list[Move]] = {}
    for move in moves:
        merged.setdefault((move.source, move.dest), []).append(move)
    mentioned = dict.fromkeys(shown(state) for row in rows for state in (row.source, row.dest))
    known = [shown(state) for state in State if shown(state) in mentioned]
    states = tuple(dict.fromkeys([*known, *mentioned]))
    return Graph(
        states=states,
        moves=moves,
        arrows=tuple(Arrow(source, dest, tuple(group)) for (source, dest), group in merged.items()),
        initial=shown(INITIAL) if shown(INITIAL) in mentioned else None,
    )


def _move(row: Transition) -> Move:
    return Move(
        key=(row.source.name, row.trigger.name),
        source=shown(row.source),
        trigger=shown(row.trigger),
        dest=shown(row.dest),
        verbs=tuple(getattr(verb, "__name__", type(verb).__name__) for verb in row.verbs),
    )
