"""What user code leaves entered: a cancel scope or a nursery that it did not exit (L8).

Trio finds out only when an outer scope is exited, and takes that one down with it. So whoever runs user code looks
before and after, which costs two look-ups, and exits what was left, innermost first.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import trio

from .errors import MisuseError

Standing = tuple[Any, Any]
"""A task, and the innermost scope that it stands in. Trio tells the latter by a private attribute of tasks only."""


status_of: Callable[[Any], Any] = attrgetter("_cancel_status")
"""The innermost scope that a task stands in."""


def standing() -> Standing:
    """Where the running task stands; to be given to the others afterwards.

    Calls on agents may come from outside every task, as from a loop that hosts trio as its guest: nothing stands there.
    """
    try:
        task = trio.lowlevel.current_task()
    except RuntimeError:
        return None, None
    return task, status_of(task)


def left_entered(before: Standing) -> bool:
    """Whether the running task stands in more than before."""
    task, status = before
    return task is not None and status_of(task) is not status


async def tidy(before: Standing) -> list[str]:
    """Exit what was entered and not exited since; returns what that was, for people."""
    left: list[str] = []
    while left_entered(before):
        left += _leave_scopes(before)
        if left_entered(before):
            await _leave_nursery(before[0])
            left.append("a nursery")
    return left


async def check_left(before: Standing, whose: str) -> None:
    """Raise ``MisuseError`` when ``whose`` code has left something entered; it is exited then.

    Where that is often asked, ``left_entered`` is asked first.
    """
    if left_entered(before):
        raise _blame(whose, await tidy(before))


def tidy_sync(before: Standing, whose: str) -> MisuseError | None:
    """Exit what synchronous code has left entered, which cannot be a nursery; returns what to blame it for."""
    return _blame(whose, _leave_scopes(before)) if left_entered(before) else None


def _leave_scopes(before: Standing) -> list[str]:
    """Exit cancel scopes down to the next nursery, or to where the task stood."""
    task, left = before[0], list[str]()
    while left_entered(before):
        scope, nurseries = status_of(task)._scope, task.child_nurseries
        if nurseries and nurseries[-1].cancel_scope is scope:
            break
        scope.__exit__(None, None, None)
        left.append("a cancel scope")
    return left


async def _leave_nursery(task: Any) -> None:
    """Cancel the innermost nursery and wait for its tasks; what they raise is no longer anybody's."""
    nursery = task.child_nurseries[-1]
    nursery.cancel_scope.cancel()
    error: BaseException | None = await nursery._nested_child_finished(None)
    nursery.cancel_scope.__exit__(type(error) if error is not None else None, error, None)


def _blame(whose: str, left: list[str]) -> MisuseError:
    return MisuseError(
        f"{whose} left {' and '.join(left)} entered: use 'with' and 'async with', so that what is entered is exited (L8)"
    )
