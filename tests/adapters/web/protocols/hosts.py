"""A host as the protocols' tests serve it, and tools that wait for the test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import trio

from treadle import Host, MemoryStore, ScriptedModel, tool
from treadle.hooks import TOOLS_PRE_EXECUTE, AskCall


class Gate:
    """Holds tools up until the test opens it, from any thread."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    async def passed(self) -> None:
        while not self.opened.is_set():  # noqa: ASYNC110  # it is opened from another thread
            await trio.sleep(0.002)


def host_of(
    *script: Any, asks: Callable[[str], bool] = lambda _: False, gate: Gate | None = None, model: Any = None
) -> Host:
    """A host with a scripted model and the tools ``add`` and ``wait``.

    Args:
        script: what the model says.
        asks: whether a tool of that name is asked for.
        gate: what holds ``wait`` up.
    """

    async def add(a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    async def wait() -> str:
        """Wait until the test goes on."""
        if gate is not None:
            await gate.passed()
        return "waited"

    async def ask(given: Any, go_on: Any) -> Any:
        return AskCall("May I?") if asks(given.call.name) else await go_on()

    host = Host(store=MemoryStore(), checks=True)
    host.models.register("scripted", ScriptedModel(script, pace=0.001))
    host.tools.register(tool(add, parallel=True))
    host.tools.register(tool(wait, parallel=True))
    host.on(TOOLS_PRE_EXECUTE, ask)
    return host
