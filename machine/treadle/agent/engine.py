"""What drives an agent, as its handle and whoever waits for it see it (§2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

if TYPE_CHECKING:
    import trio

    from ..kernel.inputs import Input
    from ..kernel.kernel import Kernel
    from ..words.events import Target
    from ..words.messages import UserMessage
    from .delivery import Receipt
    from .maintenance import MaintenanceTask


@frozen
class Converging:
    """What a cancellation is waiting for (C10).

    Attributes:
        what: the operation that has not settled.
        since: seconds on trio's clock when the cancel was made.
        seconds: how long it has taken so far.
    """

    what: str
    since: float
    seconds: float


class Engine(Protocol):
    """Feeds the kernel of one agent; the loop's ``Driver`` is one.

    Attributes:
        kernel: decides; to be read here, and changed through ``feed`` only.
    """

    kernel: Kernel

    # --- what is asked of an agent ------------------------------------------------------------------------------------

    def check_thread(self) -> None:
        """Raise ``MisuseError`` when called from a foreign thread (D2)."""
        ...

    def feed(self, given: Input) -> None:
        """Give the kernel one input, do what it asks for, and tell everybody (H4)."""
        ...

    def deliver(self, message: UserMessage, target: Target, wakeup: bool) -> Receipt:
        """Deliver a message; returns its receipt (D1, D8)."""
        ...

    def maintain(self, task: MaintenanceTask[Any]) -> None:
        """Claim the idle agent for a maintenance task (M1)."""
        ...

    # --- waiting for it -----------------------------------------------------------------------------------------------

    @property
    def converging(self) -> Converging | None:
        """What a cancellation is waiting for (C10)."""
        ...

    @property
    def quiet(self) -> bool:
        """Whether nothing is active, due, or about to start, and no flush is under way (L6, P8)."""
        ...

    @property
    def last_ended(self) -> int:
        """The number of the last turn that has ended, 0 when none has."""
        ...

    @property
    def ended(self) -> int:
        """How many turns have ended."""
        ...

    @property
    def creator(self) -> trio.lowlevel.Task | None:
        """The task that awaits the agent's creation, while it does (O15)."""
        ...

    def awaited_tasks(self) -> Iterator[trio.lowlevel.Task]:
        """The tasks that must end before it is quiet: whoever waits there waits for himself (L6)."""
        ...

    def last_tasks(self) -> Iterator[trio.lowlevel.Task]:
        """The tasks that flush a turn that has ended, and that run the clean-ups of its disposal (P8, O4)."""
        ...

    async def until_changed(self) -> None:
        """Wait until a message has met its fate, a turn has ended, or it is quiet."""
        ...

    async def flushed(self) -> None:
        """Wait for the flushes that are under way now (P8)."""
        ...

    async def durable(self) -> None:
        """Flush what has been recorded so far; raises what that failed with (P8)."""
        ...

    async def until_quiet(self) -> None:
        """Wait until it is quiet."""
        ...

    def cancel_with_parent(self) -> bool:
        """Cancel the agent if its parent's turn, which is being cancelled, waited for it; returns whether so (O6)."""
        ...
