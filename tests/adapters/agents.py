"""Agents on real models: what the tests that drive a whole agent over HTTP share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import trio
from attrs import define, field

from tests.invariants import check_invariants
from tests.stage import asked, line
from treadle import Agent, AgentOptions, EndReason, ModelRequest, Tool, open_agent
from treadle.hooks import ASSISTANT_STREAM, LLM_STREAM, FrameChunk
from treadle.session import AssistantMessageAdded
from treadle_adapters.models.http_model import HTTPModel

NOISE = ("inbox ", "header ", "context")


@define
class Talk:
    """One agent on a model over HTTP, and what became of it."""

    agent: Agent
    requests: list[ModelRequest] = field(factory=list)
    chunks: int = 0
    _waiting: list[tuple[int, trio.Event]] = field(factory=list)

    @property
    def log(self) -> list[str]:
        """The events of turns, one line each."""
        return [text for text in map(line, self.agent.session.events) if not text.startswith(NOISE)]

    @property
    def answers(self) -> list[AssistantMessageAdded]:
        return [one.data for one in self.agent.session.events if isinstance(one.data, AssistantMessageAdded)]

    @property
    def asked(self) -> list[list[str]]:
        """The messages of every request."""
        return [asked(request.messages) for request in self.requests]

    def facts(self, kind: type[Any]) -> list[Any]:
        """The data of all events of one type."""
        return [entry.data for entry in self.agent.session.events if isinstance(entry.data, kind)]

    async def ask(self, text: str) -> EndReason | None:
        self.agent.followup(text)
        return await self.agent.when_idle()

    async def streamed(self, more: int) -> None:
        """Wait until so many more chunks have come."""
        event = trio.Event()
        self._waiting.append((self.chunks + more, event))
        await event.wait()

    def count(self) -> None:
        self.chunks += 1
        for due, event in self._waiting:
            if self.chunks >= due:
                event.set()


@asynccontextmanager
async def talking(
    adapter: HTTPModel,
    *,
    tools: Iterable[Tool | Callable[..., Any]] = (),
    system_prompt: str = "",
    host: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Talk]:
    """Open an agent on ``adapter``; at the end its log and all its requests are checked against the invariants."""
    options = {"model": "any", **options}
    given = {"checks": True, **(host or {})}
    async with adapter:
        async with open_agent(
            model=adapter, tools=tools, system_prompt=system_prompt, options=AgentOptions(**options), **given
        ) as agent:
            talk = Talk(agent)

            def see(proposal: Any, proceed: Any) -> Any:
                talk.requests.append(proposal.request)
                return proceed()

            def hear(told: Any) -> None:
                if isinstance(told.frame, FrameChunk):
                    talk.count()

            agent.scope.on(LLM_STREAM, see)
            agent.scope.on(ASSISTANT_STREAM, hear)
            yield talk
        check_invariants(talk.agent.session, talk.requests)


async def busy(address: str) -> bool:
    """Whether a llama.cpp server works on anything."""
    async with httpx.AsyncClient() as client:
        slots = (await client.get(f"{address}/slots")).json()
    return any(slot["is_processing"] for slot in slots)
