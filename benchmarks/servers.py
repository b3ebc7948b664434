"""Tools of servers: what a call costs, what listed tools add to a step, and that attached servers cost nothing."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters

from treadle import Host, Signal, ToolCall, ToolRun
from treadle_adapters.mcp import MCPTools, StdioServer

from .measure import SLICES, Benchmark, Meter, Pair, Sample
from .subjects import OPTIONS, Prebuilt, turns

SERVER = str(Path(__file__).parent / "tool_server.py")
CALLS, CREATED, TURNS, LISTED, ATTACHED = 200, 1_000, 200, 200, 50
_NEVER = Signal()


def _command(tools: int) -> tuple[str, ...]:
    return (sys.executable, "-S", "-E", SERVER, str(tools))


async def call() -> Sample:
    """A tool's body, against ``call_tool`` of the SDK's client over its own transport."""
    pair = Pair()
    command, *words = _command(1)
    async with Host() as host, Client(StdioServerParameters(command=command, args=words)) as client:
        host.models.register("bench", Prebuilt())
        MCPTools({"s": StdioServer(_command(1))}).attach(host)
        agent = (await host.agents.create(agent_options=OPTIONS)).agent
        await turns(agent, 1)
        tool = agent.tools.get("s__echo0")
        assert tool is not None
        await client.list_tools()
        arguments = {"text": "hello"}
        for _ in range(SLICES):
            with pair.ours.time(CALLS):
                for number in range(CALLS):
                    run = ToolRun(agent, ToolCall(f"c{number}", tool.name), 1, 1, _NEVER)
                    await tool.execute(arguments, run)
            with pair.floor.time(CALLS):
                for _ in range(CALLS):
                    await client.call_tool("echo0", arguments)
    return pair.sample()


async def listed() -> Sample:
    """What 200 listed tools add to a step: such a turn of one step, less one without them."""
    with_tools, without = Meter(), Meter()
    async with Host() as full, Host() as empty:
        for host in (full, empty):
            host.models.register("bench", Prebuilt())
        MCPTools({"s": StdioServer(_command(LISTED))}).attach(full)
        one = (await full.agents.create(agent_options=OPTIONS)).agent
        other = (await empty.agents.create(agent_options=OPTIONS)).agent
        await turns(one, 5)
        await turns(other, 5)
        assert len(one.tools.list()) == LISTED
        for _ in range(SLICES):
            with with_tools.time(TURNS):
                await turns(one, TURNS)
            with without.time(TURNS):
                await turns(other, TURNS)
    return Sample(with_tools.each - without.each)


async def attached() -> Sample:
    """Creating an agent on a host with 50 servers that nobody uses, against one without."""
    pair = Pair()
    kinds = [(pair.ours, ATTACHED), (pair.floor, 0)]
    for _ in range(2 * SLICES):
        kinds.reverse()
        for meter, count in kinds:
            gc.collect()
            async with Host() as host:
                host.models.register("bench", Prebuilt())
                tools = MCPTools({f"s{number}": StdioServer(("no-such-program",)) for number in range(count)})
                tools.attach(host)
                with meter.time(CREATED):
                    for _ in range(CREATED):
                        await host.agents.create(agent_options=OPTIONS)
                assert all(not tools.connection(host.scope, name).failure for name in tools.servers)
    return pair.sample()


BENCHMARKS: list[Benchmark] = [
    Benchmark("mcp-call", "a call of a server's tool; floor: the same by the bare SDK", "µs/call", 1.3, call),
    Benchmark("mcp-listed", "what 200 tools of a server add to a step", "µs/step", 20.0, listed, "at-most"),
    Benchmark(
        "mcp-attached", "an agent made beside 50 servers; floor: one made beside none", "µs/agent", 1.1, attached
    ),
]
"""The benchmarks of this module."""
