"""Telling apart what asks to leave the program, what a cancellation left, and what is an error (H5, L8).

And telling who waits for himself (L6).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

P = TypeVar("P")
T = TypeVar("T")

LEAVING = (KeyboardInterrupt, SystemExit)
"""What is never contained: it asks to leave the program (H5)."""


@trio.lowlevel.disable_ki_protection
def interruptible(function: Callable[..., Any], *args: Any) -> Any:
    """Call user code such that Ctrl-C reaches it while it computes; treadle's own code around it is protected (H11)."""
    return function(*args)


@trio.lowlevel.disable_ki_protection
def tell(listener: Callable[[P], Any], payload: P) -> Any:
    """Call a listener as ``interruptible`` does; apart from it, since every frame of every stream is told so (H11)."""
    return listener(payload)


@trio.lowlevel.disable_ki_protection
async def interruptibly(result: Awaitable[T]) -> T:
    """Await user code such that Ctrl-C reaches it while it computes; see ``interruptible`` (H11)."""
    return await result


def leaving_in(error: BaseException) -> BaseException | None:
    """The request to leave the program in an exception or a group of them, ``None`` when there is none."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            found = leaving_in(one)  # pyright: ignore[reportUnknownArgumentType]
            if found is not None:
                return found
        return None
    return error if isinstance(error, LEAVING) else None


def without_cancelled(error: BaseException) -> BaseException | None:
    """What is left of an exception when cancellations are taken out of it."""
    if isinstance(error, trio.Cancelled):
        return None
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return error


def stands_below(above: trio.lowlevel.Task | None) -> bool:
    """Whether the running task is ``above``, or is awaited by it through nurseries: its wait for that never ends."""
    task: trio.lowlevel.Task | None = trio.lowlevel.current_task() if above is not None else None
    while task is not None:
        if task is above:
            return True
        nursery = task.parent_nursery
        task = nursery.parent_task if nursery is not None else None
    return False
