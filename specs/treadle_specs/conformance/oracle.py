"""The contract's model as an oracle: every commit of a live driver must be what the model, fed the same, leads to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from treadle import TreadleError
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel
from treadle.kernel.lifecycle import Stateful
from treadle.testing import Lifecycle, Row, Trigger

from ..exploration.comparison import compare, compare_effects
from ..exploration.violation import Violation
from ..model.model import Model

Pairs = Counter[tuple[str, str]]
"""How often each (state, trigger) pair was met."""


class Oracle:
    """Watches every kernel of the process while it is installed.

    A driver contains whatever its kernel raises, so what is found is kept and raised by whoever asks.
    """

    def __init__(self) -> None:
        self.pairs: Pairs = Counter()
        self.commits = 0
        self._broken: list[BaseException] = []
        self._models: WeakKeyDictionary[Kernel, Model] = WeakKeyDictionary()

    def verdict(self) -> None:
        """Raise what was found since the last verdict.

        Raises:
            Violation: a commit was another than the model's.
        """
        if self._broken:
            first = self._broken[0]
            self._broken.clear()
            raise first

    def forget(self) -> None:
        """Drop what was found; the next run starts clean."""
        self._broken.clear()

    @contextmanager
    def installed(self) -> Generator[Oracle]:
        """Watch while the block runs."""
        receive, fire = Kernel.receive, Lifecycle.fire

        def watched(kernel: Kernel, given: i.Input) -> tuple[fx.Effect, ...]:
            model = self._models.get(kernel)
            if model is None:
                model = self._models[kernel] = model_of(kernel)
            effects = receive(kernel, given)
            self._check(model, given, effects, kernel)
            return effects

        def counted(lifecycle: Lifecycle, model: Stateful, trigger: Trigger) -> Row:
            self.pairs[model.state.name, trigger.name] += 1
            return fire(lifecycle, model, trigger)

        kernels: Any = Kernel
        lifecycles: Any = Lifecycle
        kernels.receive, lifecycles.fire = watched, counted
        try:
            yield self
        finally:
            kernels.receive, lifecycles.fire = receive, fire

    def _check(self, model: Model, given: i.Input, effects: tuple[fx.Effect, ...], kernel: Kernel) -> None:
        self.commits += 1
        try:
            compare_effects(effects, model.receive(given))
            compare(kernel, model)
        except TreadleError as refusal:
            self._broken.append(Violation("L1", f"{type(given).__name__} is taken in {model.state}: {refusal!r}"))
        except Violation as broken:
            self._broken.append(broken)


def model_of(kernel: Kernel) -> Model:
    """The model of an agent that has done nothing yet, with what its session holds."""
    model = Model(kernel.max_steps, kernel.pool, held=kernel.held)
    model.turn, model.recorded = kernel.turn, frozenset(kernel.recorded)
    model.last_reason = kernel.last_reason
    model.next_turn = tuple([(entry.message, entry.waking) for entry in kernel.inbox.next_turn])
    model.next_step = tuple([(entry.message, entry.waking) for entry in kernel.inbox.next_step])
    return model
