"""Resources and prompts of a server: as text for prompts, and as tools that the model calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from treadle import MisuseError, Tool, ToolError, ToolOutput, ToolRun
from treadle.models import describe, text_of

from .connection import Connection
from .listing import tool_name

if TYPE_CHECKING:
    from mcp import Client

    from .session import Session

T = TypeVar("T")

RESOURCES = {
    "type": "object",
    "properties": {
        "uri": {"type": "string", "description": "the resource to read; leave it out to list what there is"},
        "cursor": {"type": "string", "description": "where a long list goes on"},
    },
    "additionalProperties": False,
}
PROMPTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "the prompt to get; leave it out to list what there is"},
        "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
        "cursor": {"type": "string", "description": "where a long list goes on"},
    },
    "additionalProperties": False,
}


class ServerRefused(ToolError):
    """A server does not give a resource or prompt."""

    code = "TOOL_REFUSED"


class Reading:
    """Reads what a server offers beside tools.

    Args:
        connection: to the server.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def resource(self, uri: str) -> str:
        """The text of a resource; what is no text is named.

        Raises:
            Unavailable: the server cannot be had.
            ServerRefused: it does not give it, or not in time.
        """
        output = await self.read(uri)
        assert isinstance(output.content, tuple)
        return text_of(output.content)

    async def read(self, uri: str) -> ToolOutput:
        """A resource as blocks. Errors are those of ``resource``."""
        from .content import contents_block

        result = await self._ask("resource", uri, lambda client: client.read_resource(uri))
        return ToolOutput(tuple([contents_block(item) for item in result.contents]))

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        """The text of a prompt, its messages one after the other. Errors are those of ``resource``."""
        from .content import blocks_of

        result = await self._ask("prompt", name, lambda client: client.get_prompt(name, arguments))
        texts = [text_of(blocks_of([message.content])) for message in result.messages]
        if all([message.role == "user" for message in result.messages]):
            return "\n\n".join(texts)
        return "\n\n".join([f"{message.role}: {text}" for message, text in zip(result.messages, texts, strict=True)])

    async def resources(self, cursor: str | None) -> str:
        """What resources there are, a line each."""
        page = await self._ask("list", "resources", lambda client: client.list_resources(cursor=cursor))
        lines = [
            f"{item.uri}  {item.name}" + (f": {item.description}" if item.description else "")
            for item in page.resources
        ]
        if cursor is None:
            there = await self._ask("list", "templates", lambda client: client.list_resource_templates())
            lines += [f"{item.uri_template}  {item.name} (a template)" for item in there.resource_templates]
        return _listed(lines, page.next_cursor)

    async def prompts(self, cursor: str | None) -> str:
        """What prompts there are, a line each, with their arguments."""
        page = await self._ask("list", "prompts", lambda client: client.list_prompts(cursor=cursor))
        lines: list[str] = []
        for item in page.prompts:
            takes = ", ".join([f"{one.name}{'' if one.required else '?'}" for one in item.arguments or ()])
            lines.append(f"{item.name}({takes})" + (f": {item.description}" if item.description else ""))
        return _listed(lines, page.next_cursor)

    async def _ask(self, kind: str, what: str, ask: Callable[[Client], Awaitable[T]]) -> T:
        session: Session = await self._connection.need()
        try:
            with trio.fail_after(self._connection.server.limits.call_seconds):
                return await ask(session.client)
        except Exception as error:
            raise ServerRefused(f"server {self._connection.name}: {kind} {what!r}: {describe(error)}") from error


def _listed(lines: list[str], cursor: str | None) -> str:
    return "\n".join([*lines, *([f"(more with cursor {cursor!r})"] if cursor else [])]) or "there are none"


def reading_tools(connection: Connection, taken: set[str]) -> list[tuple[Tool, bool]]:
    """A tool for resources and one for prompts, where the server has them and no tool of its own takes the name."""
    session = connection.session
    if session is None:
        return []
    has, reading = session.client.server_capabilities, Reading(connection)
    found: list[tuple[Tool, bool]] = []

    async def resources(arguments: dict[str, Any], _: ToolRun) -> Any:
        uri = arguments.get("uri")
        return await reading.resources(arguments.get("cursor")) if uri is None else await reading.read(uri)

    async def prompts(arguments: dict[str, Any], _: ToolRun) -> Any:
        name = arguments.get("name")
        if name is None:
            return await reading.prompts(arguments.get("cursor"))
        return await reading.prompt(name, arguments.get("arguments") or {})

    for offered, name, parameters, execute in (
        (has.resources, "resources", RESOURCES, resources),
        (has.prompts, "prompts", PROMPTS, prompts),
    ):
        full = tool_name(connection, name if connection.server.prefix else f"{connection.name}_{name}")
        if offered is None or full in taken:
            continue
        told = f"List the {name} of server {connection.name}, or get one of them."
        try:
            found.append((Tool(full, told, parameters, execute, parallel=connection.server.parallel), False))
        except MisuseError:
            continue
    return found
