"""One explored state: the shipped kernel, and the little that its environment knows besides."""

from __future__ import annotations

from typing import Any

from treadle.kernel.effects import PROCEED, Admit
from treadle.kernel.kernel import Kernel
from treadle.kernel.pending import Entry
from treadle.kernel.schedule import PENDING, REFUSED

NO_REQUEST, ASKED, PREPARED, ATTEMPTED = 0, 1, 2, 3
"""How far the owed request is: nothing yet, asked for, prepared, or with an attempt recorded (T1)."""

Key = tuple[Any, ...]
"""What tells two states apart; message ids appear as numbers in the order in which they are met."""

Pending = tuple[str, bool]
"""A pending message: its id, and whether it came by a waking delivery or presses."""


def pending(entries: list[Entry]) -> list[Pending]:
    """The entries of a list as the laws compare them."""
    return [(entry.message.id, entry.waking) for entry in entries]


class View:
    """What the laws compare of a kernel's state.

    Attributes:
        turns: next-turn.
        steps: next-step.
        claimed: ids of the claimed batch.
        accepted: ids of the batch that the open step accepted and has not recorded.
        asked: call ids whose results are due, in order.
        called: those of them that were started.
    """

    __slots__ = ("accepted", "asked", "called", "claimed", "steps", "turns")

    def __init__(self, kernel: Kernel) -> None:
        self.turns = pending(kernel.inbox.next_turn)
        self.steps = pending(kernel.inbox.next_step)
        self.claimed = [message.id for message in kernel.claimed]
        self.accepted = [message.id for message in kernel.accepted]
        self.asked: list[str] = []
        self.called: frozenset[str] = frozenset()
        schedule = kernel.schedule
        if schedule is not None:
            self.asked = [call.call_id for call in schedule.calls[schedule.next_settle :]]
            status = zip(schedule.calls, schedule.status, strict=True)
            self.called = frozenset([call.call_id for call, now in status if now not in (PENDING, REFUSED)])

    @property
    def presses(self) -> bool:
        """Whether next-step holds a pressing entry (§1)."""
        return any(presses for _, presses in self.steps)

    @property
    def live(self) -> set[str]:
        """The messages that have been accepted and have no fate yet (I5)."""
        every = {message_id for message_id, _ in self.turns}
        every.update([message_id for message_id, _ in self.steps], self.claimed, self.accepted)
        return every


class Node:
    """A kernel between two inputs.

    Attributes:
        kernel: the shipped kernel.
        reread: the notifications of a convergence are running: only calls, and then ``Replayed``, can come (H4).
        phase: how far the owed request is.
        key: tells states apart.
        view: what the laws compare of the kernel.
    """

    __slots__ = ("kernel", "key", "phase", "reread", "view")

    def __init__(self, kernel: Kernel, reread: bool = False, phase: int = NO_REQUEST, view: View | None = None) -> None:
        self.kernel = kernel
        self.reread = reread
        self.phase = phase
        self.key = canonical(kernel, reread, phase)
        self.view = view or View(kernel)


def canonical(kernel: Kernel, reread: bool, phase: int) -> Key:
    """The key of a state, with symmetric message ids merged.

    Left out is what no rule of the kernel can tell apart: the texts of messages, turn and attempt numbers, the last
    reason, the step number of a turn without a step limit, and the results that stand in for a body's own.
    """
    names: dict[str, int] = {}
    number = names.setdefault
    inbox = kernel.inbox
    turns = tuple([(number(e.message.id, len(names)), e.waking) for e in inbox.next_turn])
    steps = tuple([(number(e.message.id, len(names)), e.waking) for e in inbox.next_step])
    claimed = tuple([number(message.id, len(names)) for message in kernel.claimed])
    accepted = tuple([number(message.id, len(names)) for message in kernel.accepted])
    owed: Any = kernel.owed
    if type(owed) is Admit:
        batch = tuple([names.get(message.id, -1) for message in owed.batch])
        owed = (batch, names.get(owed.prompt.id, -1) if owed.prompt is not None else None)
    elif owed is not PROCEED:
        owed = owed.__class__
    schedule = kernel.schedule
    calls = None
    if schedule is not None:
        calls = (tuple(schedule.status), schedule.running, schedule.exclusive, schedule.concluded)
    return (
        kernel.state,
        turns,
        steps,
        claimed,
        accepted,
        owed,
        calls,
        phase,
        reread,
        (kernel.latched, kernel.reserved, kernel.held, kernel.keep, kernel.truncated, kernel.owes, kernel.series),
        type(kernel.cause),
        kernel.step if kernel.max_steps is not None else kernel.step_open,
        kernel.turn_open,
        kernel.max_steps,
    )
