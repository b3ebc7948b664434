"""What an owner holds in asyncio code: the handle that ends an agent (O3, O4)."""

from __future__ import annotations

import functools
from types import TracebackType

from ..agent.handle import AgentHandle
from ..session.repair import Recovery
from .agent import BridgedAgent
from .crossing import Crossing
from .reply import Reply


class BridgedHandle:
    """An owned agent: only who holds this can dispose it (O3). Use it as an async context manager to do so.

    Attributes:
        agent: the live agent.
    """

    __slots__ = ("_crossing", "_handle", "agent")

    def __init__(self, crossing: Crossing, handle: AgentHandle) -> None:
        self._crossing = crossing
        self._handle = handle
        self.agent = BridgedAgent(crossing, handle.agent)

    @property
    def recovery(self) -> Recovery | None:
        """See ``AgentHandle.recovery``."""
        return self._handle.recovery

    def dispose(self, *, keep_inbox: bool = False) -> Reply[None]:
        """See ``AgentHandle.dispose``: taken in the call, from any thread; await it for the end, any number of times.

        Raises:
            BridgeClosed: from the call: the bridge is not open; from the reply: it was closed meanwhile, which
                disposes every agent.
            MisuseError: from the reply: awaited by the agent's own tool or hook, which would never return (L6).
            BaseExceptionGroup: from the reply: what clean-ups raised; all of them ran.
        """
        crossing, agent = self._crossing, self._handle.agent
        reply = crossing.call_to_end(functools.partial(self._handle.dispose, keep_inbox=keep_inbox))
        reply.forbid = functools.partial(crossing.forbid_own_wait, agent, f"the disposal of agent {agent.id!r}")
        return reply

    async def __aenter__(self) -> BridgedAgent:
        return self.agent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.dispose(keep_inbox=True)

    def __repr__(self) -> str:
        return f"<BridgedHandle {self.agent!r}>"
