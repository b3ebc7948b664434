"""What a system prompt is made of, registered by scope: sections, contexts, variables, tool schemas (§14)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from attrs import frozen

from ..errors import InvalidData, MisuseError, PromptError
from ..hooks.points import Prompt, PromptAssembly
from ..hooks.scope import Disposer, Scope
from ..lossless import check_bytes, check_text
from ..sums import ENCODER
from ..tools.registry import toolset
from ..words.call_config import ToolSchema
from ..words.messages import MOST_TEXT

T = TypeVar("T")
TextProvider = Callable[[PromptAssembly], str | Awaitable[str | None] | None]
"""Gives a section's or a context's text for one step, ``None`` for none; sync or async."""
ValueProvider = Callable[[PromptAssembly], str | Awaitable[str]]
"""Gives a variable's value for one step; sync or async."""
SchemaProvider = Callable[[PromptAssembly], Iterable[ToolSchema] | Awaitable[Iterable[ToolSchema]]]
"""Gives schemas of tools that the model is told about beside the registered ones; sync or async."""

PERSONA = "deployment:persona-prefix"
"""The name of the default persona's section; an agent's own shadows the host's (R3)."""
PERSONA_ORDER = -1000
"""Where the persona stands: before everything that does not ask for an earlier place."""

REFERENCE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.:-]*)\s*\}\}")
"""A variable in a template: ``{{name}}``. Braces around anything else are plain text."""


@frozen(eq=False)
class Section:
    """One section of the system prompt.

    Attributes:
        name: its identity in a scope.
        content: its text, or what provides it.
        order: sections stand in this order, equal ones by name.
        complete: it takes the place of the whole prompt (R1).
        template: whether ``{{name}}`` in its text is replaced.
    """

    name: str
    content: str | TextProvider
    order: float
    complete: bool
    template: bool


@frozen(eq=False)
class Context:
    """One dynamic context: text that becomes a user-role message whenever it changed (R1)."""

    name: str
    content: str | TextProvider
    order: float


@frozen(eq=False)
class PromptParts:
    """All that is visible in a scope, in canonical order.

    Attributes:
        text: the system prompt itself, where nothing has to be asked for it; else ``None``.
    """

    sections: tuple[Section, ...]
    contexts: tuple[Context, ...]
    variables: dict[str, str | ValueProvider]
    schemas: dict[str, SchemaProvider]
    text: str | None


class PromptRegistry:
    """Registrations of prompt parts in one scope: visible in it and below, gone when it ends (O5)."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def section(
        self,
        name: str,
        content: str | TextProvider,
        *,
        order: float = 0,
        complete: bool = False,
        template: bool | None = None,
    ) -> Disposer:
        """Add a section of the system prompt; it shadows an outer one of its name (R1).

        Args:
            name: its identity; a scope has each name once.
            content: the text, or a function of the ``PromptAssembly`` that gives it or ``None``, sync or async.
            order: sections stand in this order, equal ones by name.
            complete: this one section is the whole prompt.
            template: whether ``{{name}}`` in the text is replaced by the variable of that name. By default in text
                given here, and not in what a provider returns: that may come from anywhere.

        Returns:
            An idempotent function that takes it out again.

        Raises:
            MisuseError: this scope has a section of that name, or an argument is wrong.
            ScopeClosed: the scope has ended.
        """
        replaced = isinstance(content, str) if template is None else template
        return self._add("section", name, Section(name, _content(name, content), order, complete, replaced))

    def persona(self, text: str | TextProvider) -> Disposer:
        """Set the persona of this scope; an agent's own shadows the host's (R3). Otherwise as ``section``."""
        return self.section(PERSONA, text, order=PERSONA_ORDER)

    def replace_persona(self, text: str) -> None:
        """Put another persona in the place of this scope's own; empty text takes it away (R3)."""
        self._scope.check_open()
        table = self._scope.table("section")
        table.pop(PERSONA, None)
        if text:
            table[PERSONA] = Section(PERSONA, _content(PERSONA, text), PERSONA_ORDER, False, template=False)
        self._scope.changed()

    def own_persona(self) -> str:
        """This scope's own persona where it is plain text, else empty."""
        section: Section | None = self._scope.own("section").get(PERSONA)
        return section.content if section is not None and isinstance(section.content, str) else ""

    def context(self, name: str, content: str | TextProvider, *, order: float = 0) -> Disposer:
        """Add a dynamic context (R1).

        Before each step its text is asked for. Where it differs from what the model was last told under this name, it
        enters the history as a user-role message of source ``context``; ``None`` leaves what was told standing.

        Args and errors are those of ``section``.
        """
        return self._add("context", name, Context(name, _content(name, content), order))

    def variable(self, name: str, value: str | ValueProvider) -> Disposer:
        """Give ``{{name}}`` a value, or what provides it, asked at most once per step and only where it is used (R1).

        Raises:
            MisuseError: this scope has a variable of that name, or the name could not be written in a template.
            ScopeClosed: the scope has ended.
        """
        if REFERENCE.fullmatch("{{" + str(name) + "}}") is None:
            raise MisuseError(f"a variable is named by letters, digits and _ . : -, not {name!r} (R1)")
        return self._add("variable", name, _content(name, value))

    def tool_schemas(self, name: str, provider: SchemaProvider) -> Disposer:
        """Tell the model about more tools than the registered ones, asked before each step (R1).

        Raises:
            MisuseError: this scope has a provider of that name, or it is no function of one argument.
            ScopeClosed: the scope has ended.
        """
        return self._add("tool-schemas", name, _provider(name, provider))

    def _add(self, kind: str, name: object, part: Any) -> Disposer:
        scope = self._scope
        scope.check_open()
        if not isinstance(name, str) or not name or len(name) > 128 or not name.isprintable():
            raise MisuseError(f"a prompt {kind} is named by 1 to 128 printable characters, not {name!r} (R1)")
        table = scope.table(kind)
        if name in table:
            raise MisuseError(f"scope {scope.name!r} has a prompt {kind} named {name!r} already (R1)")
        table[name] = part
        scope.changed()

        def dispose() -> None:
            if scope.own(kind).get(name) is part:
                del scope.table(kind)[name]
                scope.changed()

        return dispose


def _content(name: str, content: T) -> T:
    if isinstance(content, str):
        check_text(content, f"prompt part {name!r}")
        return content
    return _provider(name, content)


def _provider(name: str, provider: T) -> T:
    if not callable(provider):
        raise MisuseError(f"prompt part {name!r} needs text or a function, not {type(provider).__name__} (R1)")
    try:
        inspect.signature(provider).bind(object())
    except TypeError:
        raise MisuseError(f"the provider of prompt part {name!r} must take one argument, the assembly (R1)") from None
    except ValueError:
        pass  # a builtin without a signature: seen when it is called
    return provider


_NOTHING = PromptParts((), (), {}, {}, "")


def prompt_parts(scope: Scope) -> PromptParts:
    """What is visible in a scope."""
    parts: PromptParts = scope.shown[_parts]
    return parts


def fixed_prompt(scope: Scope) -> Prompt | None:
    """The whole prompt, where it is the same at every step until a registration changes; ``None`` elsewhere.

    Read it as ``scope.shown[fixed_prompt]``.

    Raises:
        PromptError: it is more than one event can hold (X3).
    """
    text = prompt_parts(scope).text
    if text is None:
        return None
    prompt = Prompt(text, toolset(scope).schemas)
    check_prompt_size(prompt)
    return prompt


def check_prompt_size(prompt: Prompt) -> None:
    """Refuse a prompt that is more than one event can hold, before anything is recorded of it (X3).

    Raises:
        PromptError: says what is too large.
    """
    if len(prompt.system) > MOST_TEXT:
        raise PromptError(
            f"the system prompt is {len(prompt.system):,} characters, more than the {MOST_TEXT:,} allowed (X3)"
        )
    try:
        check_bytes(len(ENCODER.encode(prompt.tools)), "what the tools say to the model")
    except InvalidData as error:
        raise PromptError(str(error)) from error


def _parts(scope: Scope) -> PromptParts:
    outer = prompt_parts(scope.parent) if scope.parent is not None else _NOTHING
    kinds = ("section", "context", "variable", "tool-schemas")
    layers = scope.layers()
    if not any([layer.own(kind) for layer in layers for kind in kinds]):
        return outer
    sections = {section.name: section for section in outer.sections}
    contexts = {context.name: context for context in outer.contexts}
    variables, schemas = dict(outer.variables), dict(outer.schemas)
    for layer in layers:
        sections |= layer.own("section")
        contexts |= layer.own("context")
        variables |= layer.own("variable")
        schemas |= layer.own("tool-schemas")
    ordered = tuple(sorted(sections.values(), key=_place))
    return PromptParts(
        ordered,
        tuple(sorted(contexts.values(), key=_place)),
        variables,
        {name: schemas[name] for name in sorted(schemas)},
        None if contexts or schemas else _fixed(ordered, variables),
    )


def _place(part: Section | Context) -> tuple[float, str]:
    return part.order, part.name


def _fixed(sections: tuple[Section, ...], variables: dict[str, str | ValueProvider]) -> str | None:
    """The system prompt where it is the same at every step, else ``None``."""
    try:
        chosen = chosen_sections(sections)
    except PromptError:
        return None
    texts: list[str] = []
    for section in chosen:
        if not isinstance(section.content, str):
            return None
        values: dict[str, str] = {}
        for name in references(section):
            value = variables.get(name)
            if not isinstance(value, str):
                return None
            values[name] = value
        texts.append(fill(section.content, values) if values else section.content)
    return join_sections(texts)


def chosen_sections(sections: tuple[Section, ...]) -> tuple[Section, ...]:
    """The sections that make the prompt: all, or the one that is complete.

    Raises:
        PromptError: two are complete (R1).
    """
    complete = [section for section in sections if section.complete]
    if len(complete) > 1:
        names = ", ".join([repr(section.name) for section in complete])
        raise PromptError(f"the sections {names} each claim to be the complete prompt (R1); take out all but one")
    return tuple(complete) if complete else sections


def references(section: Section) -> tuple[str, ...]:
    """The variables that a section's text names."""
    if not section.template or not isinstance(section.content, str) or "{{" not in section.content:
        return ()
    return tuple(dict.fromkeys(REFERENCE.findall(section.content)))


def fill(text: str, values: dict[str, str]) -> str:
    """Put the values of variables in their places; what they hold is not looked at again."""
    return REFERENCE.sub(lambda found: values[found[1]], text)


def join_sections(texts: Iterable[str]) -> str:
    """Sections are set apart by an empty line; empty ones leave no gap."""
    return "\n\n".join([text for text in texts if text])
