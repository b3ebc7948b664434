"""One open connection to a server: the SDK's client, what it lists, and what the server may ask of us."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, cast

import mcp_types as types
import trio
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

import treadle
from treadle import ToolOutput, ToolRun
from treadle.hooks import Scope, decide, tell
from treadle.models import describe

from ..progress import TOOL_PROGRESS, ToolProgress
from .content import output_of
from .points import (
    MCP_ELICITATION,
    MCP_SAMPLING,
    Accept,
    Decline,
    Elicitation,
    RefuseSampling,
    Sampled,
    Sampling,
)
from .servers import Limits, Server, StdioServer
from .stdio import stdio
from .wire import NOT_SENT, TOO_LONG, watched

MOST_PAGES = 100
"""How many pages of a listing are read."""
RELISTEN = 5.0
"""Seconds until a subscription that was lost is asked for again."""

_RUN: ContextVar[ToolRun | None] = ContextVar("run", default=None)
"""The call that the present task makes."""


class Gone(Exception):
    """The connection ended before the call could be made; it may be made on another."""


class Session:
    """An open connection.

    Attributes:
        client: the SDK's.
        lost: set when the connection is over.
        reason: why it is over.
        tools: what the server lists, as it was listed last.
    """

    def __init__(self, name: str, limits: Limits, root: Scope) -> None:
        self._name = name
        self._limits = limits
        self._root = root
        self._runs: dict[ToolRun, None] = {}
        self.client = cast("Client", None)
        self.lost = trio.Event()
        self.reason = ""
        self.tools: tuple[types.Tool, ...] = ()
        self._news = self._known = 0
        self._stirred = trio.Event()
        self._listed = trio.Event()

    @property
    def changed(self) -> bool:
        """Whether the server has said that its tools changed, and they were not listed since."""
        return self._news != self._known

    async def settled(self) -> None:
        """Wait until what has changed so far was listed, or the connection is over."""
        news = self._news
        while self._known < news and not self.lost.is_set():
            await self._listed.wait()

    def lose(self, reason: str) -> None:
        """The connection is over."""
        if not self.lost.is_set():
            self.reason = reason
            self.lost.set()
            self._listed.set()

    # --- listing ------------------------------------------------------------------------------------------------------

    async def list_tools(self) -> None:
        """Ask for the server's tools, all pages, up to the bound.

        Raises:
            MCPError: the server refuses.
        """
        if self.client.server_capabilities.tools is None:
            return
        found: list[types.Tool] = []
        cursor: str | None = None
        news = self._news
        for _ in range(MOST_PAGES):
            page = await self.client.list_tools(cursor=cursor, cache_mode="bypass")
            found += page.tools
            cursor = page.next_cursor
            if cursor is None or len(found) >= self._limits.tools:
                break
        self.tools = tuple(found[: self._limits.tools])
        self._known = news

    def stir(self) -> None:
        """The server says that its tools have changed."""
        self._news += 1
        self._stirred.set()

    async def follow(self, listed: Callable[[], object]) -> None:
        """List the tools again whenever they have changed, and tell ``listed``."""
        while True:
            await self._stirred.wait()
            self._stirred = trio.Event()
            try:
                with trio.fail_after(self._limits.start_seconds):
                    await self.list_tools()
            except Exception as error:
                self.lose(f"it does not list its tools any more: {describe(error)}")
                return
            listed()
            self._listed.set()
            self._listed = trio.Event()

    async def listen(self) -> None:
        """Subscribe to changes of the listing, where the protocol's revision has that."""
        tools = self.client.server_capabilities.tools
        if self.client.protocol_version not in MODERN_PROTOCOL_VERSIONS or tools is None or not tools.list_changed:
            return
        while True:
            try:
                async with self.client.listen(tools_list_changed=True) as events:
                    async for _ in events:
                        self.stir()
            except (MCPError, SubscriptionLost, TimeoutError):
                pass  # asked for again; what changed meanwhile is seen then
            await trio.sleep(RELISTEN)
            self.stir()

    # --- calls --------------------------------------------------------------------------------------------------------

    async def call(self, tool: str, arguments: dict[str, Any], run: ToolRun) -> ToolOutput:
        """Call a tool; whatever the server does is a result.

        Raises:
            Gone: the connection was over before anything was sent.
        """
        if self.lost.is_set():
            raise Gone
        mark = _RUN.set(run)
        self._runs[run] = None
        try:
            result = await self.client.call_tool(tool, arguments, progress_callback=_progress(run))
        except MCPError as error:
            return self._refused(error)
        except Exception as error:
            return _failed(
                f"the server's answer cannot be read: {describe(error)}. It may have taken effect.",
                "TOOL_ANSWER_INVALID",
            )
        finally:
            del self._runs[run]
            _RUN.reset(mark)
        return output_of(result)

    def _refused(self, error: MCPError) -> ToolOutput:
        if error.code == NOT_SENT:
            return _failed(f"server {self._name} is not available: {error}. The call was not made.", "TOOL_UNAVAILABLE")
        if error.code == types.CONNECTION_CLOSED:
            if str(error) == "Connection closed":  # the client's own words: nothing can be sent any more
                self.lose("it closed the connection")
            return _failed(
                f"the connection to the server broke off during the call ({self.reason or error}). "
                "It may or may not have taken effect; check before repeating it.",
                "TOOL_OUTCOME_UNKNOWN",
            )
        if error.code == types.INVALID_REQUEST and "Session terminated" in str(error):
            self.lose("it has forgotten this session")
            raise Gone
        if error.code == TOO_LONG:
            return _failed(f"{error}. The call may have taken effect.", "TOOL_ANSWER_TOO_LONG")
        return _failed(f"the server refuses the call: {error} ({error.code})", "TOOL_REFUSED")

    # --- what the server asks -----------------------------------------------------------------------------------------

    def _whose(self) -> ToolRun | None:
        """The call that a server's question belongs to: the one in this task, or the only one under way."""
        run = _RUN.get()
        return run if run is not None else next(iter(self._runs)) if len(self._runs) == 1 else None

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """A server asks a person."""
        del context  # it names the session, which is this one
        run = self._whose()
        form = isinstance(params, types.ElicitRequestFormParams)
        schema = params.requested_schema if form else None
        asked = Elicitation(
            self._name, params.message, schema, None if form else params.url, run.agent if run is not None else None
        )

        async def default() -> Accept | Decline:
            return Decline()

        try:
            answer = await decide(run.agent.scope if run is not None else self._root, MCP_ELICITATION, asked, default)
        except Exception as error:
            return types.ErrorData(code=types.INTERNAL_ERROR, message=describe(error)[:500])
        if isinstance(answer, Accept):
            content = {**_defaults(schema), **(answer.content or {})} if schema is not None else None
            return types.ElicitResult(action="accept", content=content)
        return types.ElicitResult(action="decline" if isinstance(answer, Decline) else "cancel")

    async def sample(
        self, context: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """A server asks for an answer of a model."""
        del context
        run = self._whose()
        request = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        asked = Sampling(self._name, request, run.agent if run is not None else None)

        async def default() -> Sampled | RefuseSampling:
            return RefuseSampling()

        try:
            answer = await decide(run.agent.scope if run is not None else self._root, MCP_SAMPLING, asked, default)
        except Exception as error:
            return types.ErrorData(code=types.INTERNAL_ERROR, message=describe(error)[:500])
        if isinstance(answer, RefuseSampling):
            return types.ErrorData(code=types.INVALID_REQUEST, message=answer.reason)
        content = types.TextContent(type="text", text=answer.text)
        return types.CreateMessageResult(
            role="assistant", content=content, model=answer.model, stop_reason=answer.stop_reason
        )

    def notice(self, method: str) -> None:
        """A notification of the server was read."""
        if method == "notifications/tools/list_changed":
            self.stir()


@asynccontextmanager
async def connected(name: str, server: Server, root: Scope, listed: Callable[[], object]) -> AsyncGenerator[Session]:
    """Connect to a server and list its tools; leaving the block ends the connection.

    Args:
        name: the server's.
        server: what is known of it.
        root: where its questions are asked that belong to no call.
        listed: told when its tools were listed anew.

    Raises:
        trio.TooSlowError: it took too long.
        Exception: it cannot be started or reached, or does not speak the protocol.
    """
    session = Session(name, server.limits, root)
    if isinstance(server, StdioServer):
        transport = stdio(name, server, session.lose)
    else:
        from .http import http

        transport = http(server)
    client = Client(
        cast("Any", watched(transport, server.limits, session.lose, session.notice)),
        elicitation_callback=session.elicit,
        sampling_callback=session.sample,
        client_info=types.Implementation(name="treadle", version=treadle.__version__),
        cache=None,
    )
    with trio.CancelScope() as limit:
        limit.deadline = trio.current_time() + server.limits.start_seconds
        async with client, trio.open_nursery() as nursery:
            session.client = client
            await session.list_tools()
            limit.deadline = float("inf")
            nursery.start_soon(session.follow, listed)
            nursery.start_soon(session.listen)
            yield session
            nursery.cancel_scope.cancel()
    if limit.cancelled_caught:
        raise trio.TooSlowError(f"it did not start within {server.limits.start_seconds:g} s")


def _progress(run: ToolRun) -> ProgressFnT:
    async def told(progress: float, total: float | None, message: str | None) -> None:
        tell(run.agent.scope, TOOL_PROGRESS, ToolProgress(run.agent, run.call, message or "", progress, total))
        await trio.lowlevel.checkpoint()

    return told


def _failed(text: str, code: str) -> ToolOutput:
    return ToolOutput(text, is_error=True, code=code)


def _defaults(schema: dict[str, Any] | None) -> dict[str, Any]:
    """What a form's fields are unless the person says otherwise."""
    properties = (schema or {}).get("properties")
    if not isinstance(properties, dict):
        return {}
    fields = cast("dict[str, Any]", properties)
    return {name: field["default"] for name, field in fields.items() if isinstance(field, dict) and "default" in field}
