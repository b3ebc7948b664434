"""An agent with local tools in a folder, and somebody who approves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from attrs import field, frozen

from tests.hosts import create, hosted
from tests.invariants import check_invariants
from treadle import Agent, Answer, Call, Host, ScriptedModel, ToolResultMessage
from treadle.models import ToolResult, text_of
from treadle_adapters.tools import LocalTools


@frozen
class Stage:
    """An agent whose model is scripted; ``asked`` holds what was asked of whoever approves."""

    host: Host
    agent: Agent
    model: ScriptedModel
    asked: list[str] = field(factory=list[str])

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        """A turn with one call."""
        self.model.push(Answer(calls=[Call(name, arguments)]))
        self.agent.followup("go")
        await self.agent.when_idle()
        return [message for message in self.agent.session.history() if isinstance(message, ToolResultMessage)][
            -1
        ].result

    async def told(self, name: str, **arguments: Any) -> str:
        """The text of the result; with its code before it where the call failed."""
        result = await self.call(name, **arguments)
        text = text_of(result.content)
        return f"{result.code}: {text}" if result.is_error else text


@asynccontextmanager
async def staged(folder: Path, *, approve: bool = True, **options: Any) -> AsyncIterator[Stage]:
    """An agent with the tools; its log is checked afterwards."""
    asked: list[str] = []

    async def approver(_: object, question: str) -> bool:
        asked.append(question)
        return approve

    model = ScriptedModel()
    async with hosted(model=model, approver=approver, checks=True) as host:
        LocalTools(folder, **options).attach(host)
        agent = (await create(host)).agent
        yield Stage(host, agent, model, asked)
    check_invariants(agent.session, model.requests)
