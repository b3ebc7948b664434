"""Tools, listeners and prompt parts of a host or an agent, registered from asyncio code.

Registrations are made in the call, from any thread. A ``Reply`` answers with what takes them back, or raises what the
registry raises: ``MisuseError`` where a name is taken or an argument is wrong, ``ScopeClosed`` where the host or agent
has ended. The call itself raises ``BridgeClosed`` where the bridge is not open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar, cast, overload

from ..hooks.dispatch import Emit, HookPoint, Serial, Waterfall
from ..hooks.registry import HookRegistry
from ..prompt.registry import PromptRegistry, SchemaProvider, TextProvider, ValueProvider
from ..tools.definition import Tool
from ..tools.registry import Guard, ToolRegistry
from .crossing import Crossing, Undo
from .reply import Reply

P = TypeVar("P")
R = TypeVar("R")


class BridgedTools:
    """The tools of a host or an agent.

    A tool runs where it was made for: of ``Bridge.tool`` in the bridge's loop, of ``treadle.tool`` in the host's.
    """

    __slots__ = ("_crossing", "_tools")

    def __init__(self, crossing: Crossing, tools: ToolRegistry) -> None:
        self._crossing = crossing
        self._tools = tools

    def register(self, tool: Tool) -> Reply[Undo]:
        """See ``ToolRegistry.register``."""
        return self._crossing.register(self._tools.register, tool)

    def restrict(self, *, allow: Iterable[str] | None = None, deny: Iterable[str] = ()) -> Reply[Undo]:
        """See ``ToolRegistry.restrict``."""
        allowed = tuple(allow) if allow is not None else None
        denied = tuple(deny)
        return self._crossing.register(lambda: self._tools.restrict(allow=allowed, deny=denied))

    def guard(self, guard: Guard) -> Reply[Undo]:
        """See ``ToolRegistry.guard``; an asyncio guard runs in the bridge's loop."""
        return self._crossing.register(self._tools.guard, self._crossing.brought(guard))

    def set_order(self, names: Iterable[str]) -> Reply[None]:
        """See ``ToolRegistry.set_order``."""
        return self._crossing.call(self._tools.set_order, tuple(names))

    def get(self, name: str) -> Reply[Tool | None]:
        """See ``ToolRegistry.get``. Asked of the host's thread, which keeps what it found."""
        return self._crossing.call(self._tools.get, name)

    def list(self) -> Reply[tuple[Tool, ...]]:
        """See ``ToolRegistry.list``. Asked of the host's thread, which keeps what it found."""
        return self._crossing.call(self._tools.list)


class BridgedHooks:
    """The listeners of a host or an agent. An asyncio listener runs in the bridge's loop, any other in the host's."""

    __slots__ = ("_crossing", "_hooks")

    def __init__(self, crossing: Crossing, hooks: HookRegistry) -> None:
        self._crossing = crossing
        self._hooks = hooks

    @property
    def points(self) -> tuple[HookPoint[Any], ...]:
        """See ``HookRegistry.points``."""
        return self._hooks.points

    def point(self, name: str) -> HookPoint[Any]:
        """See ``HookRegistry.point``; it raises in the call."""
        return self._hooks.point(name)

    @overload
    def on(self, point: str, listener: Callable[..., Any]) -> Reply[Undo]: ...
    @overload
    def on(
        self, point: Waterfall[P, R], listener: Callable[[P, Callable[[], Awaitable[R]]], Awaitable[R] | R]
    ) -> Reply[Undo]: ...
    @overload
    def on(self, point: Emit[P] | Serial[P], listener: Callable[[P], object]) -> Reply[Undo]: ...
    def on(self, point: Any, listener: Callable[..., Any]) -> Reply[Undo]:
        """See ``HookRegistry.on``. An unknown name raises in the call."""
        found = cast("Emit[Any]", self.point(point) if isinstance(point, str) else point)
        return self._crossing.register(self._hooks.on, found, self._crossing.listener(found, listener))


class BridgedPrompt:
    """The prompt parts of a host or an agent. An asyncio provider runs in the bridge's loop, any other in the host's."""

    __slots__ = ("_crossing", "_prompt")

    def __init__(self, crossing: Crossing, prompt: PromptRegistry) -> None:
        self._crossing = crossing
        self._prompt = prompt

    def section(
        self,
        name: str,
        content: str | TextProvider,
        *,
        order: float = 0,
        complete: bool = False,
        template: bool | None = None,
    ) -> Reply[Undo]:
        """See ``PromptRegistry.section``."""
        brought = self._crossing.brought(content)
        return self._crossing.register(
            lambda: self._prompt.section(name, brought, order=order, complete=complete, template=template)
        )

    def persona(self, text: str | TextProvider) -> Reply[Undo]:
        """See ``PromptRegistry.persona``."""
        return self._crossing.register(self._prompt.persona, self._crossing.brought(text))

    def replace_persona(self, text: str) -> Reply[None]:
        """See ``PromptRegistry.replace_persona``."""
        return self._crossing.call(self._prompt.replace_persona, text)

    def own_persona(self) -> str:
        """See ``PromptRegistry.own_persona``, as of now."""
        return self._prompt.own_persona()

    def context(self, name: str, content: str | TextProvider, *, order: float = 0) -> Reply[Undo]:
        """See ``PromptRegistry.context``."""
        brought = self._crossing.brought(content)
        return self._crossing.register(lambda: self._prompt.context(name, brought, order=order))

    def variable(self, name: str, value: str | ValueProvider) -> Reply[Undo]:
        """See ``PromptRegistry.variable``."""
        return self._crossing.register(self._prompt.variable, name, self._crossing.brought(value))

    def tool_schemas(self, name: str, provider: SchemaProvider) -> Reply[Undo]:
        """See ``PromptRegistry.tool_schemas``."""
        return self._crossing.register(self._prompt.tool_schemas, name, self._crossing.brought(provider))
