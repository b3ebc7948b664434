"""Prompt assembly: system text, tools and dynamic contexts of a step (§14)."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, cast

from attrs import evolve

from ..errors import MisuseError, PromptError
from ..hooks.dispatch import waterfall
from ..hooks.points import SYSTEM_PROMPT_ASSEMBLE, Prompt, PromptAssembly
from ..kernel.effects import Admit
from ..lossless import text_is_lossless
from ..prompt.registry import (
    PromptParts,
    Section,
    check_prompt_size,
    chosen_sections,
    fill,
    fixed_prompt,
    join_sections,
    prompt_parts,
    references,
)
from ..tools.offer import offered
from ..tools.registry import tool_order, toolset
from ..words.call_config import ToolSchema
from ..words.messages import UserMessage
from .activity import Activity


async def assemble(activity: Activity, operation: Admit) -> Prompt:
    """Assemble the prompt of a step, where somebody has to be asked for it; see ``fixed_prompt`` (T1, R1).

    Raises:
        PromptError: a variable is missing, a provider failed, or the parts contradict each other (R2).
        Exception: whatever an assemble hook raised.
    """
    scope = activity.agent.scope
    assembly = PromptAssembly(activity.agent, operation.turn, operation.step, activity.signal)

    async def default() -> Prompt:
        fixed: Prompt | None = scope.shown[fixed_prompt]
        if fixed is not None:
            return fixed
        asks = bool(operation.batch) or activity.facts.owes
        return await Assembler(activity, prompt_parts(scope), assembly).prompt(with_contexts=asks)

    listeners = scope.heard[SYSTEM_PROMPT_ASSEMBLE]
    if listeners:
        prompt = _checked(await waterfall(SYSTEM_PROMPT_ASSEMBLE, listeners, assembly, default), toolset(scope).schemas)
    else:
        prompt = await default()
    if prompt is not scope.shown[fixed_prompt]:  # that one was measured when it was made
        check_prompt_size(prompt)
    return prompt


def _checked(prompt: Prompt, own: tuple[ToolSchema, ...]) -> Prompt:
    """What an assemble hook returned, with its tools in the form that all tools are told in (R2, S1, K1)."""
    what = "an assemble hook returned a prompt"
    system = cast("object", prompt.system)
    if type(system) is not str:
        raise PromptError(f"{what} whose system text is {type(system).__name__}, not text (R2)")
    if not text_is_lossless(system):
        raise PromptError(f"{what} whose system text holds a lone surrogate, which UTF-8 cannot carry (R2, S1)")
    if prompt.tools is own:
        return prompt
    known = frozenset(map(id, own))
    tools = tuple([one if id(one) in known else _offered(one, what) for one in _listed(prompt.tools)])
    twice = [name for name, count in Counter([one.name for one in tools]).items() if count > 1]
    if twice:
        raise PromptError(f"{what} that names the tool {twice[0]!r} more than once (R1)")
    return evolve(prompt, tools=tools)


class Assembler:
    """Assembles one prompt; every provider is asked at most once."""

    def __init__(self, activity: Activity, parts: PromptParts, assembly: PromptAssembly) -> None:
        self._activity = activity
        self._parts = parts
        self._assembly = assembly
        self._values: dict[str, str] = {}

    async def prompt(self, *, with_contexts: bool) -> Prompt:
        """The whole prompt. Contexts are left out where the step has nothing else to say: they cause none (T8)."""
        texts = [await self._section(section) for section in chosen_sections(self._parts.sections)]
        tools = await self._tools()
        contexts = await self._contexts() if with_contexts and self._parts.contexts else ()
        return Prompt(join_sections(texts), tools, contexts)

    async def _section(self, section: Section) -> str:
        text = await self._text(f"section {section.name!r}", section.content) or ""
        if not section.template:
            return text
        if not isinstance(section.content, str):
            section = Section(section.name, text, section.order, section.complete, template=True)
        names = references(section)
        for name in names:
            await self._resolve(name, section.name)
        return fill(text, self._values) if names else text

    async def _resolve(self, name: str, section: str) -> None:
        if name in self._values:
            return
        value = self._parts.variables.get(name)
        if value is None:
            known = ", ".join(sorted(self._parts.variables)) or "none"
            raise PromptError(
                f"section {section!r} names the variable {name!r}, which nobody registered (R2; known: {known})"
            )
        text = await self._text(f"variable {name!r}", value)
        if text is None:
            raise PromptError(f"the provider of variable {name!r} gave no text (R2)")
        self._values[name] = text

    async def _text(self, what: str, content: Any) -> str | None:
        if isinstance(content, str):
            return content
        text = await self._ask(what, content)
        if text is None:
            return None
        if not isinstance(text, str) or not text_is_lossless(text):
            shown = "a lone surrogate" if isinstance(text, str) else type(text).__name__
            raise PromptError(f"the provider of {what} gave {shown}, not text (R2)")
        return text

    async def _ask(self, what: str, provider: Callable[[PromptAssembly], Any]) -> Any:
        try:
            given = provider(self._assembly)
            return await given if inspect.isawaitable(given) else given
        except Exception as error:
            raise PromptError(f"the provider of {what} failed (R2): {error or type(error).__name__}") from error

    async def _contexts(self) -> tuple[UserMessage, ...]:
        snapshots = self._activity.requests.snapshots
        snapshots.follow(self._activity.agent.session)
        found: list[UserMessage] = []
        for context in self._parts.contexts:
            text = await self._text(f"context {context.name!r}", context.content)
            message = snapshots.changed(context.name, text)
            if message is not None:
                found.append(message)
        return tuple(found)

    async def _tools(self) -> tuple[ToolSchema, ...]:
        own = toolset(self._activity.agent.scope).schemas
        if not self._parts.schemas:
            return own
        by_name = {schema.name: schema for schema in own}
        for name, provider in self._parts.schemas.items():
            what = f"tool schemas {name!r}"
            for schema in _schemas(what, await self._ask(what, provider)):
                if schema.name in by_name:
                    raise PromptError(f"{what} name the tool {schema.name!r}, which the agent has already (R1)")
                by_name[schema.name] = schema
        order = tool_order(self._activity.agent.scope)
        named = [name for name in order if name in by_name]
        return tuple([by_name[name] for name in [*named, *sorted(by_name.keys() - set(named))]])


def _schemas(what: str, given: object) -> list[ToolSchema]:
    return [_offered(schema, what) for schema in _listed(given)]


def _listed(given: object) -> list[Any]:
    return list(cast("Iterable[Any]", given)) if isinstance(given, Iterable) else [given]


def _offered(schema: object, what: str) -> ToolSchema:
    """A schema that no registered tool stands behind, told as those of tools are (K1)."""
    try:
        return offered(schema)
    except MisuseError as error:
        raise PromptError(f"{what}: {error}") from None
