"""Ctrl-C and requests to terminate, while a command runs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import trio

from ..exits import Exit
from .keyboard import KeyMode

STOPPING = (signal.SIGINT, signal.SIGTERM)


class WayOut:
    """The way out: a scope to run in, and whether it was taken."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.taken = False

    def leave(self) -> None:
        """Leave at once; what is under way is wound down in order."""
        self.taken = True
        self.scope.cancel()


class Interrupts:
    """Receives signals. Once the way out is taken, another Ctrl-C ends the process without waiting.

    Args:
        way_out: the way out; a request to terminate takes it.
        keys: the terminal's mode, set again when a stopped process goes on, and left when it must end at once.
    """

    def __init__(self, way_out: WayOut, keys: KeyMode | None = None) -> None:
        self._way_out = way_out
        self._keys = keys
        self.on_interrupt: Callable[[], None] = way_out.leave

    async def receive(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Receive signals until cancelled."""
        numbers = STOPPING if self._keys is None else (*STOPPING, signal.SIGCONT)
        with trio.open_signal_receiver(*numbers) as signals:
            task_status.started()
            async for number in signals:
                self._take(number)

    def _take(self, number: int) -> None:
        if number not in STOPPING:
            if self._keys is not None:
                self._keys.enter()
        elif self._way_out.taken:
            self._end_at_once()
        elif number == signal.SIGINT:
            self.on_interrupt()
        else:
            self._way_out.leave()

    def _end_at_once(self) -> None:
        if self._keys is not None:
            self._keys.leave()
        sys.stderr.write("\ntreadle: left without waiting\n")
        sys.stderr.flush()
        os._exit(Exit.INTERRUPTED)
