"""Which tool call may start, and which result is due: the pure part of the scheduler (K4–K6)."""

from __future__ import annotations

from attrs import define, field

from ..errors import InvalidTrigger
from ..words.events import ToolResultAdded
from ..words.messages import ToolCall

PENDING, REFUSED, STARTED, FINISHED, SETTLED = "pending", "refused", "started", "finished", "settled"
_OVER = (FINISHED, REFUSED)
"""The life of one call: a refused one is settled without being started, the others were dispatched or not yet."""


@define
class Schedule:
    """The calls of one answer, in the model's order.

    Calls start in order; exclusive ones are barriers, parallel ones share ``pool`` slots (K4). Results settle in
    order, whatever the finishing order of the bodies (K5).

    Attributes:
        concluded: a result asked that the turn end after this step (T5).
        stand_ins: by call, the result that counts in the place of what its body came to (C4).
    """

    calls: tuple[ToolCall, ...]
    pool: int
    status: list[str] = field(init=False)
    next_start: int = 0
    next_settle: int = 0
    running: int = 0
    exclusive: bool = False
    concluded: bool = False
    stand_ins: dict[int, ToolResultAdded] = field(factory=lambda: {})

    def __attrs_post_init__(self) -> None:
        self.status = [PENDING] * len(self.calls)

    @property
    def done(self) -> bool:
        """Whether every call has its result."""
        return self.next_settle >= len(self.calls)

    @property
    def due(self) -> bool:
        """Whether the next result in the model's order is there to be recorded (K5)."""
        settle = self.next_settle
        return settle < len(self.calls) and self.status[settle] in _OVER

    @property
    def may_consider(self) -> bool:
        """Whether a further call could start now, should its mode allow it."""
        return self.next_start < len(self.calls) and not self.exclusive and self.running < self.pool

    @property
    def unconsidered(self) -> bool:
        """Whether the next result in the model's order is that of a call which was neither started nor refused."""
        settle = self.next_settle
        return settle < len(self.calls) and self.status[settle] == PENDING

    def may_start(self, parallel: bool) -> bool:
        """Whether the next pending call may start in this mode (K4)."""
        return self.may_consider and (parallel or self.running == 0)

    def start(self, index: int, parallel: bool) -> None:
        """A call's body starts.

        Raises:
            InvalidTrigger: it is not its turn, or a barrier or the pool forbids it.
        """
        if index != self.next_start or not self.may_start(parallel):
            raise InvalidTrigger(f"call {index} may not start now (K4): next is {self.next_start}, {self.running} run")
        if self.status[self.next_settle] == FINISHED:
            raise InvalidTrigger(f"the result of call {self.next_settle} is due before call {index} starts (K5)")
        self.status[index] = STARTED
        self.next_start += 1
        self.running += 1
        self.exclusive = not parallel

    def refuse(self, index: int) -> None:
        """A call will not run: unknown, malformed or denied. Later calls need not wait for it.

        Raises:
            InvalidTrigger: it is not its turn.
        """
        if index != self.next_start or index >= len(self.calls):
            raise InvalidTrigger(f"call {index} may not be refused now (K5): next is {self.next_start}")
        self.status[index] = REFUSED
        self.next_start += 1

    def finish(self, index: int, stand_in: ToolResultAdded | None = None) -> None:
        """A body is over; its slot is free, its result may not be due yet (K5).

        Args:
            index: the call.
            stand_in: the result that counts, where it is not the body's own.

        Raises:
            InvalidTrigger: that call is not running.
        """
        if self.status[index] != STARTED or self.running == 0:
            raise InvalidTrigger(f"call {index} is not running")
        self.status[index] = FINISHED
        if stand_in is not None:
            self.stand_ins[index] = stand_in
        self.running -= 1
        self.exclusive = False

    def settle(self, index: int) -> bool:
        """A result is recorded; returns whether the call had been started.

        Raises:
            InvalidTrigger: another result is due first (K5), or its body still runs.
        """
        if index != self.next_settle or index >= len(self.calls) or self.status[index] == STARTED:
            raise InvalidTrigger(f"the result of call {index} is not due: {self.next_settle} comes first (K5)")
        started = self.status[index] == FINISHED
        if not started:
            self.next_start = max(self.next_start, index + 1)
        self.status[index] = SETTLED
        self.next_settle += 1
        return started

    def drop(self, index: int) -> None:
        """A call is not started any more: its result says so.

        Raises:
            InvalidTrigger: another result is due first (K5), or it was started.
        """
        if self.status[index] == FINISHED:
            raise InvalidTrigger(f"call {index} was started: its own result counts (K6)")
        self.settle(index)

    def copy(self) -> Schedule:
        """An independent copy."""
        twin = Schedule(self.calls, self.pool)
        twin.status, twin.stand_ins = list(self.status), dict(self.stand_ins)
        twin.next_start, twin.next_settle = self.next_start, self.next_settle
        twin.running, twin.exclusive, twin.concluded = self.running, self.exclusive, self.concluded
        return twin
