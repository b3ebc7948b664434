"""A server on the newest revision of the protocol: subscriptions, questions within a result, a call that is closed."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from tests.adapters.mcp.real import LEFT_GENERATORS
from tests.adapters.mcp.test_real_servers import free_port
from tests.adapters.waiting import eventually
from tests.hosts import create, hosted
from treadle import Agent, Answer, Call, Host, ScriptedModel, ToolResultMessage
from treadle_adapters.mcp import MCP_ELICITATION, Accept, HTTPServer, MCPTools, Server, StdioServer
from treadle_adapters.processes import ProcessGroup, environment

SERVER = str(Path(__file__).parent / "sdk_server.py")
pytestmark = LEFT_GENERATORS


@asynccontextmanager
async def served(kind: str, record: Path) -> AsyncIterator[Server]:
    """The server, over either transport."""
    await trio.Path(record).touch()
    if kind == "stdio":
        yield StdioServer((sys.executable, SERVER, str(record), "stdio"), asks="never")
        return
    port = free_port()
    group = await ProcessGroup.start(
        [sys.executable, SERVER, str(record), "http", str(port)], env=environment(("PATH",), {}), stderr=-3
    )
    try:
        url = f"http://127.0.0.1:{port}/mcp"
        async with httpx.AsyncClient() as client:
            with trio.fail_after(60):
                while True:
                    try:
                        await client.get(url, timeout=1)
                        break
                    except httpx.TransportError:
                        await trio.sleep(0.05)
        yield HTTPServer(url, asks="never")
    finally:
        await group.end(1, ask=False)


@asynccontextmanager
async def talking(kind: str, record: Path) -> AsyncIterator[tuple[Host, Agent, ScriptedModel]]:
    model = ScriptedModel()
    async with served(kind, record) as server, hosted(model=model, checks=True) as host:
        MCPTools({"sdk": server}).attach(host)
        yield host, (await create(host)).agent, model


async def call(agent: Agent, model: ScriptedModel, name: str, arguments: dict[str, Any] | None = None) -> str:
    model.push(Answer(calls=[Call(f"sdk__{name}", arguments or {})]))
    agent.followup("go")
    await agent.when_idle()
    found = [message for message in agent.session.history() if isinstance(message, ToolResultMessage)][-1]
    return found.text if not found.result.is_error else f"{found.result.code}: {found.text}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_calls_changes_and_questions(kind: str, tmp_path: Path) -> None:
    async with talking(kind, tmp_path / "record") as (host, agent, model):
        assert await call(agent, model, "echo", {"text": "hello"}) == "hello"
        assert "'decline'" in await call(agent, model, "ask")
        host.on(MCP_ELICITATION, lambda *_: Accept({"name": "Ada"}))
        assert "'accept'" in (told := await call(agent, model, "ask"))
        assert "Ada" in told
        assert "30" in told
        assert await call(agent, model, "grow") == "grown"
        with trio.fail_after(30):
            while agent.tools.get("sdk__fresh") is None:
                await call(agent, model, "echo", {"text": "again"})
        assert await call(agent, model, "fresh") == "fresh"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_a_cancel_reaches_the_server(kind: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with talking(kind, record) as (_, agent, model):

        async def cancel() -> None:
            await eventually(lambda: "waiting" in record.read_text())
            agent.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel)
            assert (await call(agent, model, "wait")).startswith("ABORTED: ")
        await eventually(lambda: "cancelled" in record.read_text())
        assert await call(agent, model, "echo", {"text": "next"}) == "next"
