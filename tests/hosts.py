"""A host with a scripted model, and short ways to make agents on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from treadle import AgentHandle, AgentOptions, Host, ScriptedModel

OPTIONS = AgentOptions(provider="scripted", model="m")


@asynccontextmanager
async def hosted(*script: Any, model: ScriptedModel | None = None, **options: Any) -> AsyncIterator[Host]:
    """Open a host whose provider ``scripted`` plays the script."""
    async with Host(**options) as host:
        host.models.register("scripted", model or ScriptedModel(script))
        yield host


async def create(host: Host, id: str | None = None, **options: Any) -> AgentHandle:
    """Create an agent on the scripted model."""
    return await host.agents.create(session_id=id, agent_options=OPTIONS, **options)
