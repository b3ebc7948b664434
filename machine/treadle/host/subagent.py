"""A sub-agent as a tool: a child agent does one job and gives its last answer as the one result (O6)."""

from __future__ import annotations

from typing import Any

import trio
from attrs import frozen

from ..agent.agent import Agent
from ..agent.creation import Commit, Setup
from ..agent.delivery import message
from ..agent.options import AgentOptions
from ..errors import DelegationLimit, MisuseError, ToolError
from ..hooks.scope import Scope
from ..loop.driver import Driver
from ..tools.definition import Tool, ToolRun
from ..words.messages import AgentSource, AssistantMessage, UserMessage
from ..words.reasons import Blocked, Completed, EndReason, Errored, MaxTokens
from .host import Host

PROMPT: dict[str, Any] = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "The whole job: the other agent sees nothing else."}},
    "required": ["prompt"],
    "additionalProperties": False,
}
"""What the model gives to the tool."""


def subagent(
    name: str = "subagent",
    description: str = "Hand a self-contained job to another agent and get its answer.",
    *,
    options: AgentOptions | None = None,
    setup: Setup | None = None,
    max_depth: int | None = None,
    parallel: bool = False,
) -> Tool:
    """Make a tool that has a child agent do a job.

    The child is created through the running agent's host with that agent as its parent, works until it is idle, and
    is disposed; the text of its last answer is the result. When the parent's turn is cancelled, the child is
    cancelled with cause ``parent``, and the tool is over once the child has converged and is disposed. A child that
    is cancelled by itself, fails, or gives no answer makes the result an error; the parent goes on.

    Args:
        name: what the model calls it.
        description: what the model is told.
        options: the child's options; the running agent's unless given.
        setup: see ``Agents.create``; registers the child's tools and prompt parts.
        max_depth: how deep below its root a child may stand, which lets children delegate in turn; the host's bounds
            hold besides. Without it a child is not offered the tools of this kind that its parent has; what ``setup``
            registers for the child itself is its own.
        parallel: whether several children may work at once (K4).

    Raises:
        MisuseError: ``max_depth`` is no positive whole number.
    """
    if max_depth is not None and (type(max_depth) is not int or max_depth < 1):
        raise MisuseError(f"max_depth must be a positive whole number or None, not {max_depth!r}")
    return Tool(name, description, PROMPT, Delegation(options, setup, max_depth), parallel=parallel)


@frozen(eq=False)
class Delegation:
    """What the tool executes."""

    options: AgentOptions | None
    setup: Setup | None
    max_depth: int | None

    async def __call__(self, arguments: dict[str, Any], run: ToolRun) -> str:
        """Have a child do the job; returns its last answer.

        Raises:
            DelegationLimit: the child would stand too deep.
            ToolError: the child was stopped, failed, or said nothing.
        """
        parent = run.agent
        depth = parent.session.header.delegation_depth + 1
        if self.max_depth is not None and depth > self.max_depth:
            raise DelegationLimit(f"this agent would stand {depth} deep, and {self.max_depth} is the limit: do the job")
        handle = await _host_of(parent).agents.create(
            parent_agent=parent,
            agent_options=self.options if self.options is not None else parent.options,
            setup=self._set_up,
            cwd=parent.session.header.cwd,
            parent_session=parent.id,
            origin="subagent",
        )
        child = handle.agent
        try:
            child.followup(message(arguments["prompt"], source=AgentSource(parent.id)))
            return _answer(child, await child.when_idle())
        finally:
            with trio.CancelScope(shield=True):
                await handle.dispose()

    async def _set_up(self, scope: Scope, child: Agent) -> Commit | None:
        """Withhold what would have the child delegate in turn, unless that was asked for; then the user's own setup."""
        if self.max_depth is None:
            child.tools.restrict(deny=[one.name for one in child.tools.list() if isinstance(one.execute, Delegation)])
        return await self.setup(scope, child) if self.setup is not None else None


def _host_of(agent: Agent) -> Host:
    engine = agent.engine
    assert isinstance(engine, Driver)
    assert isinstance(engine.host, Host)
    return engine.host


def _answer(child: Agent, reason: EndReason | None) -> str:
    match reason:
        case Completed():
            return _last_said(child)
        case MaxTokens():
            return f"{_last_said(child)}\n[cut off by the output limit]"
        case Blocked():
            raise ToolError(f"the agent was not let do the job: {reason.detail or 'a hook blocked it'}", "BLOCKED")
        case Errored():
            raise ToolError(f"the agent failed: {reason.failure.message}", reason.failure.code)
        case _:
            raise ToolError("the agent was stopped before it had finished: part of its work may be done", "STOPPED")


def _last_said(child: Agent) -> str:
    answer = ""
    for said in child.session.history():
        if isinstance(said, UserMessage):
            answer = ""
        elif isinstance(said, AssistantMessage) and said.text.strip():
            answer = said.text
    if not answer:
        raise ToolError("the agent finished without an answer", "NO_ANSWER")
    return answer
