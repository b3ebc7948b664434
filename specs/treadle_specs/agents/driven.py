"""Awaiting user code under observation: whether a cancellation that was delivered to it came out again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

import outcome
import trio

from treadle.leftovers import status_of

from ..exploration.task_frames import coroutine_frames
from .sites import Site, innermost


class Driven:
    """Awaits something of the user's, and remembers where a cancellation from outside reached it.

    Frames below it are seen through it by whoever looks where a task stands.

    Attributes:
        cancelled_at: the user's line at which the first cancellation from outside was delivered.
    """

    __slots__ = ("_outer", "_task", "cancelled", "cancelled_at", "inner")

    def __init__(self, awaited: Awaitable[Any]) -> None:
        self.inner: Any = awaited if hasattr(awaited, "send") else awaited.__await__()
        self.cancelled = False
        self.cancelled_at: Site | None = None
        self._task = trio.lowlevel.current_task()
        self._outer = status_of(self._task)

    def __await__(self) -> Any:
        return self

    def __iter__(self) -> Driven:
        return self

    def __next__(self) -> Any:
        return self.inner.send(None)

    def send(self, value: Any) -> Any:
        """Go on."""
        if isinstance(value, outcome.Error) and isinstance(value.error, trio.Cancelled) and not self.cancelled:
            self.cancelled = self._from_outside()
            if self.cancelled:
                self.cancelled_at = self.standing()
        return self.inner.send(value)

    def throw(self, kind: Any, error: BaseException | None = None, trace: TracebackType | None = None) -> Any:
        """Go on with an error."""
        del trace
        return self.inner.throw(error if error is not None else kind)

    def close(self) -> None:
        """End it where it stands."""
        self.inner.close()

    def standing(self) -> Site | None:
        """The user's line that it stands in."""
        return innermost([(frame, frame.f_lineno) for frame in coroutine_frames(self.inner)])

    def _from_outside(self) -> bool:
        """Whether no scope of the user's own stands between the cancellation and what is cancelled, shielding it."""
        status = status_of(self._task)
        while status is not None and status is not self._outer:
            if status._scope.shield:
                return False
            status = status._parent
        return bool(self._outer is not None and self._outer.effectively_cancelled)


async def driven(
    awaited: Awaitable[Any], swallowed: Callable[[Site | None], None], made: Callable[[Driven], Any]
) -> Any:
    """Await something of the user's.

    Args:
        awaited: what.
        swallowed: told where, when a cancellation from outside was delivered and did not come out again.
        made: given the observer, before anything runs.
    """
    observer = Driven(awaited)
    made(observer)
    try:
        result: Any = await observer
    except BaseException as error:
        if observer.cancelled and not _has_cancelled(error):
            swallowed(observer.cancelled_at)
        raise
    if observer.cancelled:
        swallowed(observer.cancelled_at)
    return result


def _has_cancelled(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[0] is not None  # pyright: ignore[reportUnknownMemberType]
    return isinstance(error, trio.Cancelled | KeyboardInterrupt | SystemExit | GeneratorExit)
