"""Keeps agents from acting without a lease: before each request and each tool body, and at once when it is lost (P2).

What is in the log is there once, by the fence. What acts outside of it can only be kept from beginning late: between the
check here and the effect a machine may stand still, so an effect outside the log happens at least once, not exactly once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from treadle import ByHook, Host, SessionLocked
from treadle.hooks import (
    AGENT_CREATED,
    AGENT_ERROR,
    LLM_STREAM,
    TOOLS_EXECUTE,
    AgentCreation,
    AgentError,
    StreamProposal,
    ToolProposal,
)
from treadle.models import Chunk

from .lease import RunningLease


def guard(host: Host, lease: RunningLease) -> None:
    """Have all agents of a host act only while the lease runs, and stop those whose session is another's."""

    async def begin_stream(
        proposal: StreamProposal, proceed: Callable[[], Awaitable[AsyncIterator[Chunk]]]
    ) -> AsyncIterator[Chunk]:
        lease.check(proposal.agent.id)
        return await proceed()

    async def begin_body(proposal: ToolProposal, proceed: Callable[[], Awaitable[Any]]) -> Any:
        lease.check(proposal.agent.id)
        return await proceed()

    def created(creation: AgentCreation) -> None:
        scope = creation.agent.scope  # behind what the agent's own write path does first, which may wait
        scope.on(LLM_STREAM, begin_stream)
        scope.on(TOOLS_EXECUTE, begin_body)

    def failed(told: AgentError) -> None:
        if isinstance(told.error, SessionLocked):
            told.agent.cancel(ByHook(f"LEASE_LOST: {told.error}"[:500]), keep_inbox=True)

    host.on(AGENT_CREATED, created)
    host.on(AGENT_ERROR, failed)
