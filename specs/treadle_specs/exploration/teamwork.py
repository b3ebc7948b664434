"""Several processes on one exploration: each expands a part of a level, one keeps the book.

A level is expanded by forked children, which inherit every state found so far. They send back what is new as a key and
the input that leads there; the parent makes the state itself, so that no kernel crosses a process boundary.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from attrs import define, field

from treadle.kernel import inputs as i

from .lockstep import Key, Pair
from .violation import Violation

Level = list[tuple[int, Pair]]


@define
class Harvest:
    """What one process found in its part of a level.

    Attributes:
        tried: how many inputs.
        fresh: each new key with the state and input that lead there, in the order of discovery.
        edges: steps of the agent's own, from a state to a known state or to ``-1 - n``, the nth new one.
        rows: how often each row of the table was taken, by its place.
        broken: the first broken rule, with the state and input that show it.
    """

    tried: int = 0
    fresh: list[tuple[Key, int, i.Input]] = field(factory=list[tuple[Key, int, i.Input]])
    edges: list[tuple[int, int]] = field(factory=list[tuple[int, int]])
    rows: list[int] = field(factory=list[int])
    broken: tuple[Violation, int, i.Input | None] | None = None


def shared_out(level: Level, jobs: int, expand: Callable[[Level], Harvest]) -> list[Harvest]:
    """Expand a level in several processes; results come in the order of the level."""
    context = multiprocessing.get_context("fork")
    size = -(-len(level) // jobs)
    hands: list[tuple[Any, Connection]] = []
    for start in range(0, len(level), size):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(expand, level[start : start + size], theirs))
        process.start()
        theirs.close()
        hands.append((process, ours))
    harvests: list[Harvest] = []
    for process, ours in hands:
        try:
            harvests.append(ours.recv())
        except EOFError:
            raise RuntimeError("a process that explored its part of a level died") from None
        finally:
            process.join()
            ours.close()
    return harvests


def _work(expand: Callable[[Level], Harvest], part: Sequence[tuple[int, Pair]], out: Connection) -> None:
    out.send(expand(list(part)))
    out.close()
