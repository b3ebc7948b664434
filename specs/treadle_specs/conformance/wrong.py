"""Mutant drivers: small wrong drivers that the conformance kit must tell from a right one, from outside (§7)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from treadle.kernel import inputs, outcomes
from treadle.kernel.effects import Record
from treadle.kernel.state import KernelState
from treadle.loop import runner
from treadle.session import ToolResultAdded

from .faults import FAULTS, Fault, Patch, planted
from .kit import Untickable
from .local import LocalRig, MakeRig


def _answers_twice() -> list[Patch]:
    settled: Any = outcomes._call_settled  # pyright: ignore[reportPrivateUsage]  # the fault's place

    def twice(state: KernelState, schedule: Any, given: inputs.CallSettled) -> None:
        settled(state, schedule, given)
        told: list[Any] = list(state.out)
        state.out += [one for one in told if type(one) is Record and type(one.data) is ToolResultAdded]

    return [(outcomes, "_call_settled", twice)]


def _runs_after_dispose() -> list[Patch]:
    abort: Any = runner.Runner.abort

    def ignores_disposal(self: Any, cause: Any) -> None:
        if self._kernel.gone:
            return
        abort(self, cause)

    return [(runner.Runner, "abort", ignores_disposal)]


_OWN: tuple[Fault, ...] = (
    Fault("a call is answered twice", ("N1", "K5"), patches=_answers_twice),
    Fault("it runs on after a dispose", ("O4",), patches=_runs_after_dispose),
)
MUTANTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        *_OWN,
        *FAULTS,
    )
}
"""The mutant drivers, by what is wrong with them; all can be told from outside."""


class MutantRig(LocalRig):
    """Our own driver with a fault in it, for as long as the rig is there."""

    def __init__(self, fault: Fault) -> None:
        self._planted = ExitStack()
        self._planted.enter_context(planted(fault))
        super().__init__()

    def drop(self) -> None:
        """Give up, and take the fault out."""
        try:
            super().drop()
        finally:
            self._planted.close()

    def stop(self) -> None:
        """Wind down, and take the fault out."""
        try:
            super().stop()
        finally:
            self._planted.close()


def mutant(name: str) -> MakeRig:
    """Makes rigs of a mutant driver that only settle, as any other driver's would."""
    return lambda: Untickable(MutantRig(MUTANTS[name]))
