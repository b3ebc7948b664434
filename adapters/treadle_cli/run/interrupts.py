"""Ctrl-C, requests to terminate, and a terminal that hangs up: one way for all to stop a run in order."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import trio

from ..exits import Exit

ENDING = {
    getattr(signal, name): status
    for name, status in (("SIGTERM", Exit.TERMINATED), ("SIGHUP", Exit.HUNG_UP))
    if hasattr(signal, name)
}
"""The signals that end a run, and its exit status then."""


class WayOut:
    """The way out of a run: a scope to run in, and with which exit status it was left."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.status: Exit | None = None

    def leave(self, status: Exit = Exit.INTERRUPTED) -> None:
        """Leave at once; what is under way is wound down in order, and what was said so far is kept."""
        self.status = self.status or status
        self.scope.cancel()


class Interrupts:
    """Takes what asks a run to stop. Once the way out is taken, another Ctrl-C ends the process without waiting.

    Args:
        way_out: the way out.
        give_back: sets the terminal as it was, before the process ends at once.

    Attributes:
        on_interrupt: what a Ctrl-C does, told whether it took back what was being typed.
    """

    def __init__(self, way_out: WayOut, give_back: Callable[[], None] = lambda: None) -> None:
        self._way_out = way_out
        self._give_back = give_back
        self.on_interrupt: Callable[[bool], None] = lambda _: way_out.leave()

    @asynccontextmanager
    async def received(self) -> AsyncGenerator[None]:
        """Receive signals inside the block, its winding down included."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._receive)
            yield
            nursery.cancel_scope.cancel()

    async def _receive(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with trio.open_signal_receiver(signal.SIGINT, *ENDING) as signals:
            task_status.started()
            async for number in signals:
                if number == signal.SIGINT:
                    self.interrupt()
                else:
                    self._way_out.leave(ENDING[number])

    def interrupt(self, had_text: bool = False) -> None:
        """Ctrl-C, as a signal or as a key."""
        if self._way_out.status is None:
            self.on_interrupt(had_text)
            return
        self._give_back()
        sys.stderr.write("\ntreadle: left without waiting\n")
        sys.stderr.flush()
        os._exit(self._way_out.status)
