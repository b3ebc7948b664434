"""Tools by scope: shadowing by name, restrictions on what is inherited, guards (K2, K10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import Any

from attrs import frozen

from ..errors import MisuseError
from ..hooks.points import DenyCall, ToolProposal
from ..hooks.scope import Disposer, Scope
from ..words.call_config import ToolSchema
from .definition import Tool

Guard = Callable[[ToolProposal], Awaitable[DenyCall | None] | DenyCall | None]
"""Sees a call after pre-execute; may deny it and nothing else; sync or async (K2)."""


@frozen(eq=False)
class ToolSet:
    """The tools an agent has, and their schemas in canonical order (R1)."""

    by_name: dict[str, Tool]
    schemas: tuple[ToolSchema, ...]
    guards: tuple[Guard, ...] = ()


@frozen(eq=False)
class Restriction:
    """Filters the tools that a scope inherits; never its own (K10)."""

    allow: frozenset[str] | None
    deny: frozenset[str]

    def passes(self, name: str) -> bool:
        """Whether a tool of that name is let through."""
        return name not in self.deny and (self.allow is None or name in self.allow)


class ToolRegistry:
    """Registrations of tools in one scope."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def register(self, tool: Tool) -> Disposer:
        """Make a tool available in this scope and below; it shadows an outer one of its name.

        Returns:
            An idempotent function that takes it out again.

        Raises:
            MisuseError: this scope has a tool of that name, or it is no ``Tool``.
            ScopeClosed: the scope has ended.
        """
        scope = self._scope
        scope.check_open()
        if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MisuseError(f"a treadle.Tool is needed, not {type(tool).__name__}; make one with @treadle.tool")
        table = scope.table("tools")
        if tool.name in table:
            raise MisuseError(f"scope {scope.name!r} has a tool named {tool.name!r} already")
        table[tool.name] = tool
        scope.changed()

        def dispose() -> None:
            if scope.own("tools").get(tool.name) is tool:
                del scope.table("tools")[tool.name]
                scope.changed()

        return dispose

    def restrict(self, *, allow: Iterable[str] | None = None, deny: Iterable[str] = ()) -> Disposer:
        """Filter what this scope inherits; several restrictions intersect (K10)."""
        rule = Restriction(frozenset(allow) if allow is not None else None, frozenset(deny))
        return self._add("restrictions", rule)

    def guard(self, guard: Guard) -> Disposer:
        """Add a guard for calls in this scope and below (K2)."""
        return self._add("guards", guard)

    def set_order(self, names: Iterable[str]) -> None:
        """Set the canonical order of tools here and below: these first, in this order, the others by name (R1)."""
        scope = self._scope
        scope.check_open()
        scope.table("tool-order")["order"] = tuple(names)
        scope.changed()

    def _add(self, kind: str, value: Any) -> Disposer:
        scope = self._scope
        scope.check_open()
        key = str(next(_KEYS))
        scope.table(kind)[key] = value
        scope.changed()

        def dispose() -> None:
            if scope.own(kind).pop(key, None) is not None:
                scope.changed()

        return dispose

    def get(self, name: str) -> Tool | None:
        """The tool of a name as seen from this scope."""
        return toolset(self._scope).by_name.get(name)

    def list(self) -> tuple[Tool, ...]:
        """All tools as seen from this scope, in canonical order."""
        tools = toolset(self._scope)
        return tuple([tools.by_name[schema.name] for schema in tools.schemas])


_EMPTY = ToolSet({}, ())
_KEYS = count()
"""Registrations that have no name are told apart by number: the same guard may be added twice."""


def toolset(scope: Scope) -> ToolSet:
    """The tools visible in a scope."""
    tools: ToolSet = scope.shown[_toolset]
    return tools


def _toolset(scope: Scope) -> ToolSet:
    outer = toolset(scope.parent) if scope.parent is not None else _EMPTY
    by_name, watchers = outer.by_name, outer.guards
    for layer in scope.layers():
        rules: tuple[Restriction, ...] = tuple(layer.own("restrictions").values())
        if rules:
            by_name = {name: tool for name, tool in by_name.items() if all([rule.passes(name) for rule in rules])}
        own: dict[str, Tool] = layer.own("tools")
        if own:
            by_name = {**by_name, **own}
        own_guards: dict[str, Guard] = layer.own("guards")
        if own_guards:
            watchers = (*watchers, *own_guards.values())
    if by_name is outer.by_name and watchers is outer.guards and not scope.own("tool-order"):
        return outer
    return ToolSet(by_name, tuple([tool.schema for tool in _in_order(by_name, tool_order(scope))]), watchers)


def _in_order(by_name: dict[str, Tool], order: tuple[str, ...]) -> list[Tool]:
    """Tools in canonical order: those that are named first, in that order, then the others by name (R1)."""
    named = [by_name[name] for name in order if name in by_name]
    return [*named, *[by_name[name] for name in sorted(by_name) if name not in order]]


def tool_order(scope: Scope) -> tuple[str, ...]:
    """The order that the nearest scope sets, empty where none does (R1)."""
    layer: Scope | None = scope
    while layer is not None:
        order: dict[str, tuple[str, ...]] = layer.own("tool-order")
        if order:
            return order["order"]
        layer = layer.parent
    return ()


def guards(scope: Scope) -> tuple[Guard, ...]:
    """The guards that see calls in a scope, outer ones first."""
    return toolset(scope).guards
