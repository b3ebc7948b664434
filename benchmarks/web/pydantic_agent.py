"""The agent of the other package, with its adapter for AG-UI. It runs in an environment that need not know treadle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any


def application(pace: float, deltas: int) -> Any:
    """An application whose agent says ``deltas`` words, one every ``pace`` seconds."""
    from pydantic_ai import Agent  # pyright: ignore[reportMissingImports]
    from pydantic_ai.models.function import FunctionModel  # pyright: ignore[reportMissingImports]
    from pydantic_ai.ui.ag_ui import AGUIAdapter  # pyright: ignore[reportMissingImports]
    from starlette.applications import Starlette
    from starlette.routing import Route

    async def words(_messages: Any, _info: Any) -> AsyncIterator[str]:
        for _ in range(deltas):
            await asyncio.sleep(pace)
            yield "word "

    agent: Any = Agent(FunctionModel(stream_function=words))

    async def run(request: Any) -> Any:
        return await AGUIAdapter.dispatch_request(request, agent=agent)

    return Starlette(routes=[Route("/agui", run, methods=["POST"])])
