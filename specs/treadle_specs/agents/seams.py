"""Where a check gets between the driver and the user's code: tools, hooks, guards, and the approver.

For as long as a check runs, each registration is wrapped, wherever it is made: on the host, in a preset, for a child.
What the library itself registers is left alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from attrs import define, field

from treadle import MisuseError, StoreFailure, ToolError, TreadleError
from treadle.hooks import Emit, HookPoint, Scope, Serial
from treadle.loop import pipeline
from treadle.tools import registry

from .driven import Driven, driven
from .faults import Faults, Injected
from .sites import Site, of_error, of_function


@define(eq=False)
class Watch:
    """What is seen of the user's code in one run.

    Attributes:
        faults: counts the calls.
        swallowed: told who kept a cancellation to itself, and at which line.
        raised: told which hook raised what.
        active: what of the user's is being awaited now.
        last: the last thing of the user's that was called: what, and where it is defined.
    """

    faults: Faults
    swallowed: Callable[[str, Site | None], None]
    raised: Callable[[str, BaseException, Site | None], None]
    active: list[tuple[str, Driven]] = field(factory=list[tuple[str, Driven]])
    last: tuple[str, Site | None] = ("", None)

    def standing(self) -> tuple[str, Site | None]:
        """What of the user's is at work now, innermost, and where; else what was so last, and where it is defined."""
        for what, observer in reversed(self.active):
            site = observer.standing()
            if site is not None:
                return what, site
        return self.last

    async def awaiting(self, what: str, site: Site | None, awaited: Any) -> Any:
        """Await something of the user's."""
        self.last = (what, site)
        entered: list[tuple[str, Driven]] = []

        def made(observer: Driven) -> None:
            entered.append((what, observer))
            self.active.append(entered[0])

        try:
            return await driven(awaited, lambda at: self.swallowed(what, at or site), made)
        finally:
            for one in entered:
                self.active.remove(one)


_NOW: list[Watch] = []
"""The watch of the run that is under way."""


@contextmanager
def watched(watch: Watch) -> Generator[None]:
    """Let a watch see everything that is registered and called meanwhile."""
    _NOW.append(watch)
    try:
        yield
    finally:
        _NOW.pop()


@contextmanager
def seams() -> Generator[None]:
    """Wrap what is registered while the block runs."""
    before = pipeline.call_body, Scope.on, registry.ToolRegistry.guard

    def on(scope: Scope, point: HookPoint[Any], function: Callable[..., Any]) -> Any:
        return before[1](scope, point, _hook(point, function))  # type: ignore[arg-type]

    def guard(tools: registry.ToolRegistry, function: Callable[..., Any]) -> Any:
        return before[2](tools, _asked("guard", function))

    pipeline.call_body = _body(before[0])
    Scope.on = on  # type: ignore[method-assign]
    registry.ToolRegistry.guard = guard  # type: ignore[method-assign]
    try:
        yield
    finally:
        pipeline.call_body = before[0]
        Scope.on = before[1]  # type: ignore[method-assign]
        registry.ToolRegistry.guard = before[2]  # type: ignore[method-assign]


def approver(function: Callable[..., Any]) -> Callable[..., Any]:
    """The user's approver, seen as hooks are."""
    return _asked("approver", function)


def _foreign(function: Callable[..., Any]) -> bool:
    """Whether a function is the library's own, or nobody is watching."""
    module = getattr(inspect.unwrap(function), "__module__", None) or type(function).__module__
    return not _NOW or str(module).partition(".")[0] in ("treadle", "treadle_specs")


def _body(call_body: Callable[..., Any]) -> Callable[..., Any]:
    def call(tool: Any, arguments: dict[str, Any], run: Any) -> Any:
        return _run(tool, arguments, run) if _NOW else call_body(tool, arguments, run)

    async def _run(tool: Any, arguments: dict[str, Any], run: Any) -> Any:
        watch, site = _NOW[-1], of_function(tool.execute)
        await watch.faults.before(watch.faults.due("tool", tool.name, site))
        return await watch.awaiting(f"tool {tool.name!r}", site, call_body(tool, arguments, run))

    return call


def _hook(point: HookPoint[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """A listener, watched; one that passes on is not blamed for what comes back."""
    if _foreign(function):
        return function
    if isinstance(point, Emit):
        return _asked(point.name, function, soft=True)
    if isinstance(point, Serial):
        return _asked(point.name, function)
    return _waterfall(point.name, function)


def _named(point: str, function: Callable[..., Any]) -> str:
    return f"{point}:{getattr(function, '__qualname__', type(function).__qualname__)}".replace(" ", "_")


def _asked(point: str, function: Callable[..., Any], *, soft: bool = False) -> Callable[..., Any]:
    """A hook that is called and answers; ``soft`` for one that is only told and cannot be waited for."""
    if _foreign(function):
        return function
    name, site = _named(point, function), of_function(function)

    async def slowed(watch: Watch, harm: Any, args: tuple[Any, ...]) -> Any:
        await watch.faults.before(harm)
        with _blamed(watch, name, site):
            result = function(*args)
            return await watch.awaiting(f"hook {name}", site, result) if inspect.isawaitable(result) else result

    @wraps(function)
    def called(*args: Any) -> Any:
        watch = _NOW[-1]
        waits = not soft or inspect.iscoroutinefunction(function)
        harm = watch.faults.due("hook" if waits else "listener", name, site)
        if harm == "fail":
            raise Injected("this hook fails, for the check")
        if harm is not None and waits:
            return slowed(watch, harm, args)
        watch.last = (f"hook {name}", site)
        with _blamed(watch, name, site):
            result = function(*args)
        return _later(watch, name, site, result) if inspect.isawaitable(result) else result

    return called


async def _later(watch: Watch, name: str, site: Site | None, result: Any) -> Any:
    with _blamed(watch, name, site):
        return await watch.awaiting(f"hook {name}", site, result)


def _waterfall(point: str, function: Callable[..., Any]) -> Callable[..., Any]:
    name, site = _named(point, function), of_function(function)

    @wraps(function)
    async def decided(payload: Any, proceed: Callable[[], Any]) -> Any:
        watch = _NOW[-1]
        passed: list[BaseException] = []

        async def going_on() -> Any:
            try:
                return await proceed()
            except BaseException as error:
                passed.append(error)
                raise

        await watch.faults.before(watch.faults.due("hook", name, site))
        watch.last = (f"hook {name}", site)
        with _blamed(watch, name, site, passed):
            result = function(payload, going_on)
            return await watch.awaiting(f"hook {name}", site, result) if inspect.isawaitable(result) else result

    return decided


@contextmanager
def _blamed(watch: Watch, name: str, site: Site | None, passed: list[BaseException] | None = None) -> Generator[None]:
    try:
        yield
    except Exception as error:
        if not _excused(error, passed or []):
            watch.raised(name, error, of_error(error) or site)
        raise


def _excused(error: BaseException, passed: list[BaseException]) -> bool:
    """Whether a hook may raise this: what it was given, what is meant to be read, what the driver refuses in the end."""
    if isinstance(error, BaseExceptionGroup):
        inner: tuple[BaseException, ...] = error.exceptions  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return all([_excused(one, passed) for one in inner])
    seen: BaseException | None = error
    while seen is not None:
        if seen in passed:
            return True
        seen = seen.__cause__ or seen.__context__
    meant = isinstance(error, ToolError | StoreFailure) or (
        isinstance(error, TreadleError) and not isinstance(error, MisuseError)
    )
    return meant or isinstance(error, Injected) or type(error).__module__.startswith("trio")
