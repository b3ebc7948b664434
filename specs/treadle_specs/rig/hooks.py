"""The hooks and tools of an agent under test: each waits at its gate, if the tester asked for that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from treadle import Agent, Text, Tool, ToolOutput, ToolRun, UserMessage
from treadle.hooks import (
    PRE_STEP,
    PROMPT_SUBMIT,
    REQUEST,
    REQUEST_ERROR,
    TURN_STOPPING,
    BlockPrompt,
    Enter,
    PromptSubmission,
    Reject,
    RequestFailure,
    RequestProposal,
    Retry,
    Scope,
    StepProposal,
    TurnIsStopping,
)

from .answers import Admit, Settle
from .gates import Gates
from .protocol import Json, given, one_of, refuse

Next = Callable[[], Awaitable[Any]]
Started = Callable[[str], int | None]


class Hooks:
    """Registers the gates of one agent.

    Args:
        gates: where they wait.
        seat: the agent's number.
        kinds: the kinds that wait; the others take their default by not being there.
    """

    def __init__(self, gates: Gates, seat: int, kinds: frozenset[str]) -> None:
        self._gates, self._seat, self._kinds = gates, seat, kinds

    def register(self, scope: Scope, agent: Agent) -> None:
        """Listen in the agent's scope."""
        self._agent = agent
        if "prompt-submit" in self._kinds:
            scope.on(PROMPT_SUBMIT, self._prompt_submit)
        if "pre-step" in self._kinds:
            scope.on(PRE_STEP, self._pre_step)
        if "request" in self._kinds:
            scope.on(REQUEST, self._request)
        if "request-error" in self._kinds:
            scope.on(REQUEST_ERROR, self._request_error)
        if "turn-stopping" in self._kinds:
            scope.on(TURN_STOPPING, self._turn_stopping)

    async def _prompt_submit(self, payload: PromptSubmission, go_on: Next) -> Any:
        facts: Json = {"message": payload.message.id}
        if await self._gates.wait_at("prompt-submit", facts, payload.signal, self._seat):
            return await go_on()
        return BlockPrompt("the tester blocked it")

    async def _pre_step(self, payload: StepProposal, go_on: Next) -> Any:
        batch = [message.id for message in payload.messages]
        facts: Json = {"turn": payload.turn, "step": payload.step, "batch": batch}
        admit: Admit = await self._gates.wait_at("pre-step", facts, payload.signal, self._seat)
        if not admit.enter:
            return Reject()
        return await go_on() if admit.messages is None else Enter(admit.messages)

    async def _request(self, payload: RequestProposal, go_on: Next) -> Any:
        facts: Json = {"turn": payload.turn, "step": payload.step}
        await self._gates.wait_at("request", facts, payload.signal, self._seat)
        return await go_on()

    async def _request_error(self, payload: RequestFailure, go_on: Next) -> Any:
        facts: Json = {"turn": payload.turn, "step": payload.step, "code": payload.failure.code}
        retry = await self._gates.wait_at("request-error", facts, payload.signal, self._seat)
        return Retry() if retry else await go_on()

    async def _turn_stopping(self, payload: TurnIsStopping) -> None:
        steer: UserMessage | None = await self._gates.wait_at(
            "turn-stopping", {"turn": payload.turn}, payload.signal, self._seat
        )
        if steer is not None:
            self._agent.steer(steer)

    # --- tools --------------------------------------------------------------------------------------------------------

    def tool(self, spec: Json, started: Started) -> Tool:
        """A tool that the tester described; ``started`` says when a call of it was started."""
        name = given(spec, "name", str)
        parallel = one_of(spec, "mode", ("parallel", "exclusive"), "exclusive") == "parallel"
        kind = "stubborn-tool" if name.startswith("stubborn") else "tool"

        async def execute(arguments: dict[str, Any], run: ToolRun) -> ToolOutput:  # noqa: ARG001 (the interface's)
            if kind not in self._kinds:
                return output(Settle())
            call = run.call
            facts: Json = {"call": call.call_id, "name": call.name, "arguments": call.arguments}
            return output(await self._gates.wait_at(kind, facts, run.signal, self._seat, started(call.call_id)))

        return Tool(name, f"The tester's tool {name}.", {"type": "object"}, execute, parallel=parallel)

    def tools(self, specs: list[Json], started: Started) -> list[Tool]:
        """All tools that the tester described."""
        made = [self.tool(spec, started) for spec in specs]
        if len({tool.name for tool in made}) != len(made):
            refuse("invalid", "two tools share a name")
        return made


def output(settle: Settle) -> ToolOutput:
    """What the tool returns; its text is taken as it is."""
    return ToolOutput(
        (Text(settle.text),), is_error=settle.error, concludes_turn=settle.concludes, contexts=settle.contexts
    )
