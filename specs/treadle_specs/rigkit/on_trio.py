"""trio for a rig: stepped in guest mode, in virtual time; threads and I/O are waited for, timers are not.

    class Mine(Rig):
        def __init__(self):
            super().__init__(OnTrio())

It needs trio, which the rest of the kit does not.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import trio

from ..exploration.stepper import Stepper


class OnTrio:
    """The engine of drivers on trio."""

    def __init__(self) -> None:
        self.stepper = Stepper()

    def call(self, function: Callable[[], Any]) -> Any:
        """See ``Engine``."""
        return function()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> Any:
        """See ``Engine``; returns a cancel scope around the task."""
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await work

        self.stepper.start(run)
        return scope

    def signal(self) -> trio.Event:
        """See ``Engine``."""
        return trio.Event()

    async def pause(self) -> None:
        """See ``Engine``."""
        await trio.lowlevel.checkpoint()

    def settle(self, waits: Callable[[], bool]) -> None:
        """See ``Engine``."""
        del waits
        self.stepper.settle()
