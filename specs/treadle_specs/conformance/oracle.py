"""The kernel's own semantics as an oracle: every commit of a live driver is held against the laws of exploration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel
from treadle.kernel.lifecycle import Stateful
from treadle.testing import Lifecycle, Row, Trigger

from ..exploration.laws import check_commit
from ..exploration.node import View
from ..exploration.violation import Violation

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
        self._reread: WeakKeyDictionary[Kernel, bool] = WeakKeyDictionary()

    def verdict(self) -> None:
        """Raise what was found since the last verdict.

        Raises:
            Violation: a commit broke a law.
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
            before = kernel.copy()
            effects = receive(kernel, given)
            self._check(before, given, effects, kernel)
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

    def _check(self, before: Kernel, given: i.Input, effects: tuple[fx.Effect, ...], after: Kernel) -> None:
        self.commits += 1
        reread = self._reread.get(after, False)
        due = any(type(effect) is fx.Reread for effect in effects)
        self._reread[after] = due or (reread and type(given) is not i.Replayed)
        try:
            check_commit(before, View(before), given, effects, after, reread=reread)
        except Violation as broken:
            self._broken.append(broken)
