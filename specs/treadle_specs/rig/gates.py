"""Gates: where a part of the driver waits for the tester."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from treadle import Signal

from .answers import Raise, Settle, parse_answer
from .protocol import Json, refuse

CANCEL_WINS = frozenset({"pre-step", "turn-stopping", "request-error", "prompt-submit", "request"})
"""Kinds at which a cancel made in the same breath as the answer wins (C8)."""


class GateFailure(Exception):
    """Raised at a gate because the tester said so."""


class Gate:
    """One place where the driver waits; gone once it is answered or its operation is cancelled.

    Args:
        name: how the tester names it.
        kind: what waits.
        facts: what is reported beside name and kind.
        signal: tells that the operation was cancelled.
        place: orders the gates of a report.
    """

    def __init__(self, name: str, kind: str, facts: Json, signal: Signal | None, place: tuple[int, ...]) -> None:
        self.name, self.kind, self.facts, self.place = name, kind, facts, place
        self._signal = signal
        self._event = trio.Event()
        self._answer: Any = None

    @property
    def stubborn(self) -> bool:
        """Whether it ignores cancellation."""
        return self.kind == "stubborn-tool"

    @property
    def waiting(self) -> bool:
        """Whether the tester may pass it."""
        cancelled = self._signal is not None and self._signal.cancelled
        return not self._event.is_set() and (self.stubborn or not cancelled)

    def report(self) -> Json:
        """As ``settle`` reports it."""
        return {"gate": self.name, "kind": self.kind, **self.facts}

    def answer(self, answer: Any) -> None:
        """Let it go on; the driver notices in the next settle."""
        self._answer = answer
        self._event.set()

    async def wait(self) -> Any:
        """Wait for the answer. A stubborn tool ignores cancellation, every other kind lets it through."""
        with trio.CancelScope(shield=self.stubborn):
            await self._event.wait()
        if self.kind in CANCEL_WINS:
            await trio.lowlevel.checkpoint_if_cancelled()
        answer, self._answer = self._answer, None
        self._event = trio.Event()
        if isinstance(answer, Raise):
            raise GateFailure(answer.message)
        return answer


class Gates:
    """All gates of a rig, in the order in which their work was started."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._count = 0
        self._open: dict[str, Gate] = {}
        self.unattended = False

    def __len__(self) -> int:
        return len(self._open)

    def report(self, place: int) -> list[Json]:
        """The waiting gates of one agent."""
        waiting = [gate for gate in self._open.values() if gate.waiting and gate.place[0] == place]
        return [gate.report() for gate in sorted(waiting, key=lambda gate: gate.place)]

    def passed(self, request: Json) -> None:
        """Answer a gate; a refused answer leaves it waiting."""
        name = request.get("gate")
        gate = self._open.get(name) if isinstance(name, str) else None
        if gate is None or not gate.waiting:
            refuse("no-such-gate", f"no gate {name!r} is waiting")
        gate.answer(parse_answer(gate.kind, request))

    def leave(self) -> None:
        """The tester is gone: gates that ignore cancellation open, now and later; the others wait to be cancelled."""
        self.unattended = True
        for gate in self._open.values():
            self._attend(gate)

    def _attend(self, gate: Gate) -> None:
        if self.unattended and gate.stubborn:
            gate.answer(Settle())

    def open(self, kind: str, facts: Json, signal: Signal | None, seat: int, started: int | None = None) -> Gate:
        """Make a gate; the caller closes it.

        Args:
            kind: what waits.
            facts: what is reported of it.
            signal: of its operation.
            seat: the agent's number.
            started: when its work was started, if that is earlier than now.
        """
        self._count += 1
        place = (seat, started if started is not None else self._clock(), self._count)
        gate = Gate(f"g{self._count}", kind, facts, signal, place)
        self._open[gate.name] = gate
        self._attend(gate)
        return gate

    def close(self, gate: Gate) -> None:
        """Forget a gate whose work went on."""
        self._open.pop(gate.name, None)

    async def wait_at(
        self, kind: str, facts: Json, signal: Signal | None, seat: int, started: int | None = None
    ) -> Any:
        """Wait at a fresh gate; returns the answer."""
        gate = self.open(kind, facts, signal, seat, started)
        try:
            return await gate.wait()
        finally:
            self.close(gate)
