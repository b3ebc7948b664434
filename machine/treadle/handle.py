"""What an owner holds: the handle that ends an agent, and the end under way (O3, O4)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import trio

from .agent import Agent

if TYPE_CHECKING:
    from .session.repair import Recovery


class Disposal:
    """The end of an agent under way; await it for the end. A cancelled waiter only stops waiting (O4).

    Args:
        forbid: called first by whoever waits; raises where the wait would never end.
    """

    __slots__ = ("_done", "_errors", "_forbid")

    def __init__(self, forbid: Callable[[], None] | None = None) -> None:
        self._done = trio.Event()
        self._errors: list[BaseException] = []
        self._forbid = forbid

    async def wait(self) -> None:
        """Wait for the end.

        Raises:
            MisuseError: awaited by an ``agent/created`` listener of that agent or of one below it, whose end the
                disposal waits for (O15).
            BaseExceptionGroup: what clean-ups raised; all of them ran.
        """
        if self._forbid is not None:
            self._forbid()
        await self.ended()
        if self._errors:
            raise BaseExceptionGroup("clean-ups of a disposed agent failed", list(self._errors))

    async def ended(self) -> None:
        """Wait for the end, whatever clean-ups raised."""
        await self._done.wait()

    def failed(self, error: BaseException) -> None:
        """A clean-up raised; the others run all the same."""
        self._errors.append(error)

    def finish(self) -> None:
        """The end is reached: everybody who waits goes on."""
        self._done.set()

    @property
    def done(self) -> bool:
        """Whether the end is reached."""
        return self._done.is_set()

    def __await__(self) -> Generator[Any, Any, None]:
        return self.wait().__await__()


class Owned(Protocol):
    """What a handle ends: the loop's agents and those of other factories alike."""

    @property
    def agent(self) -> Agent:
        """The live agent."""
        ...

    def dispose(self, keep_inbox: bool = False) -> Disposal:
        """Take the state in the call; all calls return the same disposal."""
        ...


class AgentHandle:
    """An owned agent: only who holds this can dispose it (O3). Use it as an async context manager to do so.

    Attributes:
        agent: the live agent.
        recovery: what opening its stored session had to mend; ``None`` when it was not resumed from a store (P3, P4).
    """

    __slots__ = ("_life", "agent", "recovery")

    def __init__(self, life: Owned) -> None:
        self._life = life
        self.agent = life.agent
        self.recovery: Recovery | None = None

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
