"""Unloading a factory: its creations stop, every agent it made is drained (O14)."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from .creation import AgentFactory


class Unloading:
    """The end of a factory under way; await it. A cancelled waiter only stops waiting."""

    __slots__ = ("_closing", "_done", "_error", "_running")

    def __init__(self, factory: AgentFactory) -> None:
        self._closing = factory.close()
        self._running = False
        self._done = trio.Event()
        self._error: Exception | None = None

    async def run(self) -> None:
        """Wait until the factory has closed, on behalf of everybody; a second run does nothing."""
        if self._running:
            return
        self._running = True
        try:
            with trio.CancelScope(shield=True):
                await self._closing
        except Exception as error:
            self._error = error
        finally:
            self._done.set()

    async def wait(self) -> None:
        """Wait for the end.

        Raises:
            Exception: what the factory's ``close`` raised.
        """
        await self.run()
        await self._done.wait()
        if self._error is not None:
            raise self._error

    def __await__(self) -> Generator[Any, Any, None]:
        return self.wait().__await__()
