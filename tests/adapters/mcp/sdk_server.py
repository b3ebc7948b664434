"""A server on the SDK's newest revision: ``python sdk_server.py RECORD stdio`` or ``python sdk_server.py RECORD http PORT``."""

import sys
from pathlib import Path

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

RECORD = sys.argv[1]
server = MCPServer("sdk")


def note(told: str) -> None:
    with Path(RECORD).open("a", encoding="utf-8") as record:
        record.write(told + "\n")


@server.tool()
async def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
async def wait() -> str:
    """Wait until cancelled."""
    note("waiting")
    try:
        await anyio.sleep_forever()
    finally:
        note("cancelled")
    return ""


@server.tool()
async def grow(ctx: Context) -> str:
    """Have one more tool."""

    async def fresh() -> str:
        return "fresh"

    server.add_tool(fresh, name="fresh", description="New.")
    await ctx.notify_tools_changed()
    return "grown"


@server.tool()
async def ask(ctx: Context) -> str | InputRequiredResult:
    """Ask who is there."""
    if ctx.input_responses:
        return str(ctx.input_responses["who"].model_dump(mode="json"))
    form = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 30}}}
    params = ElicitRequestFormParams(message="Who?", requested_schema=form)
    return InputRequiredResult(input_requests={"who": ElicitRequest(params=params)})


if sys.argv[2] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[3]))
