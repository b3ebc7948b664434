"""An agent as a server of tools: reached by other agents, over both transports."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.adapters.mcp.real import LEFT_GENERATORS
from tests.adapters.mcp.stage import alive
from tests.adapters.waiting import eventually
from tests.hosts import create, hosted
from treadle import Agent, Answer, Call, Host, ScriptedModel, ToolResultMessage
from treadle_adapters.mcp import HTTPServer, MCPTools, Server, StdioServer
from treadle_adapters.processes import ProcessGroup, environment
from treadle_adapters.progress import TOOL_PROGRESS, ToolProgress
from treadle_cli import main

pytestmark = LEFT_GENERATORS
COMMAND = (sys.executable, "-m", "treadle_cli", "mcp", "serve", "--no-save")


@asynccontextmanager
async def reached(kind: str) -> AsyncIterator[Server]:
    if kind == "stdio":
        yield StdioServer(COMMAND, prefix=True)
        return
    env = environment(("PATH", "HOME"), {"COLUMNS": "200"})
    group = await ProcessGroup.start([*COMMAND, "--http", "0"], env=env, stderr=subprocess.PIPE)
    try:
        told = b""
        assert group.process.stderr is not None
        with trio.fail_after(60):
            while not (found := re.search(rb"served at (http://\S+/mcp)", told)):
                chunk = await group.process.stderr.receive_some()
                assert chunk, told
                told += chunk
        yield HTTPServer(found[1].decode())
    finally:
        await group.end(5)
        assert not alive(group.process.pid)


@asynccontextmanager
async def talking(kind: str) -> AsyncIterator[tuple[Host, Agent, ScriptedModel]]:
    model = ScriptedModel()
    async with reached(kind) as server, hosted(model=model, checks=True) as host:
        MCPTools({"other": server}).attach(host)
        yield host, (await create(host)).agent, model


async def call(agent: Agent, model: ScriptedModel, name: str, **arguments: str) -> str:
    model.push(Answer(calls=[Call(f"other__{name}", arguments)]))
    agent.followup("go")
    await agent.when_idle()
    result = [message for message in agent.session.history() if isinstance(message, ToolResultMessage)][-1].result
    text = "".join([getattr(block, "text", "") for block in result.content])
    return f"{result.code}: {text}" if result.is_error else text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_an_agent_is_prompted_asked_and_stopped_by_another(kind: str) -> None:
    async with talking(kind) as (host, agent, model):
        news: list[ToolProgress] = []
        host.on(TOOL_PROGRESS, news.append)
        assert "You said: hello" in await call(agent, model, "prompt", text="hello")
        assert "5" in await call(agent, model, "prompt", text="What is 2 + 3?")
        assert "calls add" in [one.text for one in news]
        assert await call(agent, model, "status") == "idle; 0 waiting"
        assert await call(agent, model, "cancel") == "nothing was running"
        assert "must be given" in await call(agent, model, "prompt", text=" ")

        model.push(Answer(calls=[Call("other__prompt", {"text": "count to 2000"})]))
        agent.followup("go")
        await eventually(lambda: "step 1" in [one.text for one in news[-1:]])
        agent.cancel()
        await agent.when_idle()
        with trio.fail_after(60):
            while await call(agent, model, "status") != "idle; 0 waiting":
                pass  # each question is a turn


def test_only_this_machine_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "serve", "--http", "0", "--host", "0.0.0.0"]) == 2
    assert main(["mcp", "serve", "--http", "70000"]) == 2
    assert "could be reached by others" in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_no_message_ends_nothing_and_nothing_else_is_on_stdout(tmp_path: Path) -> None:
    given = b'no json\n\xff\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    env = {"HOME": str(tmp_path), "PATH": "/bin"}
    with subprocess.Popen(COMMAND, stdin=-1, stdout=-1, cwd=tmp_path, env=env) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(given)
        server.stdin.flush()
        answers = [server.stdout.readline()]
        server.stdin.close()
        answers += server.stdout.readlines()
    assert server.returncode == 0
    assert all(line.startswith(b'{"jsonrpc":"2.0"') for line in answers), answers
    assert any(b'"id":1' in line for line in answers)
