"""Where the tasks of a stepped run stand, and what they wait for: read from their frames."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import FrameType
from typing import Any

import trio

_THREAD_CALLS = frozenset({"to_thread_run_sync"})
_OUTSIDE_FILES = ("_io_epoll.py", "_io_kqueue.py", "_io_windows.py")
_OUTSIDE_PACKAGES = ("apsw",)
_TRAPS = "_traps.py"
_FRAMED = frozenset({"cr_frame", "gi_frame", "ag_frame"})


def frames_of(task: trio.lowlevel.Task) -> Iterator[FrameType]:
    """Where a task stands, outermost first; what an object awaits by its own ``__await__`` is seen as well."""
    return coroutine_frames(task.coro)


def coroutine_frames(coro: Any) -> Iterator[FrameType]:
    """Where a coroutine stands, outermost first."""
    while coro is not None:
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(coro, f"{kind}_frame")), None)
        if kind is None:
            coro = next((inner for inner in gc.get_referents(coro) if _FRAMED.intersection(dir(inner))), None)
            continue
        frame = getattr(coro, f"{kind}_frame")
        if frame is not None:
            yield frame
        coro = getattr(coro, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")


def over(task: trio.lowlevel.Task) -> bool:
    """Whether a task has come to its end."""
    return next(frames_of(task), None) is None


def waits_outside(task: trio.lowlevel.Task) -> bool:
    """Whether a task waits for a thread or a file, not for another task or a deadline.

    Code that parks a task by itself, without one of trio's own ways to wait, hands it to a thread.
    """
    innermost = ""
    for frame in frames_of(task):
        code = frame.f_code
        package = (frame.f_globals.get("__name__") or "").partition(".")[0]
        if code.co_name in _THREAD_CALLS or code.co_filename.endswith(_OUTSIDE_FILES) or package in _OUTSIDE_PACKAGES:
            return True
        if not code.co_filename.endswith(_TRAPS):
            innermost = package
    return innermost not in ("", "trio")
