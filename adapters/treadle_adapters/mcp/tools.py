"""Tools of servers in the scopes of agents: told to the model under their names, called over one connection per host."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import trio

from treadle import Agent, Host, MisuseError, Tool
from treadle.hooks import (
    SYSTEM_PROMPT_ASSEMBLE,
    TOOLS_PRE_EXECUTE,
    AllowCall,
    AskCall,
    DenyCall,
    Disposer,
    Prompt,
    PromptAssembly,
    Scope,
    ToolProposal,
)
from treadle.tools import ToolRegistry

from .connection import Connection, Unavailable
from .listing import tools_of
from .reading import Reading, reading_tools
from .servers import Server, check_name

LOGGER = logging.getLogger("treadle.mcp")
Decision = AllowCall | DenyCall | AskCall


class MCPTools:
    """Servers of tools, for the agents of whatever host it is attached to.

    A server is started when an agent in whose scope it is attached takes a step, not before; then its tools are there.
    One that cannot be started is said in the log, and the step goes on without it. A listing that the server says has
    changed is seen at the next step.

    Args:
        servers: the servers, by the names that their tools begin with.

    Raises:
        MisuseError: a name cannot stand in a tool's name.
    """

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self.servers = {check_name(name): server for name, server in servers.items()}
        self._hosts: weakref.WeakKeyDictionary[Scope, dict[str, Connection]] = weakref.WeakKeyDictionary()

    def attach(self, place: Host | Agent | Scope) -> Disposer:
        """Offer the servers' tools to all agents of a host, or to one agent, or to those below a scope.

        Returns:
            An idempotent function that takes them out again; servers go on until their host ends.

        Raises:
            ScopeClosed: it has ended.
        """
        scope = place if isinstance(place, Scope) else place.scope
        parts = [_Attachment(scope, self.connection(scope, name)) for name in self.servers]

        def detach() -> None:
            for part in parts:
                part.end()

        return detach

    def connection(self, scope: Scope, name: str) -> Connection:
        """The connection to a server on the host that a scope belongs to; it is not opened by this.

        Raises:
            MisuseError: there is no server of that name.
        """
        server = self.servers.get(name)
        if server is None:
            raise MisuseError(f"no server of tools is named {name!r} (known: {', '.join(self.servers) or 'none'})")
        root = scope
        while root.parent is not None:
            root = root.parent
        known = self._hosts.get(root)
        if known is None:
            known = self._hosts[root] = {}
            root.defer(partial(self._end, root))
        if name not in known:
            known[name] = Connection(name, server, root)
        return known[name]

    async def _end(self, root: Scope) -> None:
        """End all servers of a host, at once."""
        async with trio.open_nursery() as nursery:
            for connection in self._hosts.pop(root).values():
                nursery.start_soon(connection.end)

    def resource(self, name: str, uri: str) -> Callable[[PromptAssembly], Awaitable[str | None]]:
        """A provider of a resource's text, for ``prompt.context`` or ``prompt.section``; it is read at each step.

        Args:
            name: the server's.
            uri: the resource's.
        """

        async def provide(assembly: PromptAssembly) -> str | None:
            return await Reading(self.connection(assembly.agent.scope, name)).resource(uri)

        return provide

    def prompt(
        self, name: str, prompt: str, arguments: Mapping[str, str] | None = None
    ) -> Callable[[PromptAssembly], Awaitable[str | None]]:
        """A provider of a prompt's text, for ``prompt.section``; it is asked for at each step.

        Args:
            name: the server's.
            prompt: the prompt's name.
            arguments: what it is made with.
        """

        async def provide(assembly: PromptAssembly) -> str | None:
            return await Reading(self.connection(assembly.agent.scope, name)).prompt(prompt, dict(arguments or {}))

        return provide


class _Attachment:
    """The tools of one server in one scope."""

    def __init__(self, scope: Scope, connection: Connection) -> None:
        self._scope = scope
        self._connection = connection
        self._version = 0
        self._tools: dict[str, tuple[Tool, Disposer]] = {}
        self._asking: dict[str, Tool] = {}
        self._stop_asking: Disposer | None = None
        self._stop = scope.on(SYSTEM_PROMPT_ASSEMBLE, self._before_step)

    async def _before_step(self, _: PromptAssembly, proceed: Callable[[], Awaitable[Prompt]]) -> Prompt:
        connection = self._connection
        session = connection.session
        if self._version != connection.version or not self._version or (session is not None and session.changed):
            await self._follow()
        return await proceed()

    async def _follow(self) -> None:
        """See that what is registered is what the server lists."""
        connection = self._connection
        if not connection.version:
            if connection.resting:
                return
            try:
                await connection.need()
            except Unavailable:
                return  # the connection has said why
        session = connection.session
        if session is not None and session.changed:
            with trio.move_on_after(connection.server.limits.start_seconds):
                await session.settled()
        if self._version != connection.version:
            self._version = connection.version
            self._register()

    def _register(self) -> None:
        connection = self._connection
        wanted = tools_of(connection, connection.tools)
        wanted += reading_tools(connection, {tool.name for tool, _ in wanted})
        self._clear()
        registry = ToolRegistry(self._scope)
        for tool, asks in wanted:
            try:
                self._tools[tool.name] = tool, registry.register(tool)
            except MisuseError as error:
                LOGGER.warning("server of tools %s: %s", connection.name, error)
                continue
            if asks:
                self._asking[tool.name] = tool
        if self._asking and self._stop_asking is None:
            self._stop_asking = self._scope.on(TOOLS_PRE_EXECUTE, self._before_call)

    async def _before_call(self, proposal: ToolProposal, proceed: Callable[[], Awaitable[Decision]]) -> Decision:
        decision = await proceed()
        tool = self._asking.get(proposal.call.name)
        if tool is None or not isinstance(decision, AllowCall) or proposal.agent.tools.get(tool.name) is not tool:
            return decision
        if decision.arguments is not None:
            return DenyCall("a call that needs approval cannot be made with other arguments than the model's")
        return AskCall(f"may {tool.name} of server {self._connection.name} be called?")

    def _clear(self) -> None:
        for _, dispose in self._tools.values():
            dispose()
        self._tools.clear()
        self._asking.clear()

    def end(self) -> None:
        """Take the tools out of the scope."""
        self._stop()
        self._clear()
        if self._stop_asking is not None:
            self._stop_asking()
            self._stop_asking = None
