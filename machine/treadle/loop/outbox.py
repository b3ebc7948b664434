"""What is still to be told of one agent, in one queue.

Whatever listeners cause is committed at once and told behind what is already due. So everybody sees the order of the
log, whoever acts in between, and no listener runs inside another one's notification (H4, H8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..agent.agent import Agent
from ..containment import LEAVING
from ..hooks.dispatch import Listener, emit
from ..hooks.points import SESSION_EVENT, SessionEventAdded
from ..hooks.reports import report_failure
from ..kernel.effects import Publish
from ..kernel.inputs import Proceeded, Replayed
from ..kernel.kernel import Kernel
from ..leftovers import standing, tidy_sync
from ..words.events import Event
from .notices import announce

Due = Event | Publish | Proceeded | Replayed | Callable[[], None]
"""A recorded event, a notice of the kernel's, an input that the kernel wants back afterwards, or something to call."""


class Owner(Protocol):
    """Whose outbox it is."""

    def perform_next(self, given: Proceeded | Replayed) -> None:
        """Give the kernel an input that it wanted back, and perform what follows."""
        ...

    def wake_waiters(self) -> None:
        """Nothing is due any more."""
        ...


class Outbox:
    """The queue of one agent.

    Attributes:
        due: what is to be told, in order.
        after: what is to be told right after the notifications of the next commit.
        telling: whether listeners are being told now.
    """

    __slots__ = ("_agent", "_kernel", "_owner", "after", "due", "telling")

    def __init__(self, agent: Agent, kernel: Kernel, owner: Owner) -> None:
        self._agent = agent
        self._kernel = kernel
        self._owner = owner
        self.after: Callable[[], None] | None = None
        self.due: list[Due] = []
        self.telling = False

    # --- filling ------------------------------------------------------------------------------------------------------

    def after_commit(self, tell: Callable[[], None]) -> None:
        """Tell something right after the notifications of the next commit."""
        self.after = tell

    def committed(self) -> None:
        """Queue what was to be told after the commit that has just been made."""
        if self.after is not None:
            self.due.append(self.after)
            self.after = None

    def later(self, told: Callable[[], None] | Event) -> None:
        """Queue a notification, or an event that a plugin appended, behind what is already due (H4)."""
        self.due.append(told)
        if not self.telling:
            self.drain()

    def report(self, error: BaseException, who: str) -> None:
        """Publish a failure that ends nothing as ``agent/error``, behind what is already due (N8, H4)."""
        turn, step = self._kernel.turn, self._kernel.step
        self.later(lambda: report_failure(self._agent, error, who, turn, step))

    def report_listener(self, listener: Listener, error: BaseException) -> None:
        """A listener of a notification failed: the others go on, the failure is visible (H5, N8)."""
        self.report(error, f"listener {listener.name}")

    # --- telling ------------------------------------------------------------------------------------------------------

    def now(self, listeners: tuple[Listener, ...], payload: object) -> None:
        """Tell listeners at once, and then what that caused. For the driver's own task, which no dispatch is in."""
        self.telling = True
        try:
            emit(listeners, payload, self.report_listener)
        finally:
            self.telling = False
            if self.due:
                self.drain()

    def drain(self) -> None:
        """Tell everything that is due, and what comes to be due meanwhile.

        Raises:
            BaseException: what a listener raised to leave the program, once everybody has been told (H5).
        """
        due, told, before = self.due, 0, standing()
        leaving: BaseException | None = None
        self.telling = True
        try:
            while told < len(due):
                item = due[told]
                told += 1
                try:
                    self._tell(item)
                except LEAVING as error:
                    leaving = leaving or error
        finally:
            del due[:told]
            self.telling = False
        left = tidy_sync(before, "a listener")
        if left is not None:
            self.report(left, "a listener")
        self._owner.wake_waiters()
        if leaving is not None:
            raise leaving

    def _tell(self, item: Due) -> None:
        if callable(item):
            item()
        elif type(item) is Publish:
            announce(self._agent, item.notice, self.report_listener)
        elif type(item) is Event:
            listeners = self._agent.scope.heard[SESSION_EVENT]
            if listeners:
                emit(listeners, SessionEventAdded(self._agent, self._agent.session, item), self.report_listener)
        else:
            self._owner.perform_next(item)
