"""A server that misbehaves, each way: it harms nothing, and what becomes of the call is said honestly."""

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.adapters.mcp.stage import alive, staged
from tests.adapters.waiting import eventually
from tests.hosts import create, hosted
from treadle import Aborted, Call, Text
from treadle.models import ToolResult
from treadle_adapters.mcp import (
    MCP_ELICITATION,
    MCP_SAMPLING,
    Accept,
    Dismiss,
    Elicitation,
    Limits,
    MCPTools,
    RefuseSampling,
    Sampled,
    Sampling,
    StdioServer,
    Unavailable,
)
from treadle_adapters.mcp.connection import Connection
from treadle_adapters.progress import TOOL_PROGRESS, ToolProgress


def told(result: ToolResult) -> str:
    return "".join([block.text for block in result.content if isinstance(block, Text)])


async def test_a_tool_is_called_and_its_answer_is_the_result(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        result = await stage.call("echo", {"text": "hello"})
        assert (told(result), result.is_error) == ("hello", False)
        assert "odd__echo" in {tool.name for tool in stage.agent.tools.list()}
        assert [tool.name for tool in stage.model.requests[0].tools if tool.name == "odd__echo"] == ["odd__echo"]
        assert len(stage.pids()) == 1


async def test_nothing_is_started_before_an_agent_takes_a_step(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await trio.testing.wait_all_tasks_blocked()
        assert stage.pids() == []
        stage.model.push("hello")
        stage.agent.followup("go")
        await stage.agent.when_idle()
        assert len(stage.pids()) == 1


async def test_agents_of_a_host_share_one_server(tmp_path: Path) -> None:
    async with staged(tmp_path, alone=False) as stage:
        await stage.call("echo")
        other = (await create(stage.host)).agent
        stage.model.push("hello")
        other.followup("go")
        await other.when_idle()
        assert other.tools.get("odd__echo") is stage.agent.tools.get("odd__echo")
        assert len(stage.pids()) == 1


async def test_what_may_do_harm_needs_approval_and_what_only_reads_does_not(tmp_path: Path) -> None:
    async with staged(tmp_path, approve=False) as stage:
        echo, harm, unsaid = await stage.calls(Call("odd__echo", {}), Call("odd__harm", {}), Call("odd__unsaid", {}))
        assert (echo.code, harm.code, unsaid.code) == (None, "NOT_APPROVED", "NOT_APPROVED")
        assert stage.asked == ["may odd__harm of server odd be called?", "may odd__unsaid of server odd be called?"]
        assert [read["params"]["name"] for read in stage.read("tools/call")] == ["echo"]


@pytest.mark.parametrize(("asks", "codes"), [("never", (None, None)), ("always", ("NOT_APPROVED", "NOT_APPROVED"))])
async def test_who_attaches_a_server_decides_what_is_asked(
    tmp_path: Path, asks: str, codes: tuple[object, ...]
) -> None:
    async with staged(tmp_path, approve=None, asks=asks) as stage:
        results = await stage.calls(Call("odd__echo", {}), Call("odd__harm", {}))
        assert tuple(result.code for result in results) == codes


@pytest.mark.parametrize("how", ["dies", "killed"])
async def test_a_call_whose_server_ends_has_an_unknown_outcome_and_the_server_comes_back(
    tmp_path: Path, how: str
) -> None:
    async with staged(tmp_path) as stage:
        if how == "killed":

            async def kill() -> None:
                await eventually(lambda: stage.read("tools/call"))
                os.kill(stage.pids()[0], signal.SIGKILL)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(kill)
                result = await stage.call("wait")
        else:
            result = await stage.call("die")
        assert result.code == "TOOL_OUTCOME_UNKNOWN"
        assert "may or may not have taken effect" in told(result)
        again = await stage.call("echo", {"text": "back"})
        assert (again.code, told(again)) == (None, "back")
        assert len(stage.pids()) == 2


@pytest.mark.parametrize("mode", ["dead", "silent", "babbling", "unlistable"])
async def test_a_server_that_does_not_start_is_said_and_the_step_goes_on(
    tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with staged(tmp_path, mode, limits=Limits(start_seconds=1, end_seconds=0.2)) as stage:
        stage.model.push("hello")
        stage.agent.followup("go")
        assert (await stage.agent.when_idle()) is not None
        assert stage.agent.session.history()[-1].text == "hello"
        assert stage.agent.tools.list() == ()
        assert "server of tools odd: " in caplog.text


async def test_a_server_that_failed_is_left_alone_for_a_while(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with staged(tmp_path, "dead") as stage:
        for _ in range(3):
            stage.agent.followup("go")
            await stage.agent.when_idle()
        assert caplog.text.count("may be started again") == 1
        connection = stage.tools.connection(stage.agent.scope, "odd")
        assert connection.resting
        with pytest.raises(Unavailable, match="The call was not made"):
            await connection.need()  # it waits, and tries again
        assert [word in caplog.text for word in ("in 0.5 s", "in 1.0 s", "in 2.0 s")] == [True, True, False]


async def test_servers_end_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ending: list[Connection] = []
    all_of_them = trio.Event()

    async def end(self: Connection) -> None:
        ending.append(self)
        if len(ending) == 4:
            all_of_them.set()
        await all_of_them.wait()

    monkeypatch.setattr(Connection, "end", end)
    with trio.fail_after(60):
        async with hosted() as host:
            MCPTools({f"s{number}": StdioServer(("no-such-program",)) for number in range(4)}).attach(host)
    assert len(ending) == 4


@pytest.mark.slow
def test_the_sdk_is_imported_when_the_first_server_is_needed_and_not_before() -> None:
    asked = (
        "import sys, treadle_adapters.mcp, treadle_adapters.tools; print('mcp' in sys.modules, 'httpx2' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.split() == ["False", "False"]


async def test_without_the_sdk_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in [name for name in sys.modules if name.startswith("treadle_adapters.mcp.")]:
        if name.rpartition(".")[2] in ("session", "content", "http", "stdio", "wire"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    async with staged(tmp_path) as stage:
        stage.agent.followup("go")
        await stage.agent.when_idle()
        assert "pip install 'treadle[mcp]'" in caplog.text


async def test_a_call_that_is_cancelled_is_cancelled_at_the_server(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:

        async def cancel() -> None:
            await eventually(lambda: stage.read("tools/call"))
            stage.agent.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel)
            result = await stage.call("wait")
        assert result.code == "ABORTED"
        await eventually(lambda: stage.read("notifications/cancelled"))
        (cancelled,) = stage.read("notifications/cancelled")
        assert cancelled["params"]["requestId"] == stage.read("tools/call")[0]["id"]
        assert told(await stage.call("echo", {"text": "next"})) == "next"
        assert len(stage.pids()) == 1


async def test_a_server_that_reads_nothing_holds_up_no_cancel(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:

        async def cancel() -> None:
            await eventually(lambda: stage.read("tools/call"))
            began = trio.current_time()
            stage.agent.cancel()
            assert isinstance(await stage.agent.when_idle(), Aborted)
            assert trio.current_time() - began < 4  # the client's own patience is 5 s

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel)
            result = await stage.call("deaf", {"filler": "x" * 300_000})
        assert result.code == "ABORTED"


async def test_a_call_takes_no_longer_than_it_may(tmp_path: Path) -> None:
    async with staged(tmp_path, limits=Limits(call_seconds=0.5, end_seconds=0.2)) as stage:
        result = await stage.call("wait")
        assert result.code == "TOOL_TIMEOUT"
        await eventually(lambda: stage.read("notifications/cancelled"))


@pytest.mark.slow
async def test_an_answer_of_fifty_megabytes_is_not_taken_and_other_calls_go_on(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        result = await stage.call("huge", {"bytes": 50_000_000})
        assert result.code == "TOOL_ANSWER_TOO_LONG"
        assert told(await stage.call("echo", {"text": "next"})) == "next"
        assert len(stage.pids()) == 1


async def test_a_message_without_end_ends_the_server_and_not_the_agent(tmp_path: Path) -> None:
    async with staged(tmp_path, limits=Limits(message_bytes=100_000, end_seconds=0.2)) as stage:
        result = await stage.call("endless")
        assert result.code == "TOOL_OUTCOME_UNKNOWN"
        assert told(await stage.call("echo", {"text": "next"})) == "next"


@pytest.mark.slow
async def test_a_flood_ends_the_server_and_not_the_agent(tmp_path: Path) -> None:
    async with staged(tmp_path, limits=Limits(unasked=500, end_seconds=0.2)) as stage:
        few = await stage.call("flood", {"messages": 100})
        assert told(few) == "flooded"
        many = await stage.call("flood", {"messages": 5_000})
        assert many.code == "TOOL_OUTCOME_UNKNOWN"
        assert told(await stage.call("echo", {"text": "next"})) == "next"


@pytest.mark.parametrize("tool", ["garbage", "strangers"])
async def test_what_is_no_message_or_no_known_request_does_no_harm(tmp_path: Path, tool: str) -> None:
    async with staged(tmp_path) as stage:
        assert (await stage.call(tool)).is_error is False
        assert told(await stage.call("echo", {"text": "next"})) == "next"
        assert len(stage.pids()) == 1


@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ("lie", "TOOL_ANSWER_INVALID"),
        ("malformed", "TOOL_ANSWER_INVALID"),
        ("fail", "TOOL_FAILED"),
        ("refuse", "TOOL_REFUSED"),
    ],
)
async def test_each_way_to_fail_has_its_code(tmp_path: Path, tool: str, code: str) -> None:
    async with staged(tmp_path) as stage:
        assert (await stage.call(tool)).code == code
        assert told(await stage.call("echo", {"text": "next"})) == "next"


async def test_odd_schemas_and_names_cost_their_tools_and_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with staged(tmp_path, "strange") as stage:
        assert (await stage.call("good")).is_error is False
        assert {tool.name for tool in stage.agent.tools.list()} == {"odd__good", "odd__output", "odd__"}
        assert caplog.text.count("is left out") == 3
        assert "its output is not checked" in caplog.text


async def test_a_changed_listing_is_seen_at_the_next_step(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.call("change")
        first, second = [{tool.name for tool in request.tools} for request in stage.model.requests]
        assert second - first == {"odd__fresh"}
        assert first - second == {"odd__fail"}


async def test_progress_is_told(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        news: list[ToolProgress] = []
        stage.host.on(TOOL_PROGRESS, news.append)
        await stage.call("steps")
        assert sorted([(one.done, one.total, one.text) for one in news]) == [
            (n + 1.0, 3.0, f"step {n}") for n in range(3)
        ]
        assert {one.agent for one in news} == {stage.agent}


async def test_what_a_server_asks_a_person_is_declined_unless_somebody_answers(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        assert json.loads(told(await stage.call("elicit")))["action"] == "decline"

        def answer(asked: Elicitation, _: object) -> Accept | Dismiss:
            assert (asked.server, asked.message, asked.agent) == ("odd", "Who?", stage.agent)
            return Accept({"name": "Ada"})

        stop = stage.agent.scope.on(MCP_ELICITATION, answer)
        accepted = json.loads(told(await stage.call("elicit")))
        assert (accepted["action"], accepted["content"]) == ("accept", {"name": "Ada", "age": 30})
        stop()
        stage.host.on(MCP_ELICITATION, lambda *_: Dismiss())
        assert json.loads(told(await stage.call("elicit")))["action"] == "cancel"


async def test_no_model_is_lent_unless_somebody_lends_one(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        assert "no model is lent" in told(await stage.call("sample"))

        def lend(asked: Sampling, _: object) -> Sampled | RefuseSampling:
            assert asked.request["messages"][0]["content"]["text"] == "2 + 3?"
            return Sampled("5", "tiny")

        stage.host.on(MCP_SAMPLING, lend)
        sampled = json.loads(told(await stage.call("sample")))
        assert (sampled["content"]["text"], sampled["model"]) == ("5", "tiny")


async def test_a_listener_that_fails_is_an_error_to_the_server(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:

        def broken(*_: object) -> Accept:
            raise ValueError("no")

        stage.host.on(MCP_ELICITATION, broken)
        assert "no" in told(await stage.call("elicit"))
        assert told(await stage.call("echo", {"text": "next"})) == "next"


async def test_a_server_gets_the_named_variables_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD_SECRET", "s")
    monkeypatch.setenv("ODD_NAMED", "n")
    async with staged(tmp_path, env={"GIVEN": "g"}, inherit=("ODD_NAMED",)) as stage:
        assert {
            key: value for key, value in json.loads(told(await stage.call("env"))).items() if key != "LC_CTYPE"
        } == {
            "GIVEN": "g",
            "ODD_NAMED": "n",
        }


async def test_what_a_server_starts_ends_with_it(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        child = int(told(await stage.call("child")))
        assert alive(child)
    await eventually(lambda: not alive(child))


async def test_what_a_server_started_ends_also_when_it_dies(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        child = int(told(await stage.call("child")))
        await stage.call("die")
        await eventually(lambda: not alive(child))


async def test_stderr_goes_to_a_log_up_to_a_bound(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "treadle.mcp")
    async with staged(tmp_path) as stage:
        await stage.call("complain")
        assert ("treadle.mcp.odd", logging.INFO, "a complaint") in caplog.record_tuples
        await stage.call("complain", {"bytes": 3_000_000})
        assert told(await stage.call("echo", {"text": "next"})) == "next"
    assert len(caplog.text) < 20_000
    assert "the rest is not logged" in caplog.text
