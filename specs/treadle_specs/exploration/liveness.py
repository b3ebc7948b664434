"""What must become possible, or must happen, without a further call."""

from __future__ import annotations

from .violation import Violation


class Graph:
    """The explored states as numbers, with the steps that the agent takes by itself: outcomes, progress, replays."""

    def __init__(self) -> None:
        self._settled: list[bool] = []
        self._converging: list[bool] = []
        self._next: list[list[int]] = []

    def state(self, settled: bool, converging: bool) -> None:
        """Add the next state: whether it is idle or disposed, and whether it is converging."""
        self._settled.append(settled)
        self._converging.append(converging)
        self._next.append([])

    def edge(self, source: int, dest: int) -> None:
        """The agent can go by itself from one state to another."""
        self._next[source].append(dest)

    def check(self) -> int:
        """Check that every state can settle, and that convergence always ends.

        Returns:
            A state, for the caller's convenience.

        Raises:
            Violation: with the offending state as ``at``.
        """
        self._check_settles()
        self._check_converges()
        return 0

    def _check_settles(self) -> None:
        """From every state idle or disposed is reachable by what the agent does by itself (L7, C4, O4)."""
        reverse: list[list[int]] = [[] for _ in self._next]
        for source, dests in enumerate(self._next):
            for dest in dests:
                reverse[dest].append(source)
        good = list(self._settled)
        todo = [state for state, settled in enumerate(good) if settled]
        while todo:
            for source in reverse[todo.pop()]:
                if not good[source]:
                    good[source] = True
                    todo.append(source)
        if not all(good):
            raise stuck("L7", "from here the agent never comes to rest by itself", good.index(False))

    def _check_converges(self) -> None:
        """While a cancel or dispose converges no two states lead to each other: it ends (C4, N7, O4)."""
        inner = [[dest for dest in dests if self._converging[dest]] for dests in self._next]
        waits = [0] * len(inner)
        for source, dests in enumerate(inner):
            if self._converging[source]:
                for dest in dests:
                    waits[dest] += 1
        todo = [state for state, converging in enumerate(self._converging) if converging and not waits[state]]
        left = sum(self._converging)
        while todo:
            left -= 1
            for dest in inner[todo.pop()]:
                waits[dest] -= 1
                if not waits[dest]:
                    todo.append(dest)
        if left:
            at = next(n for n, converging in enumerate(self._converging) if converging and waits[n])
            raise stuck("N7", "convergence can go round in a circle", at)


def stuck(rule: str, message: str, at: int) -> Violation:
    """A violation found in the graph as a whole."""
    violation = Violation(rule, message)
    violation.at = at  # type: ignore[attr-defined]
    return violation
