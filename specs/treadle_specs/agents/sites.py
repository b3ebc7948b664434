"""Where in the user's code something is: file and line, found in stacks, tracebacks, tasks and functions."""

from __future__ import annotations

import linecache
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

from attrs import frozen

import treadle

_OURS = (str(Path(__file__).parents[1]), str(Path(treadle.__file__ or "").parent))
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@frozen
class Site:
    """A line of code, and the function that it stands in."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" in {self.function}" if self.function else "")

    @property
    def text(self) -> str:
        """What stands there, without its margin."""
        return linecache.getline(self.file, self.line).strip()


def of_user(code: CodeType) -> bool:
    """Whether code is neither a library's nor the driver's nor the check's."""
    name = code.co_filename
    return not name.startswith((*_OURS, *_LIBRARIES, "<frozen", "<attrs", "<string>"))


def innermost(frames: Iterable[tuple[FrameType, int]]) -> Site | None:
    """The innermost line of the user's own code; frames are given outermost first. ``None`` where there is none."""
    mine: Site | None = None
    for frame, line in frames:
        if of_user(frame.f_code):
            mine = _site(frame.f_code, line)
    return mine


def of_stack(frame: FrameType | None) -> Site | None:
    """The user's line that called what runs in a frame; ``None`` when the driver or the check itself called it."""
    while frame is not None and not frame.f_code.co_filename.startswith(_OURS):
        if of_user(frame.f_code):
            return _site(frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return None


def of_error(error: BaseException) -> Site | None:
    """The user's line that an exception came through last; of a group, the first one's that has one."""
    if isinstance(error, BaseExceptionGroup):
        inner: tuple[BaseException, ...] = error.exceptions  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return next((site for one in inner if (site := of_error(one)) is not None), None)
    return innermost(_traced(error.__traceback__))


def _traced(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def of_function(function: Callable[..., Any]) -> Site | None:
    """Where a user's function is defined, through what was wrapped around it."""
    inner: Any = function
    for _ in range(20):
        code: CodeType | None = getattr(inner, "__code__", None)
        if code is not None and of_user(code) and not hasattr(inner, "__wrapped__"):
            return Site(code.co_filename, code.co_firstlineno, code.co_qualname)
        inner = _wrapped(inner, code)
        if inner is None:
            return None
    return None


def _wrapped(outer: Any, code: CodeType | None) -> Any:
    """The function that something calls in the end: a wrapper, a partial, a method, an object; ``None`` if it is not told."""
    for name in ("__wrapped__", "func", "__func__"):
        if hasattr(outer, name):
            return getattr(outer, name)
    if code is None:
        called: Any = outer.__call__ if callable(outer) else None
        return called if hasattr(called, "__code__") else None
    closed: Any = getattr(outer, "__closure__", None) or ()
    held = dict(zip(code.co_freevars, closed, strict=True))
    return held["function"].cell_contents if "function" in held else None


def _site(code: CodeType, line: int | None) -> Site:
    return Site(code.co_filename, line or code.co_firstlineno, code.co_qualname)
