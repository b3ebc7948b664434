"""Prompt assembly: system text, tools and dynamic contexts of a step (§14)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from ..errors import InvalidData, MisuseError, PromptError
from ..hooks.dispatch import waterfall
from ..hooks.points import SYSTEM_PROMPT_ASSEMBLE, Prompt, PromptAssembly
from ..kernel.effects import Admit
from ..lossless import check_json, text_is_lossless
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
from ..sums import to_builtins
from ..tools.dialect import in_one_dialect
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
        prompt = cast("Prompt", await waterfall(SYSTEM_PROMPT_ASSEMBLE, listeners, assembly, default))
    else:
        prompt = await default()
    if prompt is not scope.shown[fixed_prompt]:  # that one is made of what was checked when it was registered
        _check_prompt(prompt)
    return prompt


def _check_prompt(prompt: Prompt) -> None:
    """Refuse a prompt that the log could not hold (R2, S1)."""
    try:
        if type(prompt.system) is not str:
            raise InvalidData("must be text", "system")
        check_json(prompt.system, "system")
        for schema in prompt.tools:
            checked = msgspec.convert(to_builtins(schema), ToolSchema)
            check_json(to_builtins(checked), f"tools.{checked.name}")
    except (InvalidData, msgspec.ValidationError, TypeError) as error:
        raise PromptError(f"an assemble hook returned a prompt that cannot be logged: {error} (R2, S1)") from error
    check_prompt_size(prompt)


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
    schemas = list(cast("Iterable[object]", given)) if isinstance(given, Iterable) else [given]
    for schema in schemas:
        if not isinstance(schema, ToolSchema):
            raise PromptError(f"{what} must be ToolSchema objects, not {type(schema).__name__} (R1)")
    return [_in_one_dialect(schema, what) for schema in cast("list[ToolSchema]", schemas)]


def _in_one_dialect(schema: ToolSchema, what: str) -> ToolSchema:
    """A schema that no tool of ours has checked, as those of tools are told (K1)."""
    if not isinstance(cast("object", schema.parameters), dict):
        return schema
    try:
        return msgspec.structs.replace(schema, parameters=in_one_dialect(schema.parameters, f"{what}: {schema.name!r}"))
    except MisuseError as error:
        raise PromptError(f"{error} (R1)") from error
