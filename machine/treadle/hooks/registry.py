"""Listening at hook points of a scope, by the point or by its name (H2, H3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast, overload

from ..errors import MisuseError
from .dispatch import Emit, HookPoint, Serial, Waterfall
from .points import POINTS
from .scope import Disposer, Scope

P = TypeVar("P")
R = TypeVar("R")

_BY_NAME: dict[str, HookPoint[Any]] = {point.name: point for point in POINTS}


class HookRegistry:
    """The listeners of one scope: they hear what happens in it and below, and end with it (H3)."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @property
    def points(self) -> tuple[HookPoint[Any], ...]:
        """Every hook point, in the order of the catalogue."""
        return POINTS

    def point(self, name: str) -> HookPoint[Any]:
        """The hook point of a name, such as ``agent/pre-step``.

        Raises:
            MisuseError: there is none.
        """
        found = _BY_NAME.get(name)
        if found is None:
            raise MisuseError(f"there is no hook point {name!r}; there are {', '.join(_BY_NAME)}")
        return found

    @overload
    def on(self, point: str, listener: Callable[..., Any]) -> Disposer: ...
    @overload
    def on(
        self, point: Waterfall[P, R], listener: Callable[[P, Callable[[], Awaitable[R]]], Awaitable[R] | R]
    ) -> Disposer: ...
    @overload
    def on(self, point: Emit[P] | Serial[P], listener: Callable[[P], object]) -> Disposer: ...
    def on(self, point: Any, listener: Callable[..., Any]) -> Disposer:
        """Listen at a hook point, given itself or by name.

        Returns:
            An idempotent function that stops listening, at once, also while a dispatch is running.

        Raises:
            MisuseError: no point has that name.
            ScopeClosed: the scope has ended.
        """
        found = self.point(point) if isinstance(point, str) else point
        return self._scope.on(cast("Emit[Any]", found), listener)
