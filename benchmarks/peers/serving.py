"""A driver of agents as a child process that does so much work when it is asked to; the standard library is all it needs.

A line in is a kind of work and its amount, ``turns 100``; a line out is the processor time that it took, in seconds. Each script of
this folder gives three kinds, and each kind begins a conversation of its own outside of what is timed:

- ``turns``: so many turns of one conversation, each a question and an answer of one word, its history kept;
- ``steps``: one turn of so many steps, each a call of a tool without arguments, then an answer;
- ``chunks``: one turn whose answer comes in so many pieces, and somebody listens to each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager


class Clock:
    """Adds up processor time, that of all threads."""

    spent = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time a block."""
        before = time.process_time()
        yield
        self.spent += time.process_time() - before


Work = Callable[[int, Clock], Awaitable[None]]


def serve(run: Callable[[Work, int, Clock], object], version: str, **kinds: Work) -> None:
    """Say who it is, then do what each line asks for until the input ends.

    Args:
        run: runs a kind of work on a fresh event loop.
        version: of the driver.
        kinds: of work, by name.
    """
    print(version, flush=True)
    for line in sys.stdin:
        kind, amount = line.split()
        clock = Clock()
        run(kinds[kind], int(amount), clock)
        print(clock.spent, flush=True)


def expect(got: object, wanted: object) -> None:
    """Hold that the work was done.

    Raises:
        SystemExit: it was not.
    """
    if got != wanted:
        sys.exit(f"{wanted!r} was to come of it, not {got!r}")
