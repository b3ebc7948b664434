"""Stopping code at its nth line: what else happens there happens in the middle of it, as another process would do it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import trio
from attrs import define


@define(eq=False)
class Stop:
    """One stop.

    Attributes:
        modules: names of the modules whose lines count.
        at: the number of the line, from 0.
        meanwhile: what happens there.
        busy: says whether this process holds a lock of its own, which another process would not wait for: then a line
            does not count.
        lines: how many lines have been run.
        where: the line at which it happened; empty when the code was over before.
    """

    modules: tuple[str, ...]
    at: int
    meanwhile: Callable[[], None]
    busy: Callable[[], bool] = bool
    lines: int = 0
    where: str = ""

    def trace(self, frame: FrameType, kind: str, _: Any) -> Any:
        """Count lines; the interpreter calls it."""
        if frame.f_globals.get("__name__") not in self.modules:
            return None
        if kind == "line" and not self.busy():
            if self.lines == self.at:
                self.lines += 1
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                self._happen()
            else:
                self.lines += 1
        return self.trace

    def _happen(self) -> None:
        """Run it in a thread of its own, to its end: it is another process's doing."""
        thread = threading.Thread(target=self.meanwhile)
        thread.start()
        thread.join()


@contextmanager
def stopped(stop: Stop) -> Generator[Stop]:
    """Have this thread, and what trio runs in others meanwhile, stop there once."""

    def trace(frame: FrameType, kind: str, given: Any) -> Any:
        return stop.trace(frame, kind, given)

    def traced(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            sys.settrace(trace)
            try:
                return function(*args)
            finally:
                sys.settrace(None)

        return run

    # trio keeps its threads, so tracing begins with each function that one of them is given
    to_thread, start_soon = trio.to_thread.run_sync, trio.lowlevel.start_thread_soon
    here: Any = trio.to_thread
    there: Any = trio.lowlevel
    before = sys.gettrace()
    here.run_sync = lambda function, *args, **named: to_thread(traced(function), *args, **named)
    there.start_thread_soon = lambda function, *args, **named: start_soon(traced(function), *args, **named)
    sys.settrace(trace)
    try:
        yield stop
    finally:
        here.run_sync, there.start_thread_soon = to_thread, start_soon
        sys.settrace(before)
