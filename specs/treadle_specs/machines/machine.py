"""What machines share: a bench, and an end that leaves nothing behind whatever was found."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from treadle.errors import TreadleError

from ..exploration.violation import Violation
from .bench import Bench

F = TypeVar("F", bound=Callable[..., Any])


class Machine(RuleBasedStateMachine):
    """A rule-based machine over a stepped run; rules that call the subject are marked with ``step``."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.broken = False

    def look(self) -> None:
        """Hold what is seen to the model; after each step."""

    def end(self) -> None:
        """Bring the run to its end, and hold that to the model."""

    @contextmanager
    def held(self) -> Generator[None]:
        """Remember that a rule was broken: nothing more is asked then.

        Raises:
            Violation: the subject refused a call for a reason that nobody expected.
        """
        try:
            yield
            self.look()
        except TreadleError as error:  # what a call may raise is caught where it is made
            self.broken = True
            raise Violation("L8", f"unexpected: {error!r}") from error
        except BaseException:
            self.broken = True
            raise

    def teardown(self) -> None:
        """End the run: in order, or by force where it broke."""
        try:
            if not self.broken:
                with self.held():
                    self.end()
        finally:
            self.bench.drop()


def step(function: F) -> F:
    """A rule's body: makes calls on the subject, and is followed by a look."""

    @wraps(function)
    def stepped(self: Machine, *args: Any, **named: Any) -> Any:
        with self.held():
            return function(self, *args, **named)

    return stepped  # type: ignore[return-value]  # the same signature
