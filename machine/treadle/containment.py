"""Telling apart what asks to leave the program, what a cancellation left, and what is an error (H5, L8)."""

from __future__ import annotations

import trio

LEAVING = (KeyboardInterrupt, SystemExit)
"""What is never contained: it asks to leave the program (H5)."""


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
