"""Servers that others wrote, over stdio and streamable HTTP: their tools, resources and prompts reach the model."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio

from tests.adapters.aimock import installed
from tests.adapters.mcp.real import LEFT_GENERATORS, real_command
from tests.hosts import create, hosted
from tests.invariants import check_invariants
from treadle import Agent, Answer, Call, ScriptedModel, Text, ToolResultMessage
from treadle.models import ToolResult
from treadle_adapters.mcp import HTTPServer, Image, MCPTools, Server, StdioServer
from treadle_adapters.progress import TOOL_PROGRESS, ToolProgress


@asynccontextmanager
async def talking(
    servers: Mapping[str, Server], *calls: Call
) -> AsyncIterator[tuple[Agent, ScriptedModel, list[ToolResult]]]:
    """An agent that has made these calls."""

    async def approve(*_: object) -> bool:
        return True

    model = ScriptedModel([Answer(calls=list(calls))])
    async with hosted(model=model, approver=approve, checks=True) as host:
        MCPTools(servers).attach(host)
        agent = (await create(host)).agent
        agent.followup("go")
        await agent.when_idle()
        results = [message.result for message in agent.session.history() if isinstance(message, ToolResultMessage)]
        yield agent, model, results
    check_invariants(agent.session, model.requests)


def told(result: ToolResult) -> str:
    return "".join([block.text for block in result.content if isinstance(block, Text)])


@contextmanager
def served(command: list[str], port: int, **env: str) -> Iterator[None]:
    """A server over HTTP, until the block ends."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env, "PORT": str(port)},
    ) as server:
        assert server.stderr is not None
        try:
            assert any("listening" in line for line in server.stderr)
            yield
        finally:
            server.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


EVERYTHING = (
    Call("e__echo", {"message": "hello"}),
    Call("e__get-sum", {"a": 2, "b": 3}),
    Call("e__get-tiny-image", {}),
    Call("e__get-structured-content", {"location": "Chicago"}),
    Call("e__trigger-long-running-operation", {"duration": 0.3, "steps": 3}),
    Call("e__trigger-elicitation-request", {}),
    Call("e__trigger-sampling-request", {"prompt": "2 + 3?"}),
    Call("e__resources", {"uri": "demo://resource/dynamic/text/1"}),
    Call("e__prompts", {"name": "args-prompt", "arguments": {"city": "Paris"}}),
)


def check_everything(results: list[ToolResult]) -> None:
    echo, total, image, structured, long, elicited, sampled, resource, prompt = results
    assert told(echo) == "Echo: hello"
    assert "5" in told(total)
    assert [type(block) for block in image.content if not isinstance(block, Text)] == [Image]
    assert json.loads(told(structured))["temperature"]
    assert "completed" in told(long)
    assert "declined" in told(elicited)
    assert (sampled.is_error, "no model is lent" in told(sampled)) == (True, True)
    assert "Resource 1" in told(resource)
    assert "Paris" in told(prompt)


@pytest.mark.slow
async def test_the_reference_server_over_stdio() -> None:
    servers = {"e": StdioServer(real_command("everything"))}
    async with talking(servers, *EVERYTHING) as (agent, _, results):
        check_everything(results)
        assert agent.tools.get("e__get-structured-content").output_schema is not None  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.slow
@LEFT_GENERATORS
async def test_the_reference_server_over_http() -> None:
    command, port = real_command("everything"), free_port()
    with served([*command, "streamableHttp"], port):
        async with talking({"e": HTTPServer(f"http://127.0.0.1:{port}/mcp")}, *EVERYTHING) as (_, _, results):
            check_everything(results)


@pytest.mark.slow
async def test_progress_of_the_reference_server_is_told() -> None:
    news: list[ToolProgress] = []
    async with hosted(model=ScriptedModel([Answer(calls=[EVERYTHING[4]])]), checks=True) as host:
        MCPTools({"e": StdioServer(real_command("everything"), asks="never")}).attach(host)
        host.on(TOOL_PROGRESS, news.append)
        agent = (await create(host)).agent
        agent.followup("go")
        await agent.when_idle()
    assert [one.done for one in news] == [1, 2, 3]


@pytest.mark.slow
async def test_prompts_and_resources_are_parts_of_the_system_prompt() -> None:
    tools = MCPTools({"e": StdioServer(real_command("everything"))})
    model = ScriptedModel(["hello"])
    async with hosted(model=model, checks=True) as host:
        host.prompt.section("greeting", tools.prompt("e", "args-prompt", {"city": "Lyon"}))
        host.prompt.context("doc", tools.resource("e", "demo://resource/dynamic/text/7"))
        agent = (await create(host)).agent
        agent.followup("go")
        await agent.when_idle()
    system, *others = model.requests[0].messages
    assert "Lyon" in system.text
    assert "Resource 7" in others[0].text


@pytest.mark.slow
async def test_the_file_server(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha")
    calls = (
        Call("files__read_text_file", {"path": str(tmp_path / "a.txt")}),
        Call("files__write_file", {"path": str(tmp_path / "b.txt"), "content": "beta"}),
        Call("files__list_directory", {"path": str(tmp_path)}),
        Call("files__read_text_file", {"path": "/etc/passwd"}),
    )
    servers = {"files": StdioServer((*real_command("filesystem"), str(tmp_path)))}
    async with talking(servers, *calls) as (agent, _, results):
        read, wrote, listed, escaped = results
        assert (told(read), wrote.is_error) == ("alpha", False)
        assert (tmp_path / "b.txt").read_text() == "beta"
        assert "b.txt" in told(listed)
        assert escaped.is_error
        assert agent.tools.get("files__read_text_file").parallel is True  # pyright: ignore[reportOptionalMemberAccess]
        assert agent.tools.get("files__write_file").parallel is False  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.slow
async def test_the_time_server() -> None:
    servers = {"time": StdioServer((*real_command("time"), "--local-timezone", "UTC"))}
    async with talking(servers, Call("time__get_current_time", {"timezone": "Europe/Lisbon"})) as (_, _, (result,)):
        assert json.loads(told(result))["timezone"] == "Europe/Lisbon"


@pytest.mark.slow
async def test_the_git_server(tmp_path: Path) -> None:
    command = real_command("git")
    who = ("-c", "user.name=A", "-c", "user.email=a@localhost")
    await trio.run_process(["git", "init", "-q", str(tmp_path)])
    await trio.run_process(["git", "-C", str(tmp_path), *who, "commit", "-q", "--allow-empty", "-m", "First words"])
    calls = Call("git__git_log", {"repo_path": str(tmp_path)}), Call("git__git_status", {"repo_path": str(tmp_path)})
    async with talking({"git": StdioServer((*command, "--repository", str(tmp_path)))}, *calls) as (_, _, results):
        assert "First words" in told(results[0])
        assert results[1].is_error is False


@pytest.mark.slow
@LEFT_GENERATORS
async def test_a_third_partys_mock_over_http() -> None:
    folder = installed()
    tool = {"name": "weather", "description": "Tell the weather.", "inputSchema": {"type": "object", "properties": {}}}
    config = {
        "llm": {"fixtures": "none.json"},
        "mcp": {
            "tools": [{**tool, "result": "sunny"}],
            "resources": [{"uri": "mock://a", "name": "a", "text": "the text of a"}],
        },
    }
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "none.json").write_text(
            '{"fixtures": [{"match": {"userMessage": "-"}, "response": {"content": "-"}}]}'
        )
        (Path(place) / "config.json").write_text(json.dumps(config))
        port = free_port()
        command = ["node", str(folder / "dist" / "aimock-cli.js"), "--config", "config.json", "--host", "127.0.0.1"]
        with subprocess.Popen(  # noqa: ASYNC220  # it starts at once
            [*command, "--port", str(port)],
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as server:
            try:
                assert server.stdout is not None
                assert any(re.search(r"http://127\.0\.0\.1:\d+", line) for line in server.stdout)
                calls = Call("m__weather", {}), Call("m__resources", {"uri": "mock://a"})
                async with talking({"m": HTTPServer(f"http://127.0.0.1:{port}/mcp")}, *calls) as (_, _, results):
                    assert [told(result) for result in results] == ["sunny", "the text of a"]
            finally:
                server.kill()
