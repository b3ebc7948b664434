"""What a run leaves in this process: threads at work, child processes, open files and sockets; and who made them.

Each is looked for as the operating system tells it, before and after. Which line made it is told by Python's audit
events, heard while a check runs.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from attrs import define, field, frozen

from .sites import Site, innermost, of_stack

GRACE = 2.0
"""Real seconds within which what is ending has to end."""
PAUSE = 0.02
"""Real seconds between two looks."""
PROC = "/proc"
MARK = "TREADLE_CHECK"
"""The environment variable by which processes are known that were started in a check, whoever is their parent now."""
_FILES = (io.FileIO, socket.socket)
_WORKER = "_thread_cache.py"
_TOLD = frozenset(
    {"open", "socket.__new__", "subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system"}
)


@frozen
class Left:
    """One thing that is left.

    Attributes:
        kind: ``thread``, ``child process``, ``open file`` or ``socket``.
        what: its name.
        site: the line that made it, or that it stands in.
    """

    kind: str
    what: str
    site: Site | None = None


@define(eq=False)
class Makers:
    """The lines that started processes and opened files and sockets, as audit events tell.

    Attributes:
        standing: the user's line that waits for what a worker thread does.
        started: whether any process was started.
    """

    standing: Callable[[], Site | None] = field(default=lambda: None)
    programs: list[tuple[str, Site]] = field(factory=list[tuple[str, Site]])
    files: dict[str, Site] = field(factory=dict[str, Site])
    sockets: list[Site] = field(factory=list[Site])
    started: bool = False

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        """An audit event."""
        if event not in _TOLD:
            return
        self.started = self.started or event not in ("open", "socket.__new__")
        site = of_stack(sys._getframe(2))  # pyright: ignore[reportPrivateUsage]  # whoever did what is audited
        if site is None and threading.current_thread() is not threading.main_thread():
            site = self.standing()
        if site is None:
            return
        if event == "open":
            with suppress(TypeError, ValueError, OSError):
                self.files[os.path.realpath(os.fsdecode(args[0]))] = site
        elif event == "socket.__new__":
            self.sockets.append(site)
        else:
            self.programs.append((_program(args), site))


def _program(args: tuple[Any, ...]) -> str:
    given: Any = args[1] if len(args) > 1 and args[1] else args[:1]
    words: list[Any] = list(given) if type(given) in (list, tuple) else [given]
    return " ".join(
        [os.fsdecode(word) if hasattr(word, "__fspath__") or type(word) is bytes else str(word) for word in words]
    )


_HEARING: list[Makers] = []
_HOOKED: list[bool] = []


def hearing(makers: Makers | None) -> None:
    """Tell audit events to ``makers`` from now on; to nobody with ``None``. Such a hook cannot be taken out again."""
    _HEARING[:] = [makers] if makers is not None else []
    if not _HOOKED:
        _HOOKED.append(True)
        sys.addaudithook(_heard)


def _heard(event: str, args: tuple[Any, ...]) -> None:
    if _HEARING:
        _HEARING[-1].hear(event, args)


# --- what there is ------------------------------------------------------------------------------------------------------


@define(eq=False)
class Standing:
    """What this process has at one moment."""

    threads: set[int]
    children: set[int]
    descriptors: dict[int, str]

    @classmethod
    def now(cls, children: set[int] | None = None) -> Standing:
        """Look; processes are looked for unless they are given."""
        found = children if children is not None else set(_children())
        return cls(set(_threads()), found, _descriptors())


def left_since(before: Standing, makers: Makers) -> list[Left]:
    """What there is more than before; what is just ending is waited for."""
    until = time.monotonic() + GRACE
    while True:
        children = _left_children(before, makers) if makers.started else ()
        left = [*_left_threads(before), *children, *_left_descriptors(before, makers)]
        if not left or time.monotonic() > until:
            return left
        gc.collect()  # what nobody holds any more is closed by that, as it would be some time
        time.sleep(PAUSE)


def clear(before: Standing, now: Standing) -> None:
    """Take away what a run has left: end its processes, and close its files without writing what they still hold."""
    for process in now.children - before.children:
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
        with suppress(OSError):
            os.waitpid(process, 0)
    fresh = {number for number, name in now.descriptors.items() if before.descriptors.get(number) != name}
    files = [thing for thing in gc.get_objects() if isinstance(thing, _FILES)] if fresh else []
    for file in files:
        with suppress(Exception):
            if file.fileno() in fresh:
                file.close()


def _threads() -> Iterator[int]:
    """The threads at work; those that trio keeps for the next job are not."""
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is not None and not frame.f_code.co_filename.endswith(_WORKER):
            yield thread.ident or 0


def _left_threads(before: Standing) -> Iterator[Left]:
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident in _threads():
        if ident not in before.threads and ident in frames:
            stack: list[tuple[Any, int]] = []
            frame: Any = frames[ident]
            while frame is not None:
                stack.append((frame, frame.f_lineno))
                frame = frame.f_back
            yield Left("thread", str(names.get(ident, ident)), innermost(reversed(stack)))


def _children() -> Iterator[int]:
    """The processes that this one, or what it has started, started, and that still run."""
    parents: dict[int, int] = {}
    marked: set[int] = set()
    mark = f"{MARK}={os.getpid()}\0".encode()
    with suppress(OSError):
        for name in os.listdir(PROC):  # noqa: PTH208  # a path for each process would cost more than the rest
            if name.isdigit():
                with suppress(OSError):
                    state, parent = _bytes(name, "stat").rpartition(b")")[2].split()[:2]
                    if state not in (b"Z", b"X"):
                        parents[int(name)] = int(parent)
                        if mark in _bytes(name, "environ"):
                            marked.add(int(name))
    below = {os.getpid()}
    for _ in parents:
        more = {process for process, parent in parents.items() if parent in below} - below
        if not more:
            break
        below |= more
    yield from (below | marked) - {os.getpid()}


def _bytes(process: str, what: str) -> bytes:
    file = os.open(f"{PROC}/{process}/{what}", os.O_RDONLY)
    try:
        return os.read(file, 1 << 16)
    finally:
        os.close(file)


def _left_children(before: Standing, makers: Makers) -> Iterator[Left]:
    for process in _children():
        if process not in before.children:
            command = ""
            with suppress(OSError):
                command = _bytes(str(process), "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
            same = [site for program, site in makers.programs if program and program in command]
            known = same or [site for _, site in makers.programs]
            yield Left("child process", f"{process} ({command or '?'})", known[-1] if known else None)


def _descriptors() -> dict[int, str]:
    """The open files by number, with their names; pipes and the system's own are not told."""
    found: dict[int, str] = {}
    with suppress(OSError):
        for entry in os.scandir("/proc/self/fd"):
            with suppress(OSError):
                name = os.readlink(entry.path)  # noqa: PTH115  # the same, for each file
                if not name.startswith(("anon_inode:", "pipe:", "/proc/")):
                    found[int(entry.name)] = name
    return found


def _left_descriptors(before: Standing, makers: Makers) -> Iterator[Left]:
    for number, name in _descriptors().items():
        if before.descriptors.get(number) != name:
            if name.startswith("socket:"):
                yield Left("socket", name, makers.sockets[-1] if makers.sockets else None)
            else:
                yield Left("open file", name, makers.files.get(name.removesuffix(" (deleted)")))
