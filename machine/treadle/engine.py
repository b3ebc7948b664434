"""What drives an agent, as its handle and whoever waits for it see it (§2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import trio

    from .inputs import Input
    from .kernel import Kernel
    from .maintenance import MaintenanceTask
    from .receipts import Receipt
    from .session.log import Session


class Engine(Protocol):
    """Feeds the kernel of one agent; the loop's ``Driver`` is one.

    Attributes:
        session: the log that it writes.
        kernel: decides; to be read here, and changed through ``feed`` only.
        receipts: of the messages whose fate is not known, by their ids.
        maintenance: the task that the agent was claimed for last (M1).
        creator: the task that awaits the agent's creation, while it does (O15).
        since: seconds on trio's clock when the cancel was made that converges now, ``None`` when there is none (C10).
        ended: how many turns have ended.
    """

    session: Session
    kernel: Kernel
    receipts: dict[str, Receipt]
    maintenance: MaintenanceTask[Any] | None
    creator: trio.lowlevel.Task | None
    since: float | None
    ended: int

    def check_thread(self) -> None:
        """Raise ``MisuseError`` when called from a foreign thread (D2)."""
        ...

    def feed(self, given: Input) -> None:
        """Give the kernel one input, do what it asks for, and tell everybody (H4)."""
        ...

    @property
    def own(self) -> bool:
        """Whether the caller is the running activity's own hook or tool, and no listener of a notification (D4)."""
        ...

    @property
    def below(self) -> bool:
        """Whether the caller was started by the running activity, at whatever remove (O7)."""
        ...

    @property
    def tasks(self) -> Iterable[trio.lowlevel.Task]:
        """The tasks that run the agent's own operation, creation and flushes: to wait there is to wait for oneself."""
        ...

    @property
    def quiet(self) -> bool:
        """Whether nothing is active, due, or about to start (L6)."""
        ...

    async def until_quiet(self) -> None:
        """Wait until it is quiet and no flush is under way (P8)."""
        ...
