"""From preparation to disposal: one agent's life, and who may end it (O1–O5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any

import trio

from . import inputs as i
from .agent import Agent, driver_of
from .effects import Rejected
from .hooks import emit
from .points import AGENT_DISPOSED, AgentGone
from .scope import Listener

if TYPE_CHECKING:
    from .host import Host


class Disposal:
    """The end of an agent under way; await it for the end. A cancelled waiter only stops waiting (O4)."""

    __slots__ = ("_done", "_errors")

    def __init__(self) -> None:
        self._done = trio.Event()
        self._errors: list[BaseException] = []

    async def wait(self) -> None:
        """Wait for the end.

        Raises:
            BaseExceptionGroup: what clean-ups raised; all of them ran.
        """
        await self._done.wait()
        if self._errors:
            raise BaseExceptionGroup("clean-ups of a disposed agent failed", list(self._errors))

    def __await__(self) -> Generator[Any, Any, None]:
        return self.wait().__await__()


class Life:
    """Ends one agent, exactly once, in order (O4, O17)."""

    __slots__ = ("_host", "_on_gone", "agent", "announced", "disposal", "drained", "settled", "write_path")

    def __init__(self, host: Host, agent: Agent, on_gone: Callable[[Life], None]) -> None:
        self._host = host
        self.agent = agent
        self.announced = False
        self.disposal: Disposal | None = None
        self.drained = trio.Event()
        self.settled: trio.Event | None = None
        self.write_path: Callable[[], Awaitable[None]] | None = None
        self._on_gone = on_gone

    def dispose(self, keep_inbox: bool = False) -> Disposal:
        """Take the state in the call; the rest follows in a task. Later calls join the first."""
        if self.disposal is None:
            self.disposal = Disposal()
            driver = driver_of(self.agent)
            driver.check_thread()
            driver.finished = self.drained.set
            children = self._host.agents.children(self.agent)
            driver.feed(i.Dispose(keep_inbox))
            ends = [child.dispose(keep_inbox) for child in reversed(children)]
            self._host.spawn(lambda: self._unwind(ends))
        return self.disposal

    async def _unwind(self, children: list[Disposal]) -> None:
        disposal = self.disposal
        assert disposal is not None
        with trio.CancelScope(shield=True):
            try:
                for child in children:
                    await child._done.wait()  # pyright: ignore[reportPrivateUsage]
                await self.drained.wait()
                await self._close(disposal)
            finally:
                disposal._done.set()  # pyright: ignore[reportPrivateUsage]

    async def _close(self, disposal: Disposal) -> None:
        agent = self.agent
        driver = driver_of(agent)
        report = disposal._errors.append  # pyright: ignore[reportPrivateUsage]
        if self.settled is not None:
            await self.settled.wait()
        await self._host.turn_flushed(driver)
        last = [Listener(listener.function, self._host.scope) for listener in agent.scope.listeners(AGENT_DISPOSED)]
        await agent.scope.close(report)
        if self.write_path is not None:
            try:
                await self.write_path()
            except Exception as error:
                report(error)
        agent.session.driven = False
        for receipt in list(driver.receipts.values()):
            receipt._settle(Rejected("disposed"))  # pyright: ignore[reportPrivateUsage]
        driver.receipts.clear()
        self._on_gone(self)
        if self.announced:
            emit(tuple(last), AgentGone(agent), driver.report_listener)


class AgentHandle:
    """An owned agent: only who holds this can dispose it (O3). Use it as an async context manager to do so.

    Attributes:
        agent: the live agent.
    """

    __slots__ = ("_life", "agent")

    def __init__(self, life: Life) -> None:
        self._life = life
        self.agent = life.agent

    def dispose(self, *, keep_inbox: bool = False) -> Disposal:
        """End the agent: taken in the call, awaited for the end (O4). Idempotent; all callers join the same end."""
        return self._life.dispose(keep_inbox)

    async def __aenter__(self) -> Agent:
        return self.agent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        disposal = self.dispose(keep_inbox=True)
        with trio.CancelScope(shield=True):
            await disposal

    def __repr__(self) -> str:
        return f"<AgentHandle {self.agent!r}>"
