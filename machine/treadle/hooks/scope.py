"""Scopes: what is registered through one is visible in it and below, and ends with it.

How it works. A host has a scope, each agent has one below its owner's, and plugins make their own. Nobody passes lists
of listeners or tools around: whoever needs them asks the agent's scope, which adds its own to what its parent shows.

That is asked several times in every step and changed seldom, so the answers are kept, and it is the change that pays.
They stand in two mappings that derive what they do not hold yet: ``heard[point]`` is who listens at a hook point, and
``shown[derive]`` what ``derive`` makes of the other registrations. A scope without registrations of its own keeps
nothing: it shares the very mapping of its parent. So a thousand plain agents cost one answer. The first registration
gives a scope a mapping of its own, which the scopes below that shared the old one take over; from then on a change
forgets, here and below. Whoever dispatches holds the tuple it was given: a listener that stops meanwhile is marked as
not ``alive``, one that comes meanwhile is heard the next time.

A scope ends from the bottom up: children, then clean-ups in reverse order, then detached tasks, then listeners. It is
closed only after the clean-ups have run, as these may still use what is registered. Where a child has an order of its
own to keep, it ends by the function it gave (``ended_by``); two that end the same scope wait for one end (O5, H3).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar, overload

import trio

from ..containment import stands_below
from ..errors import MisuseError, ScopeClosed
from ..leftovers import check_left, standing, tidy
from .dispatch import Emit, HookPoint, Listener, Serial, Waterfall

K = TypeVar("K")
V = TypeVar("V")
P = TypeVar("P")
R = TypeVar("R")
Disposer = Callable[[], None]
"""Takes a registration back; calling it again does nothing (O5)."""
Heard: TypeAlias = "Derived[HookPoint[Any], tuple[Listener, ...]]"
Shown: TypeAlias = "Derived[Callable[[Scope], Any], Any]"


class Derived(dict[K, V]):
    """Answers of ``derive``, each made when it is first asked for and kept until it is taken out."""

    __slots__ = ("_derive",)

    def __init__(self, derive: Callable[[K], V]) -> None:
        self._derive = derive

    def __missing__(self, key: K) -> V:
        answer = self[key] = self._derive(key)
        return answer


class Scope:
    """A node of the tree of registrations.

    Listeners, tools, prompt parts and clean-ups made through a scope are gone when it closes, in reverse order.
    Registering later raises ``ScopeClosed``.

    Args:
        name: for people.
        parent: the scope whose registrations are visible here, ``None`` for the root.

    Attributes:
        heard: who listens here, by hook point: outer scopes first, each in order of registration.
        shown: what else is registered here and above, by the function that derives it.
        subject: the agent whose scope it is, ``None`` for other scopes.
        start: starts a task of the host's own, ``None`` until the host runs.
    """

    __slots__ = (
        "__weakref__",
        "_children",
        "_closer",
        "_closers",
        "_ending",
        "_joined",
        "_joiners",
        "_listeners",
        "_tables",
        "_tasks",
        "closed",
        "heard",
        "name",
        "parent",
        "shown",
        "start",
        "subject",
    )

    def __init__(self, name: str, parent: Scope | None = None) -> None:
        self.name = name
        self.parent = parent
        self.closed = False
        self.subject: object | None = None
        self._children: dict[Scope, Callable[[], Any] | None] | None = None
        self._closers: dict[object, Callable[[], Any]] | None = None
        self._listeners: dict[HookPoint[Any], list[Listener]] | None = None
        self.heard: Heard = parent.heard if parent is not None else Derived(self._hear)
        self.shown: Shown = parent.shown if parent is not None else Derived(self._show)
        self._tables: dict[str, dict[str, Any]] | None = None
        self._tasks: dict[trio.CancelScope, trio.Event] | None = None
        self._ending: trio.Event | None = None
        self._closer: trio.lowlevel.Task | None = None
        self._joined: Scope | None = None
        self._joiners: dict[Scope, None] | None = None
        self.start: Callable[[Callable[[], Awaitable[Any]]], None] | None = parent.start if parent else None
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
    @trio.lowlevel.enable_ki_protection
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
            self._share(self.heard, Derived(self._hear))
        self._listeners.setdefault(point, []).append(listener)
        self._unhear(point)

        def dispose() -> None:
            if listener.alive:
                listener.alive = False
                if self._listeners is not None:
                    self._listeners[point].remove(listener)
                self._unhear(point)

        return dispose

    def ended_by(self, function: Callable[[], Any]) -> None:
        """Have ``function`` end this scope, instead of ``close``, when the one above ends: an agent ends in order (O3)."""
        if self.parent is not None and self.parent._children is not None:
            self.parent._children[self] = function

    @trio.lowlevel.enable_ki_protection
    def defer(self, function: Callable[[], Any]) -> Disposer:
        """Run ``function``, sync or async, when the scope closes; the last deferred runs first.

        Returns:
            An idempotent function that takes it back.

        Raises:
            ScopeClosed: the scope has ended.
        """
        self.check_open()
        if self._closers is None:
            self._closers = {}
        key = object()
        closers = self._closers
        closers[key] = function

        def take_back() -> None:
            closers.pop(key, None)

        return take_back

    # --- reading ------------------------------------------------------------------------------------------------------

    def _hear(self, point: HookPoint[Any]) -> tuple[Listener, ...]:
        found = self.parent.heard[point] if self.parent is not None else ()
        for layer in self.layers():
            if layer._listeners is not None:
                found = (*found, *layer._listeners.get(point, ()))
        return found

    def _show(self, derive: Callable[[Scope], Any]) -> Any:
        return derive(self)

    def _share(self, before: Derived[Any, Any], fresh: Derived[Any, Any]) -> None:
        """Read ``fresh`` from now on, here and below, wherever ``before`` was read."""
        if self.heard is before:
            self.heard = fresh
        elif self.shown is before:
            self.shown = fresh
        else:
            return
        for child in self._children or ():
            child._share(before, fresh)

    def _unhear(self, point: HookPoint[Any]) -> None:
        """Forget who listens at a point, here and below."""
        self.heard.pop(point, None)
        for scope in (*(self._children or ()), *(self._joiners or ())):
            scope._unhear(point)

    def changed(self) -> None:
        """Forget what was derived from registrations that are no listeners, here and below."""
        self.shown.clear()
        for scope in (*(self._children or ()), *(self._joiners or ())):
            scope.changed()

    # --- a second layer -----------------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    def join(self, layer: Scope) -> Disposer:
        """See what is registered in ``layer`` itself, between the outer scopes and this one's own (O11).

        Returns:
            An idempotent function that leaves it again.

        Raises:
            ScopeClosed: either has ended.
            MisuseError: this scope has joined a layer already.
        """
        self.check_open()
        layer.check_open()
        if self._joined is not None:
            raise MisuseError(f"scope {self.name!r} has joined {self._joined.name!r} already; leave that first")
        self._share(self.heard, Derived(self._hear))
        self._share(self.shown, Derived(self._show))
        self._joined = layer
        if layer._joiners is None:
            layer._joiners = {}
        layer._joiners[self] = None
        self._forget_derived()

        def leave() -> None:
            if self._joined is layer:
                self._joined = None
                if layer._joiners is not None:
                    layer._joiners.pop(self, None)
                self._forget_derived()

        return leave

    def layers(self) -> tuple[Scope, ...]:
        """The scopes whose own registrations are added here to what the parent shows, outermost first."""
        return (self._joined, self) if self._joined is not None else (self,)

    def _forget_derived(self) -> None:
        self.heard.clear()
        self.shown.clear()
        for child in self._children or ():
            child._forget_derived()

    # --- registrations of other kinds ---------------------------------------------------------------------------------

    def table(self, kind: str) -> dict[str, Any]:
        """This scope's own registrations of one kind, by name."""
        if self._tables is None:
            self._tables = {}
            self._share(self.shown, Derived(self._show))
        return self._tables.setdefault(kind, {})

    def own(self, kind: str) -> dict[str, Any]:
        """As ``table``, for reading only: an empty mapping when nothing was registered."""
        return self._tables.get(kind, {}) if self._tables is not None else {}

    # --- tasks and the end --------------------------------------------------------------------------------------------

    def attach(self, start: Callable[[Callable[[], Awaitable[Any]]], None]) -> None:
        """Give the scope, and those made below it from now on, what starts their detached tasks."""
        self.start = start

    def spawn(self, run: Callable[[], Awaitable[Any]]) -> None:
        """Run a detached task that ends with the scope at the latest."""
        if self.start is None:
            raise ScopeClosed(f"scope {self.name!r} has no running host; its async listeners cannot run")
        self.start(partial(self._detached, run))

    @trio.lowlevel.enable_ki_protection
    async def _detached(self, run: Callable[[], Awaitable[Any]]) -> None:
        cancel_scope = trio.CancelScope()
        if self._tasks is None:
            self._tasks = {}
        over = self._tasks[cancel_scope] = trio.Event()
        if self.closed:
            cancel_scope.cancel()
        try:
            with cancel_scope:
                await run()
        finally:
            del self._tasks[cancel_scope]
            over.set()

    @trio.lowlevel.enable_ki_protection
    async def close(self, report: Callable[[BaseException], None], *, last: HookPoint[Any] | None = None) -> None:
        """End the scope: children first, then everything registered here, in reverse order (O5).

        Args:
            report: given the failures of clean-ups; all run.
            last: a hook point whose listeners are kept until ``forget`` (O17).

        Raises:
            MisuseError: awaited by one of the scope's own clean-ups, which would never return (L6).
        """
        if stands_below(self._closer):
            raise MisuseError(f"the end of scope {self.name!r} awaited by its own clean-up would never return (L6)")
        if self._ending is not None:
            await self._ending.wait()
            return
        self._ending = trio.Event()
        self._closer = trio.lowlevel.current_task()
        try:
            await self._close(report, last)
        finally:
            self._closer = None
            self._ending.set()

    async def _close(self, report: Callable[[BaseException], None], last: HookPoint[Any] | None) -> None:
        for child, end in reversed(list((self._children or {}).items())):
            await _run(partial(child.close, report) if end is None else end, report)
        while self._closers:
            await _run(self._closers.popitem()[1], report)
        self.closed = True
        await self._end_tasks()
        kept = (self._listeners or {}).get(last) if last is not None else None
        self._silence(kept)
        self._listeners = {last: kept} if last is not None and kept else None
        self._tables = self._closers = self._joined = None
        self._read_above()
        if self.parent is not None and self.parent._children is not None:
            self.parent._children.pop(self, None)

    def forget(self) -> None:
        """Let go of the listeners that ``close`` kept."""
        self._silence(None)
        self._listeners = None
        self._read_above()

    def _silence(self, kept: list[Listener] | None) -> None:
        for listeners in (self._listeners or {}).values():
            if listeners is not kept:
                for listener in listeners:
                    listener.alive = False

    def _read_above(self) -> None:
        """Nothing but kept listeners is registered here any more: what else is read is the parent's own mapping."""
        if self.parent is not None:
            self.shown = self.parent.shown
            if self._listeners is None:
                self.heard = self.parent.heard
                return
        self.heard.clear()

    async def _end_tasks(self) -> None:
        for cancel_scope in list(self._tasks or ()):
            cancel_scope.cancel()
        while self._tasks:
            await next(iter(self._tasks.values())).wait()

    def __repr__(self) -> str:
        return f"<Scope {self.name}{' (ended)' if self.closed else ''}>"


async def _run(function: Callable[[], Any], report: Callable[[BaseException], None]) -> None:
    """Run a clean-up, sync or async; what it raises is reported."""
    before = standing()
    try:
        result = function()
        if inspect.isawaitable(result):
            await result
        await check_left(before, "a clean-up")
    except trio.Cancelled:
        await tidy(before)
        raise
    except BaseException as error:
        await tidy(before)
        report(error)
