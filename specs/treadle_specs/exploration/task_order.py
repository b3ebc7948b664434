"""The order in which trio runs the tasks of one batch, under the control of a test.

trio shuffles each batch of runnable tasks with a private random generator. This is the one module that touches it.
Should the private names be gone, tasks run in trio's own order: correct programs do not notice, and ``CONTROLLED``
says that drawn orders have no effect.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

_RUN: Any = importlib.import_module("trio._core._run")
_SWITCH, _SOURCE = "_ALLOW_DETERMINISTIC_SCHEDULING", "_r"

CONTROLLED: bool = hasattr(_RUN, _SWITCH) and hasattr(_RUN, _SOURCE)
"""Whether this trio lets an ``Order`` decide."""


class Order(random.Random):
    """Decides the order of each batch from integers given beforehand; once they are used up, oldest task first.

    Drawing inside the scheduler would break trio, so a property draws the integers as an argument of its rule and
    hands them over with ``feed``.
    """

    def __init__(self, drawn: Iterable[int] = ()) -> None:
        super().__init__(0)
        self._drawn = list(drawn)
        self._drawn.reverse()

    def feed(self, drawn: Iterable[int]) -> None:
        """Use these integers next, instead of what is left of the earlier ones."""
        self._drawn = list(drawn)
        self._drawn.reverse()

    def shuffle(self, x: Any) -> None:
        """Order a batch in place; trio runs it from the end."""
        for first in range(len(x) - 1):
            if not self._drawn:
                break
            other = first + self._drawn.pop() % (len(x) - first)
            x[first], x[other] = x[other], x[first]
        x.reverse()

    def random(self) -> float:
        """Decide whether trio reverses a batch, where it does not shuffle."""
        return 0.75 if self._drawn and self._drawn.pop() % 2 else 0.0


@contextmanager
def applied(order: Order) -> Generator[None]:
    """Let ``order`` decide while the block runs; whatever decided before does so again afterwards."""
    if not CONTROLLED:
        yield
        return
    before = getattr(_RUN, _SWITCH), getattr(_RUN, _SOURCE)
    setattr(_RUN, _SWITCH, True)
    setattr(_RUN, _SOURCE, order)
    try:
        yield
    finally:
        setattr(_RUN, _SWITCH, before[0])
        setattr(_RUN, _SOURCE, before[1])
