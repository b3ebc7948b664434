"""A test that does not end fails, and says what every task and thread was waiting for.

pytest-timeout sets the timer; what happens when it fires is here. A trio run that waits is ended from within, so that it
unwinds and the tests after it find nothing left over: first everything is cancelled; what shields itself from that gets
the failure itself. What computes for ever is interrupted where it stands.
"""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import outcome
import pytest
import trio
from pytest_timeout import is_debugging
from trio.lowlevel import Task

AGAIN = 2.0
"""Seconds between one attempt to end a test and the next."""
OF_TRIO = str(Path(trio.__file__).parent)


@pytest.hookimpl
def pytest_timeout_set_timer(item: Any, settings: Any) -> bool:
    """Start the timer of a test: pytest-timeout's hook."""
    endings = iter([crash])

    def late(*_: object) -> None:
        if is_debugging():
            return
        said = f"not over after {settings.timeout:g} s\n" + "\n".join([*tasks(), *threads()])
        if trio.lowlevel.in_trio_run() and not trio.lowlevel.in_trio_task():
            trio.lowlevel.current_trio_token().run_sync_soon(next(endings, break_out), said)
        else:
            crash(said)

    def cancel() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    before = signal.signal(signal.SIGALRM, late)
    item.cancel_timeout = cancel
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, AGAIN)
    return True


# --- ending it --------------------------------------------------------------------------------------------------------

Ending = Callable[[str], None]


def crash(said: str) -> NoReturn:
    """Fail here; a trio run cancels everything at that."""
    pytest.fail(said)


def break_out(said: str) -> None:
    """Fail in every task of the test that waits for something else than its children."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    for task in [
        leaf for nursery in root.child_nurseries[-1:] for leaf in leaves(nursery)
    ]:  # the others are trio's own
        trio.lowlevel.reschedule(task, outcome.Error(pytest.fail.Exception(said)))


def leaves(nursery: trio.Nursery) -> Iterator[Task]:
    """The tasks in and below a nursery that have no children."""
    for task in nursery.child_tasks:
        below = [leaf for inner in task.child_nurseries for leaf in leaves(inner)]
        yield from below or [task]


# --- telling ----------------------------------------------------------------------------------------------------------


def tasks() -> Iterator[str]:
    """Every task of the trio run of this thread, if there is one, children further in than their parent."""
    root = trio.lowlevel.current_root_task() if trio.lowlevel.in_trio_run() else None
    if root is not None:
        yield from of_task(root, "")


def of_task(task: Task, margin: str) -> Iterator[str]:
    """A task with the awaits it stands in, outermost first; then its children."""
    yield f"{margin}task {task.name}"
    yield from [f"{margin}  {line}" for line in places(task.iter_await_frames())]
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from of_task(child, margin + "  ")


def threads() -> Iterator[str]:
    """Every other thread with the calls it stands in, outermost first."""
    frames = sys._current_frames()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.ident in frames:
            yield f"thread {thread.name}"
            yield from [f"  {line}" for line in reversed(list(places(traceback.walk_stack(frames[thread.ident]))))]


def places(frames: Iterable[tuple[Any, int]]) -> Iterator[str]:
    """Where frames stand, those of trio itself left out."""
    for entry in traceback.StackSummary.extract(iter(frames)):
        if not entry.filename.startswith(OF_TRIO):
            yield f"{entry.filename}:{entry.lineno} in {entry.name}: {entry.line}"
