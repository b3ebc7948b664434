"""The model of a checked agent: it answers by what was asked, so that whatever is disturbed, it goes on sensibly.

An answer whose calls were broken off, or may have been, is not done: asked to go on, the model makes those calls again,
as models do. So an effect that a death leaves unrecorded is asked for twice, and the tool has to cope with that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import trio
from attrs import evolve

from treadle import Answer, AssistantMessage, Failure, ModelFailure, ModelRequest, ToolResultMessage, UserMessage
from treadle.models import (
    CallConfig,
    Chunk,
    Code,
    ModelAdapter,
    Models,
    PreparedCall,
    RetryPolicy,
)
from treadle.testing import Script, ScriptedModel

if TYPE_CHECKING:
    from .faults import Faults

UNDONE = frozenset({"ABORTED", "ABORTED_BEFORE_DISPATCH", "TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN"})
"""Codes of results that say that a call was not done, or not for certain."""
PROVIDER = "scripted"
"""The route of agents whose options name none."""
POLICY = RetryPolicy(jitter=0.0)
"""How failed attempts are retried where the agent brings no adapter of its own."""


def answer_to(plans: Mapping[str, Sequence[Script]], request: ModelRequest) -> Any:
    """What the model answers: the first thing of the last known prompt's plan that is not done yet."""
    messages = request.messages
    start = next((at for at in reversed(range(len(messages))) if _prompt(messages[at]) in plans), None)
    if start is None:
        return "Done."
    plan = plans[_prompt(messages[start])]
    results = {message.result.call_id: message.result for message in messages if isinstance(message, ToolResultMessage)}
    done, left = 0, None
    for said in messages[start:]:
        if isinstance(said, AssistantMessage) and done < len(plan):
            undone = [at for at, call in enumerate(said.calls) if _undone(results.get(call.call_id))]
            if undone:
                left = [left[at] for at in undone] if left is not None else undone
            elif _matches(plan[done], said):
                done, left = done + 1, None
    answer: Any = plan[done] if done < len(plan) else "Done."
    while callable(answer):
        answer = answer(request)
    if not isinstance(answer, Answer) or not answer.calls:
        return answer
    due = [call for at, call in enumerate(answer.calls) if left is None or at in left]
    named = [evolve(call, id=call.id or f"call_{len(messages)}_{at + 1}") for at, call in enumerate(due)]
    return evolve(answer, calls=named)


def _prompt(message: Any) -> str:
    return message.text if isinstance(message, UserMessage) else ""


def _undone(result: Any) -> bool:
    return result is None or result.code in UNDONE


def _matches(planned: Any, said: AssistantMessage) -> bool:
    """Whether an answer is the planned one and no beginning of it."""
    if isinstance(planned, Answer):
        return len(said.calls) > 0 if planned.calls else said.text == planned.text
    return said.text == planned if isinstance(planned, str) else True


class PlayedModel(ScriptedModel):
    """Answers by the plans of a scenario, one attempt at a time, and is disturbed where a run says so."""

    def __init__(self, plans: Mapping[str, Sequence[Script]], faults: Faults, policy: RetryPolicy | None) -> None:
        super().__init__(default=lambda request: answer_to(plans, request), retry_policy=policy)
        self._faults = faults

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """One attempt; each chunk is one moment of its own."""
        fault = self._faults.due("model", "")
        match fault:
            case "fail" | "twice":
                raise ModelFailure(Failure("the provider is down, for the check", Code.SERVER.value))
            case "refuse":
                raise ModelFailure(Failure("the provider refuses, for the check", Code.INVALID_REQUEST.value))
            case "hang":
                await self._faults.hang()
            case "slow":
                await self._faults.dawdle()
            case _:
                pass
        count = 0
        stream: Any = super().stream(request)
        async with aclosing(stream):
            async for chunk in stream:
                await trio.lowlevel.checkpoint()
                yield chunk
                count += 1
                if fault == "break" and count == 1:
                    raise ModelFailure(Failure("the connection is lost, for the check", Code.TRANSPORT.value))


class PlayedModels(Models):
    """Serves every provider by the played model; adapters that the agent registers give their retry policy only."""

    def __init__(self, plans: Mapping[str, Sequence[Script]], faults: Faults) -> None:
        super().__init__()
        self._plans = plans
        self._faults = faults
        self._play(PROVIDER, POLICY)

    def _play(self, provider: str, policy: RetryPolicy | None) -> Any:
        return super().register(provider, PlayedModel(self._plans, self._faults, policy))

    def register(self, provider: str, adapter: ModelAdapter) -> Any:
        """See ``Models``; what is registered is never spoken to."""
        if provider == PROVIDER:
            return lambda: None
        return self._play(provider, getattr(adapter, "retry_policy", POLICY))

    async def prepare(self, config: CallConfig, last: CallConfig | None = None) -> PreparedCall:
        """See ``Models``; an unknown provider is played as well."""
        if config.provider and self.route(config.provider) is None:
            self._play(config.provider, POLICY)
        return await super().prepare(config, last)
