"""What an operation is given of the loop that runs it.

An operation (admission, a request, recovery, tools, stopping, maintenance) reads what it works on, asks hooks and
adapters, and answers with one outcome. All it may do to the agent meanwhile stands here: feed the kernel, have
something told, and learn of a cancel. It never sees the driver, so that nothing but the driver moves the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..agent.agent import Agent
from ..agent.maintenance import MaintenanceTask
from ..kernel.inputs import Input
from ..kernel.schedule import Schedule
from ..words.messages import UserMessage
from ..words.reasons import Cause
from ..words.signal import SignalSource
from .outbox import Outbox
from .request_state import RequestState
from .services import Services


class Facts(Protocol):
    """What operations may read of the kernel; they change it by what they feed."""

    @property
    def cause(self) -> Cause | None:
        """Why the activity is being cancelled, ``None`` while it is not (C2)."""
        ...

    @property
    def accepted(self) -> tuple[UserMessage, ...]:
        """The batch that was accepted for the open step and is not recorded yet (T12)."""
        ...

    @property
    def series(self) -> bool:
        """Whether the open step starts a series of requests."""
        ...

    @property
    def owes(self) -> bool:
        """Whether the step is due even if nothing enters it."""
        ...

    @property
    def schedule(self) -> Schedule | None:
        """The calls of the open step's answer, ``None`` where it has none."""
        ...

    def taken(self, message_id: str) -> bool:
        """Whether a message id is pending, claimed by the open turn, or recorded (I1)."""
        ...


class Activity:
    """What the operations of one agent are given; made when the agent first runs.

    Attributes:
        agent: whose operations they are.
        host: what the host gives to all.
        facts: what may be read of the kernel.
        feed: gives the kernel an input, and performs what follows.
        outbox: what is still to be told.
        requests: what is remembered between requests.
        signal: of the turn or task under way (H9).
        when_cancelled: what the running operation wants called inside the call of a cancel, before anything unwinds
            (C3).
        task: the maintenance task that runs, or is claimed to run (M1).
    """

    __slots__ = ("agent", "facts", "feed", "host", "outbox", "requests", "signal", "task", "when_cancelled")

    def __init__(
        self,
        agent: Agent,
        host: Services,
        facts: Facts,
        feed: Callable[[Input], None],
        outbox: Outbox,
        requests: RequestState,
    ) -> None:
        self.agent = agent
        self.host = host
        self.facts = facts
        self.feed = feed
        self.outbox = outbox
        self.requests = requests
        self.signal = SignalSource()
        self.when_cancelled: Callable[[], None] | None = None
        self.task: MaintenanceTask[Any] | None = None

    @property
    def cancelled(self) -> bool:
        """Whether the activity is being cancelled; what it was in the middle of ends as of that moment (C3)."""
        return self.facts.cause is not None

    def cancel(self, cause: Cause) -> None:
        """Set the signal, and tell the running operation (C3)."""
        self.signal.cancel(cause)
        if self.when_cancelled is not None:
            self.when_cancelled()
