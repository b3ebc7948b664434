"""An end under way: of an agent, or of a factory with all that it made (O4, O14)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any

import trio

from ..containment import stands_below
from ..errors import MisuseError

Failed = Callable[[BaseException], None]
"""Given what a clean-up raised; the others run all the same."""


class Ending:
    """An end under way; await it. It is brought about once for everybody: a cancelled waiter only stops waiting (O4).

    Args:
        work: brings the end about, given what to call with the failures of clean-ups; it is not cancelled.
        forbid: called first by whoever waits; raises where the wait would never end.
    """

    __slots__ = ("_begun", "_done", "_error", "_failures", "_task", "_work", "forbid")

    def __init__(self, work: Callable[[Failed], Awaitable[None]], forbid: Callable[[], None] | None = None) -> None:
        self.forbid = forbid
        self._work = work
        self._begun = False
        self._task: trio.lowlevel.Task | None = None
        self._done = trio.Event()
        self._failures: list[BaseException] = []
        self._error: Exception | None = None

    def begin(self, spawn: Callable[[Callable[[], Awaitable[None]]], None]) -> None:
        """Have a task do the work. Where none can be had yet, whoever waits first does it."""
        spawn(self._run)
        self._begun = True

    @trio.lowlevel.enable_ki_protection
    async def _run(self) -> None:
        self._task = trio.lowlevel.current_task()
        try:
            with trio.CancelScope(shield=True):
                await self._work(self._failures.append)
        except Exception as error:
            self._error = error
        finally:
            self._task = None
            self._done.set()

    async def wait(self) -> None:
        """Wait for the end.

        Raises:
            MisuseError: awaited by what the end itself waits for: a tool, hook or clean-up of that agent or of one
                below it, or an ``agent/created`` listener of theirs (L6, O15).
            BaseExceptionGroup: what clean-ups raised; all of them ran.
            Exception: what stopped the work itself, as it is.
        """
        if not self._done.is_set():
            if stands_below(self._task):
                raise MisuseError("an end awaited by one of its own clean-ups would never return (L6)")
            if self.forbid is not None:
                self.forbid()
        await self.reached()
        if self._error is not None:
            raise self._error
        if self._failures:
            raise BaseExceptionGroup("clean-ups of a disposed agent failed", list(self._failures))

    async def reached(self) -> None:
        """Wait for the end, whatever was raised on the way."""
        if not self._begun:
            self._begun = True
            await self._run()
        await self._done.wait()

    def __await__(self) -> Generator[Any, Any, None]:
        return self.wait().__await__()
