"""Scopes: what is registered through one is visible in it and below, and ends with it (O5, H3)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar, overload

import trio
from attrs import define

from .errors import ScopeClosed

if TYPE_CHECKING:
    from .hooks import Emit, HookPoint, Serial, Waterfall

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")
Disposer = Callable[[], None]


@define(eq=False)
class Listener:
    """One function listening at one hook point, until its scope or its disposer ends it."""

    function: Callable[..., Any]
    scope: Scope
    alive: bool = True


class Scope:
    """A node of the tree of registrations.

    Listeners, tools, prompt parts and clean-ups made through a scope are gone when it closes, in reverse order.
    Registering later raises ``ScopeClosed``.

    Args:
        name: for people.
        parent: the scope whose registrations are visible here, ``None`` for the root.
    """

    __slots__ = (
        "__weakref__",
        "_children",
        "_closers",
        "_listeners",
        "_merged",
        "_nursery",
        "_run_context",
        "_tables",
        "_tasks",
        "closed",
        "name",
        "parent",
    )

    def __init__(self, name: str, parent: Scope | None = None) -> None:
        self.name = name
        self.parent = parent
        self.closed = False
        self._children: dict[Scope, None] | None = None
        self._closers: list[Callable[[], Any]] | None = None
        self._listeners: dict[HookPoint[Any], list[Listener]] | None = None
        self._merged: dict[object, Any] | None = None
        self._tables: dict[str, dict[str, Any]] | None = None
        self._tasks: dict[trio.CancelScope, None] | None = None
        self._nursery: trio.Nursery | None = parent._nursery if parent is not None else None
        self._run_context: Context | None = parent._run_context if parent is not None else None
        if parent is not None:
            if parent.closed:
                raise ScopeClosed(f"scope {parent.name!r} has ended; nothing can be made under it (O5)")
            if parent._children is None:
                parent._children = {}
            parent._children[self] = None

    # --- registering --------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise ``ScopeClosed`` when the scope has ended (O5)."""
        if self.closed:
            raise ScopeClosed(f"scope {self.name!r} has ended; register before it does (O5)")

    @overload
    def on(
        self, point: Waterfall[P, R], function: Callable[[P, Callable[[], Awaitable[R]]], Awaitable[R] | R]
    ) -> Disposer: ...
    @overload
    def on(self, point: Emit[P] | Serial[P], function: Callable[[P], object]) -> Disposer: ...
    def on(self, point: HookPoint[Any], function: Callable[..., Any]) -> Disposer:
        """Listen at a hook point, in this scope and below (H3).

        Returns:
            An idempotent function that stops listening, at once, also while a dispatch is running.

        Raises:
            ScopeClosed: the scope has ended.
        """
        self.check_open()
        listener = Listener(function, self)
        if self._listeners is None:
            self._listeners = {}
        self._listeners.setdefault(point, []).append(listener)
        self.invalidate(point)

        def dispose() -> None:
            if listener.alive:
                listener.alive = False
                if self._listeners is not None:
                    self._listeners[point].remove(listener)
                self.invalidate(point)

        return dispose

    def defer(self, function: Callable[[], Any]) -> None:
        """Run ``function``, sync or async, when the scope closes; the last deferred runs first.

        Raises:
            ScopeClosed: the scope has ended.
        """
        self.check_open()
        if self._closers is None:
            self._closers = []
        self._closers.append(function)

    # --- reading ------------------------------------------------------------------------------------------------------

    def listeners(self, point: HookPoint[Any]) -> tuple[Listener, ...]:
        """Who listens here: outer scopes first, each in order of registration."""
        if self._listeners is None:
            return self.parent.listeners(point) if self.parent is not None else ()
        merged = self._merged
        if merged is not None and point in merged:
            return merged[point]
        outer: tuple[Listener, ...] = self.parent.listeners(point) if self.parent is not None else ()
        return self.remember(point, (*outer, *self._listeners.get(point, ())))

    def remember(self, key: object, value: T) -> T:
        """Cache a value derived from this scope and the ones above until a registration under ``key`` changes."""
        if self._merged is None:
            self._merged = {}
        self._merged[key] = value
        return value

    def cached(self, key: object) -> Any:
        """The value cached under ``key``, ``None`` when there is none."""
        return self._merged.get(key) if self._merged is not None else None

    def invalidate(self, key: object) -> None:
        """Forget what was cached under ``key``, here and below."""
        if self._merged is not None:
            self._merged.pop(key, None)
        if self._children is not None:
            for child in self._children:
                child.invalidate(key)

    def table(self, kind: str) -> dict[str, Any]:
        """This scope's own registrations of one kind, by name."""
        if self._tables is None:
            self._tables = {}
        return self._tables.setdefault(kind, {})

    def own(self, kind: str) -> dict[str, Any]:
        """As ``table``, for reading only: an empty mapping when nothing was registered."""
        return self._tables.get(kind, {}) if self._tables is not None else {}

    # --- tasks and the end --------------------------------------------------------------------------------------------

    def attach(self, nursery: trio.Nursery, context: Context) -> None:
        """Give the scope the nursery and the context in which its detached tasks run."""
        self._nursery, self._run_context = nursery, context

    def spawn(self, run: Callable[[], Awaitable[Any]]) -> None:
        """Run a detached task that ends with the scope at the latest."""
        if self._nursery is None or self._run_context is None:
            raise ScopeClosed(f"scope {self.name!r} has no running host; its async listeners cannot run")
        self._run_context.run(self._nursery.start_soon, self._detached, run)

    async def _detached(self, run: Callable[[], Awaitable[Any]]) -> None:
        cancel_scope = trio.CancelScope()
        if self._tasks is None:
            self._tasks = {}
        self._tasks[cancel_scope] = None
        if self.closed:
            cancel_scope.cancel()
        try:
            with cancel_scope:
                await run()
        finally:
            self._tasks.pop(cancel_scope, None)

    async def close(self, report: Callable[[BaseException], None]) -> None:
        """End the scope: children first, then everything registered here, in reverse order (O5).

        Failures of clean-ups are given to ``report``; all run.
        """
        if self.closed:
            return
        for child in reversed(list(self._children or ())):
            await child.close(report)
        while self._closers:
            function = self._closers.pop()
            try:
                result = function()
                if inspect.isawaitable(result):
                    await result
            except trio.Cancelled:
                raise
            except BaseException as error:
                report(error)
        self.closed = True
        await self._end_tasks()
        for listeners in (self._listeners or {}).values():
            for listener in listeners:
                listener.alive = False
        self._listeners = self._tables = self._merged = self._closers = None
        if self.parent is not None and self.parent._children is not None:
            self.parent._children.pop(self, None)

    async def _end_tasks(self) -> None:
        for cancel_scope in list(self._tasks or ()):
            cancel_scope.cancel()
        while self._tasks:
            await trio.lowlevel.checkpoint()

    def __repr__(self) -> str:
        return f"<Scope {self.name}{' (ended)' if self.closed else ''}>"
