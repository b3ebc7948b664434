"""What an owner holds: the handle that ends an agent (O3, O4)."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

import trio

from .agent import Agent
from .ending import Ending

if TYPE_CHECKING:
    from ..session.repair import Recovery


class AgentHandle:
    """An owned agent: only who holds this can dispose it (O3). Use it as an async context manager to do so.

    Args:
        agent: the live agent.
        dispose: ends it, taking the state in the call; all calls return the same end. The argument says whether its
            inbox is kept.
        recovery: what opening its stored session had to mend; ``None`` when it was not resumed from a store (P3, P4).
    """

    __slots__ = ("_dispose", "agent", "recovery")

    def __init__(self, agent: Agent, dispose: Callable[[bool], Ending], recovery: Recovery | None = None) -> None:
        self.agent = agent
        self.recovery = recovery
        self._dispose = dispose

    @trio.lowlevel.enable_ki_protection
    def dispose(self, *, keep_inbox: bool = False) -> Ending:
        """End the agent: taken in the call, awaited for the end (O4). Idempotent; all callers join the same end."""
        return self._dispose(keep_inbox)

    async def __aenter__(self) -> Agent:
        return self.agent

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        disposal = self.dispose(keep_inbox=True)
        with trio.CancelScope(shield=True):
            await disposal

    def __repr__(self) -> str:
        return f"<AgentHandle {self.agent!r}>"
