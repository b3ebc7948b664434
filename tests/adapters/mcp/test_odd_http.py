"""A server over HTTP that misbehaves, each way."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from attrs import evolve

from tests.adapters.mcp.real import LEFT_GENERATORS
from tests.adapters.mcp.test_real_servers import told
from tests.adapters.waiting import eventually
from tests.hosts import create, hosted
from tests.invariants import check_invariants
from treadle import Answer, Call, ScriptedModel, ToolResultMessage
from treadle.models import ToolResult
from treadle_adapters.mcp import HTTPServer, Limits, MCPTools

pytestmark = LEFT_GENERATORS
TOOLS = ("echo", "huge", "packed", "broken", "silent", "page", "forgets", "events")
LIMITS = Limits(start_seconds=60, call_seconds=60, message_bytes=1_000_000)


class Odd(BaseHTTPRequestHandler):
    """Answers as the called tool's name says."""

    protocol_version = "HTTP/1.1"
    seen: list[dict[str, Any]]
    sessions: int

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        kind = type(self)
        kind.seen.append({**message, "headers": dict(self.headers)})
        id, method = message.get("id"), message.get("method")  # noqa: A001  # the protocol's word
        if id is None:
            self.reply(b"", 202)
            return
        if method == "initialize":
            kind.sessions += 1
            self.result(
                id,
                {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "o", "version": "1"},
                },
            )
        elif method == "tools/list":
            hints = {"readOnlyHint": True}
            self.result(
                id,
                {"tools": [{"name": name, "inputSchema": {"type": "object"}, "annotations": hints} for name in TOOLS]},
            )
        elif method == "tools/call":
            self.call(id, message["params"]["name"])
        else:
            self.reply(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}).encode())

    def call(self, id: Any, tool: str) -> None:
        whole = json.dumps(
            {"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "well"}]}}
        ).encode()
        if tool == "huge":
            self.reply(b" " * 50_000_000 + whole)
        elif tool == "packed":
            self.reply(gzip.compress(b" " * 50_000_000 + whole), packed=True)
        elif tool == "broken":
            self.close_connection = True
            self.connection.close()
        elif tool == "silent":
            time.sleep(4)
        elif tool == "page":
            self.reply(b"<html>Please log in</html>", kind="text/html")
        elif tool == "forgets" and self.headers["mcp-session-id"] == "1":
            self.reply(b"gone", 404)
        elif tool == "events":
            self.reply(b"data: " + b"x" * 5_000_000, kind="text/event-stream")
        else:
            self.reply(whole)

    def result(self, id: Any, result: Any) -> None:
        self.reply(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode())

    def reply(self, body: bytes, status: int = 200, kind: str = "application/json", packed: bool = False) -> None:
        try:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.send_header("mcp-session-id", str(type(self).sessions))
            if packed:
                self.send_header("content-encoding", "gzip")
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def do_GET(self) -> None:
        self.reply(b"", 405)

    do_DELETE = do_GET  # noqa: N815  # the server looks for this name

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def odd() -> Iterator[tuple[str, type[Odd]]]:
    handler = type("Handler", (Odd,), {"seen": [], "sessions": 0})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/mcp", handler
        finally:
            server.shutdown()
            thread.join()


async def called(url: str, *tools: str, **options: Any) -> list[ToolResult]:
    """The results of calls, one after the other, by one agent."""
    model = ScriptedModel([Answer(calls=[Call(f"o__{tool}", {}) for tool in tools])])
    async with hosted(model=model, checks=True) as host:
        MCPTools({"o": HTTPServer(url, parallel=False, **{"limits": LIMITS, **options})}).attach(host)
        agent = (await create(host)).agent
        agent.followup("go")
        await agent.when_idle()
        found = [message.result for message in agent.session.history() if isinstance(message, ToolResultMessage)]
    check_invariants(agent.session, model.requests)
    return found


@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ("huge", "TOOL_REFUSED"),
        ("packed", "TOOL_OUTCOME_UNKNOWN"),
        ("broken", "TOOL_OUTCOME_UNKNOWN"),
        ("page", "TOOL_REFUSED"),
        ("forgets", None),
        ("events", "TOOL_OUTCOME_UNKNOWN"),
    ],
)
async def test_each_way_has_its_result_and_the_next_call_is_made(tool: str, code: str | None) -> None:
    with odd() as (url, _):
        result, after = await called(url, tool, "echo")
    assert result.code == code
    assert (after.code, told(after)) == (None, "well")


async def test_a_server_that_does_not_answer_costs_one_call_its_time() -> None:
    with odd() as (url, _):
        (result,) = await called(url, "silent", limits=evolve(LIMITS, call_seconds=1))
    assert result.code == "TOOL_TIMEOUT"


async def test_headers_are_sent_and_never_shown() -> None:
    with odd() as (url, handler):
        server = HTTPServer(url, headers={"Authorization": "Bearer secret"})
        await called(url, "echo", headers={"Authorization": "Bearer secret"})
    assert "secret" not in repr(server)
    assert {one["headers"]["Authorization"] for one in handler.seen} == {"Bearer secret"}


async def test_a_server_that_is_not_there_is_said_and_the_step_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with odd() as (url, _):
        pass
    (result,) = await called(url, "echo")
    assert result.code == "UNKNOWN_TOOL"
    assert "cannot be reached" in caplog.text
    assert "server of tools o: " in caplog.text


async def test_a_cancel_is_told_to_a_server_over_http() -> None:
    with odd() as (url, handler):
        model = ScriptedModel([Answer(calls=[Call("o__silent", {})])])
        async with hosted(model=model, checks=True) as host:
            MCPTools({"o": HTTPServer(url, limits=LIMITS)}).attach(host)
            agent = (await create(host)).agent
            agent.followup("go")
            await eventually(lambda: [one for one in handler.seen if one.get("method") == "tools/call"])
            agent.cancel()
            await agent.when_idle()
            await eventually(lambda: [one for one in handler.seen if one.get("method") == "notifications/cancelled"])
            told = [one for one in handler.seen if one.get("method") == "notifications/cancelled"]
        (call,) = [one for one in handler.seen if one.get("method") == "tools/call"]
        assert told[0]["params"]["requestId"] == call["id"]
