"""The floors: the least that trio takes for the same shape of work, without any of the work."""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio


class TurnFloor:
    """A task that parks on an event, wakes, opens a cancel scope, iterates one chunk, and signals that it is done."""

    def __init__(self) -> None:
        self._wake = trio.Event()
        self._done = trio.Event()
        self._over = False

    async def serve(self) -> None:
        """The parked task."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            if self._over:
                return
            with trio.CancelScope():
                async for _ in _one_chunk():
                    pass
            self._done.set()

    async def turns(self, count: int) -> None:
        """So many turns, each begun when the one before is done."""
        for _ in range(count):
            self._done = trio.Event()
            self._wake.set()
            await self._done.wait()

    def stop(self) -> None:
        """Let the task end."""
        self._over = True
        self._wake.set()


async def _one_chunk() -> AsyncIterator[str]:
    yield "chunk"


async def tool_loop(steps: int) -> None:
    """The bare loop of a tool turn: a model coroutine and a tool coroutine, one checkpoint each per step."""
    for _ in range(steps):
        await _model()
        await _tool()


async def _model() -> str:
    await trio.lowlevel.checkpoint()
    return "call"


async def _tool() -> str:
    await trio.lowlevel.checkpoint()
    return "worked"


async def bare_for(stream: AsyncIterator[object]) -> None:
    """The bare ``async for`` over a stream of chunks."""
    async for _ in stream:
        pass
