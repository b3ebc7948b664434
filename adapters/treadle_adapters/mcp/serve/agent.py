"""An agent as a server of tools: others prompt it, steer it, stop it, and ask how it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server

import treadle
from treadle import Agent, Completed, MaxTokens
from treadle.errors import InvalidMessage, MessageRejected, TreadleError
from treadle.hooks import SESSION_EVENT, SessionEventAdded
from treadle.session import StepStart, ToolCallStarted

_TEXT = {"type": "object", "properties": {"text": {"type": "string", "minLength": 1}}, "required": ["text"]}
_NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
_READS = types.ToolAnnotations(read_only_hint=True)
_ADDS = types.ToolAnnotations(read_only_hint=False, destructive_hint=False)

Answer = Callable[[Agent, dict[str, Any], Any], Awaitable[types.CallToolResult]]


def served(agent: Agent, *, name: str = "treadle") -> Server[Any]:
    """A server of the SDK's whose tools are an agent: ``prompt``, ``steer``, ``cancel`` and ``status``.

    A request for ``prompt`` that is cancelled stops the turn, as far as it has come, before it is over.

    Args:
        agent: the agent; all clients talk to the same one, one turn after the other.
        name: what the server calls itself.
    """

    async def list_tools(_: Any, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool for tool, _ in TOOLS.values()], ttl_ms=0, cache_scope="public")

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        found = TOOLS.get(params.name)
        if found is None:
            return _failed(f"there is no tool {params.name!r}; there are {', '.join(TOOLS)}")
        try:
            return await found[1](agent, params.arguments or {}, context)
        except TreadleError as error:
            return _failed(f"{error.code}: {error}")

    return Server(
        name,
        version=treadle.__version__,
        instructions="An agent: `prompt` gives it a task and waits for its answer.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _prompt(agent: Agent, arguments: dict[str, Any], context: Any) -> types.CallToolResult:
    text = _text(arguments)
    told = _Told(agent, context)
    stop = agent.scope.on(SESSION_EVENT, told.recorded)
    try:
        answer = await agent.ask(text, on_cancel="stop")
    except MessageRejected as error:
        return _failed(f"it got no turn: {error.reason}")
    finally:
        stop()
    if isinstance(answer.reason, (Completed, MaxTokens)):
        cut = "\n[the answer reached the output limit]" if isinstance(answer.reason, MaxTokens) else ""
        return _said(answer.text + cut)
    return _failed(f"{answer.text}\n[the turn ended: {answer.reason}]".lstrip())


class _Told:
    """Tells a client how far its turn is: one step, or one call, each."""

    def __init__(self, agent: Agent, context: Any) -> None:
        self._agent = agent
        self._session = context.session
        self._count = 0

    async def recorded(self, added: SessionEventAdded) -> None:
        """Tell of an event that shows progress."""
        if added.agent is not self._agent or not isinstance(added.event.data, (StepStart, ToolCallStarted)):
            return
        data = added.event.data
        self._count += 1
        message = f"step {data.step}" if isinstance(data, StepStart) else f"calls {data.name}"
        await self._session.report_progress(float(self._count), None, message)


async def _steer(agent: Agent, arguments: dict[str, Any], _: Any) -> types.CallToolResult:
    running = agent.status == "running"
    agent.steer(_text(arguments))
    return _said("heard at the next step" if running else "it was idle: this opened a turn")


async def _cancel(agent: Agent, _: dict[str, Any], __: Any) -> types.CallToolResult:
    running = agent.status == "running"
    agent.cancel(keep_inbox=True)
    return _said("stopping" if running else "nothing was running")


async def _status(agent: Agent, _: dict[str, Any], __: Any) -> types.CallToolResult:
    waiting = len(agent.inbox.next_turn) + len(agent.inbox.next_step)
    value = {"status": agent.status, "waiting": waiting, "converging": agent.converging is not None}
    shown = f"{agent.status}; {waiting} waiting" + ("; stopping" if value["converging"] else "")
    return types.CallToolResult(content=[types.TextContent(type="text", text=shown)], structured_content=value)


def _text(arguments: dict[str, Any]) -> str:
    text = arguments.get("text")
    if not isinstance(text, str) or not text.strip():
        raise InvalidMessage("`text` must be given, and not be empty")
    return text


def _said(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _tool(name: str, description: str, schema: dict[str, Any], hints: types.ToolAnnotations, **more: Any) -> types.Tool:
    return types.Tool(name=name, description=description, input_schema=schema, annotations=hints, **more)


_STATUS_OUT = {
    "type": "object",
    "properties": {
        "status": {"type": "string"},
        "waiting": {"type": "integer"},
        "converging": {"type": "boolean"},
    },
    "required": ["status", "waiting", "converging"],
}

TOOLS: dict[str, tuple[types.Tool, Answer]] = {
    "prompt": (_tool("prompt", "Give the agent a task; its answer is the result.", _TEXT, _ADDS), _prompt),
    "steer": (_tool("steer", "Say something to the agent while it works.", _TEXT, _ADDS), _steer),
    "cancel": (_tool("cancel", "Stop what the agent does; what waits for it stays.", _NOTHING, _ADDS), _cancel),
    "status": (
        _tool(
            "status",
            "Tell whether the agent works, and what waits for it.",
            _NOTHING,
            _READS,
            output_schema=_STATUS_OUT,
        ),
        _status,
    ),
}
"""What is offered, and what answers."""
