"""One agent with one odd server, and what is left when it is over."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from attrs import field, frozen

from tests.hosts import create, hosted
from tests.invariants import check_invariants
from treadle import Agent, Answer, Call, Host, ScriptedModel, ToolResultMessage
from treadle.models import ToolResult
from treadle_adapters.mcp import Limits, MCPTools, StdioServer

SERVER = Path(__file__).parent / "odd_server.py"
QUICK = Limits(start_seconds=20, end_seconds=0.5)


def odd(record: Path, mode: str = "well", **options: Any) -> StdioServer:
    """The odd server."""
    options.setdefault("limits", QUICK)
    return StdioServer((sys.executable, "-S", "-E", str(SERVER), str(record), mode), **options)


@frozen
class Stage:
    """An agent whose model is scripted.

    Attributes:
        record: what the server read.
    """

    host: Host
    agent: Agent
    tools: MCPTools
    model: ScriptedModel
    record: Path
    asked: list[str] = field(factory=list[str])

    async def calls(self, *calls: Call) -> list[ToolResult]:
        """A turn in which the model makes these calls; the results, in order."""
        self.model.push(Answer(calls=list(calls)))
        before = len(self.results())
        self.agent.followup("go")
        await self.agent.when_idle()
        return self.results()[before:]

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
        """A turn of one call of the odd server."""
        (result,) = await self.calls(Call(f"odd__{name}", arguments or {}))
        return result

    def results(self) -> list[ToolResult]:
        """All results of the session."""
        return [message.result for message in self.agent.session.history() if isinstance(message, ToolResultMessage)]

    def read(self, method: str) -> list[dict[str, Any]]:
        """The messages of a kind that servers have read."""
        if not self.record.exists():
            return []
        lines = [json.loads(line) for line in self.record.read_text().splitlines()]
        return [line for line in lines if line.get("method") == method]

    def pids(self) -> list[int]:
        """The processes of all servers that were started."""
        return [line["pid"] for line in self.read("started")]


@asynccontextmanager
async def staged(
    folder: Path, mode: str = "well", *, approve: bool | None = True, alone: bool = True, **options: Any
) -> AsyncIterator[Stage]:
    """An agent with the odd server attached to its host; afterwards no process of it is alive, and its log is sound."""
    asked: list[str] = []

    async def approver(_: object, question: str) -> bool:
        asked.append(question)
        return approve is True

    model = ScriptedModel([])
    record = folder / "record"
    async with hosted(model=model, approver=approver if approve is not None else None, checks=True) as host:
        tools = MCPTools({"odd": odd(record, mode, **options)})
        tools.attach(host)
        agent = (await create(host)).agent
        stage = Stage(host, agent, tools, model, record, asked)
        yield stage
    check_invariants(agent.session, model.requests if alone else ())
    assert [pid for pid in stage.pids() if alive(pid)] == []


def alive(pid: int) -> bool:
    """Whether there is such a process, and it is no corpse."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
