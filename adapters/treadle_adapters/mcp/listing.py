"""From what a server lists to tools. What cannot be taken is left out and said; nothing a server says is believed blindly."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from treadle import MisuseError, Tool, ToolOutput, ToolRun
from treadle.errors import InvalidData
from treadle.models import describe

from .servers import Server

LOGGER = logging.getLogger("treadle.mcp")
MOST_DESCRIBED = 16_384
"""How many characters of a tool's description are taken."""


class Callee(Protocol):
    """A server that can be called."""

    name: str
    server: Server

    async def call(self, tool: str, arguments: dict[str, Any], run: ToolRun) -> ToolOutput:
        """Call a tool of it."""
        ...


def tools_of(callee: Callee, listed: tuple[Any, ...]) -> list[tuple[Tool, bool]]:
    """The tools that a server lists, each with whether its calls need approval."""
    found: dict[str, tuple[Tool, bool]] = {}
    for item in listed:
        try:
            made = _tool(callee, item)
        except (MisuseError, InvalidData) as error:
            LOGGER.warning("server of tools %s: tool %.80r is left out: %s", callee.name, item.name, describe(error))
            continue
        if made.name in found:
            LOGGER.warning("server of tools %s: it lists %.80r twice; the first is taken", callee.name, item.name)
            continue
        found[made.name] = made, _asks(callee.server, item)
    return list(found.values())


def tool_name(callee: Callee, name: str) -> str:
    """What a tool of a server is called here."""
    return f"{callee.name}__{name}" if callee.server.prefix else name


def _asks(server: Server, item: Any) -> bool:
    """Whether a call needs approval. As the protocol has it, a tool does harm unless it says otherwise."""
    if server.asks != "destructive":
        return server.asks == "always"
    hints = item.annotations
    if hints is None:
        return True
    return not hints.read_only_hint and hints.destructive_hint is not False


def _tool(callee: Callee, item: Any) -> Tool:
    hints = item.annotations
    reads = hints is not None and hints.read_only_hint is True
    name: str = item.name

    async def execute(arguments: dict[str, Any], run: ToolRun) -> ToolOutput:
        return await callee.call(name, arguments, run)

    options: dict[str, Any] = {
        "name": tool_name(callee, name),
        "description": (item.description or item.title or (hints.title if hints else None) or name)[:MOST_DESCRIBED],
        "parameters": item.input_schema,
        "execute": execute,
        "parallel": reads and callee.server.parallel,
        "timeout": callee.server.limits.call_seconds,
    }
    try:
        return Tool(**options, output_schema=item.output_schema)
    except (MisuseError, InvalidData) as error:
        if item.output_schema is None:
            raise
        made = Tool(**options)
        LOGGER.warning("server of tools %s: %s: its output is not checked: %s", callee.name, name[:80], describe(error))
        return made
