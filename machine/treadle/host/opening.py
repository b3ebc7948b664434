"""The short way to one agent: a host, a model and some tools, opened together and closed together."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from attrs import evolve

from ..agent.agent import Agent
from ..agent.options import DEFAULT_OPTIONS, AgentOptions
from ..models.adapter import ModelAdapter
from ..tools.definition import Tool, tool
from .host import Host

PROVIDER = "default"
"""The route under which ``open_agent`` registers its model."""


@asynccontextmanager
async def open_agent(
    *,
    model: ModelAdapter,
    tools: Iterable[Tool | Callable[..., Any]] = (),
    system_prompt: str = "",
    session_id: str | None = None,
    options: AgentOptions = DEFAULT_OPTIONS,
    **host_options: Any,
) -> AsyncGenerator[Agent, None]:
    """Open one agent in a host of its own; leaving disposes both, keeping what is pending (O4).

    Args:
        model: what answers.
        tools: tools, or functions to make tools of.
        system_prompt: what the model is told first.
        session_id: the id of session and agent; made up unless given.
        options: the agent's options; without a provider the given model serves it.
        **host_options: as ``Host`` takes them.

    Raises:
        MisuseError: a tool or an option is wrong.
    """
    async with Host(**host_options) as host:
        host.models.register(options.provider or PROVIDER, model)
        for given in tools:
            host.tools.register(given if isinstance(given, Tool) else tool(given))
        if options.provider is None or options.model is None:
            options = evolve(
                options, provider=options.provider or PROVIDER, model=options.model or getattr(model, "name", PROVIDER)
            )
        handle = await host.agents.create(session_id=session_id, agent_options=options)
        async with handle as agent:
            if system_prompt:
                agent.system_prompt = system_prompt
            yield agent
