"""Prompt assembly: system text, tools and dynamic contexts of a step (§14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .effects import Admit
from .hooks import waterfall
from .models.messages import UserMessage
from .points import SYSTEM_PROMPT_ASSEMBLE, Prompt, PromptAssembly
from .tools.registry import toolset

if TYPE_CHECKING:
    from .driver import Driver


async def assemble(driver: Driver, operation: Admit) -> tuple[UserMessage, ...]:
    """Assemble the prompt of a step and keep it for its request; returns contexts to add to the batch (T1, R1)."""
    scope = driver.agent.scope
    tools = toolset(scope)
    listeners = scope.listeners(SYSTEM_PROMPT_ASSEMBLE)
    state = driver.request_state
    if not listeners:
        state.assembled(driver.agent.system_prompt, tools.schemas)
        return ()

    async def default() -> Prompt:
        return Prompt(driver.agent.system_prompt, tools.schemas)

    payload = PromptAssembly(driver.agent, operation.turn, operation.step, driver.signal)
    prompt: Prompt = await waterfall(SYSTEM_PROMPT_ASSEMBLE, listeners, payload, default)
    state.assembled(prompt.system, prompt.tools)
    return prompt.contexts
