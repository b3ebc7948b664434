"""Hook points and their three ways of dispatch (§9).

*emit* tells every listener, contains their failures and reports them. *serial* awaits listeners in order; the first
failure propagates. *waterfall* gives each listener ``next``: it may return without calling it, or change what it
returns.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from types import CoroutineType
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import trio
from attrs import define, field, frozen

from ..containment import LEAVING, interruptible, interruptibly, leaving_in, tell, without_cancelled
from ..errors import HookError
from ..leftovers import check_left, left_entered, standing, tidy

P = TypeVar("P")
R = TypeVar("R")
ANYTHING: Any = object
"""What a waterfall takes that does not say."""


class Mode(Enum):
    """How a hook point dispatches (H1)."""

    EMIT = "emit"
    SERIAL = "serial"
    WATERFALL = "waterfall"


@frozen(eq=False)
class HookPoint(Generic[P]):
    """A named place where listeners take part; one of ``Emit``, ``Serial``, ``Waterfall``.

    Attributes:
        name: as on the wire, such as ``agent/pre-step``.
        payload: the class of what listeners are given.
        doc: one sentence for the catalogue.
    """

    name: str
    payload: type[P]
    doc: str = ""

    mode: ClassVar[Mode]

    def __repr__(self) -> str:
        return f"<{self.mode.value} {self.name}>"


@frozen(eq=False, repr=False)
class Emit(HookPoint[P]):
    """Tells every listener; ``listener(payload)``, sync or async (H1, H5)."""

    mode = Mode.EMIT


@frozen(eq=False, repr=False)
class Serial(HookPoint[P]):
    """Awaits listeners in order; ``listener(payload)``; the first failure propagates (H1)."""

    mode = Mode.SERIAL


@frozen(eq=False, repr=False)
class Waterfall(HookPoint[P], Generic[P, R]):
    """Lets each listener decide; ``listener(payload, next)`` (H1).

    Attributes:
        result: the class, or classes, of what a listener may return; ``object`` where anything goes.
    """

    result: type[R] | tuple[type[Any], ...] = ANYTHING

    mode = Mode.WATERFALL


class Nest(Protocol):
    """Where a listener lives, and what it starts: its scope, as dispatch sees it."""

    closed: bool

    def spawn(self, run: Callable[[], Awaitable[Any]]) -> None:
        """Run a detached task that ends with the scope at the latest."""
        ...


@define(eq=False)
class Listener:
    """One function listening at one hook point, until its scope or its disposer ends it."""

    function: Callable[..., Any]
    scope: Nest
    alive: bool = True
    is_async: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.is_async = inspect.iscoroutinefunction(self.function)

    @property
    def name(self) -> str:
        """What reports call it."""
        return getattr(self.function, "__qualname__", repr(self.function))


@trio.lowlevel.enable_ki_protection
def emit(listeners: tuple[Listener, ...], payload: Any, report: Callable[[Listener, BaseException], None]) -> None:
    """Tell every living listener, in order; none starves (H5).

    Async listeners run detached in their scope's nursery. ``KeyboardInterrupt`` and ``SystemExit`` are raised after
    the dispatch; everything else goes to ``report``.
    """
    leaving: BaseException | None = None
    for listener in listeners:
        if listener.alive:
            try:
                function = listener.function
                result = function(payload) if listener.is_async else tell(function, payload)
                if result is not None and inspect.isawaitable(result):
                    _detach(listener, result, report)
            except LEAVING as error:
                leaving = leaving or error
            except BaseException as error:
                report(listener, error)
    if leaving is not None:
        raise leaving


def _detach(listener: Listener, result: Awaitable[Any], report: Callable[[Listener, BaseException], None]) -> None:
    async def run() -> None:
        before = standing()
        try:
            await interruptibly(result)
            if left_entered(before):
                await check_left(before, f"listener {listener.name}")
        except BaseException as error:
            await tidy(before)
            ended = without_cancelled(error) is None and trio.current_effective_deadline() == -math.inf
            if ended or leaving_in(error) is not None:
                raise
            report(listener, error)

    try:
        listener.scope.spawn(run)
    except BaseException:
        close = getattr(result, "close", None)
        if close is not None:
            close()
        raise


@trio.lowlevel.enable_ki_protection
async def serial(listeners: tuple[Listener, ...], payload: Any) -> None:
    """Await every living listener in order; the first failure propagates (H1)."""
    for listener in listeners:
        if listener.alive:
            function = listener.function
            result = function(payload) if listener.is_async else tell(function, payload)
            if result is not None and inspect.isawaitable(result):
                await interruptibly(result)


@trio.lowlevel.enable_ki_protection
async def waterfall(
    point: Waterfall[Any, Any],
    listeners: tuple[Listener, ...],
    payload: Any,
    base: Callable[[], Awaitable[Any]],
    index: int = 0,
) -> Any:
    """Let each living listener decide, the first registered outermost; ``base`` is what the last ``next`` gives (H1).

    Args:
        point: where they listen.
        listeners: all of them, in order of registration.
        payload: what each is given.
        base: decides where all pass on.
        index: the first of them that is asked; what ``next`` counts up.

    Raises:
        HookError: a listener returned something that the point does not take.
    """
    count = len(listeners)
    while index < count:
        listener = listeners[index]
        index += 1
        if listener.alive:
            break
    else:
        return await base()
    # A partial, and no function within: one that calls itself would be garbage that only the collector can free.
    proceed = partial(waterfall, point, listeners, payload, base, index) if index < count else base
    function = listener.function
    # Making a coroutine computes nothing; interrupted right after, it would never be awaited.
    result: Any = function(payload, proceed) if listener.is_async else interruptible(function, payload, proceed)
    kind = type(result)  # pyright: ignore[reportUnknownVariableType]  # anything at all
    if kind is CoroutineType or inspect.isawaitable(result):
        result = await interruptibly(result)
    wanted = point.result
    if wanted is not object and not isinstance(result, wanted):
        raise HookError(
            f"{listener.name} returned {type(result).__name__} at {point.name}, which takes {_expected(point)}"
        )
    return result


def _expected(point: Waterfall[Any, Any]) -> str:
    wanted = point.result if isinstance(point.result, tuple) else (point.result,)
    return " or ".join([kind.__name__ for kind in wanted])
