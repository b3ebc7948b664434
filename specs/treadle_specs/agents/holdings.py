"""Locks, semaphores, limiters and channels of the user's: whether what was taken from them is given back.

What is the same at each rest of the undisturbed run has to be the same at each rest of every other one.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import trio
from attrs import define, field

from .sites import Site, of_stack

_KINDS: tuple[tuple[type[Any], str, Callable[[Any], float]], ...] = (
    (trio.Lock, "lock", lambda lock: 0 if lock.locked() else 1),
    (trio.StrictFIFOLock, "lock", lambda lock: 0 if lock.locked() else 1),
    (trio.Semaphore, "semaphore", lambda semaphore: semaphore.value),
    (trio.CapacityLimiter, "limiter", lambda limiter: limiter.total_tokens - limiter.borrowed_tokens),
    (trio.MemoryReceiveChannel, "channel", lambda channel: channel.statistics().current_buffer_used),
)
"""What is watched, its name, and how much can be taken from it now."""
_TAKING = ("acquire", "acquire_nowait", "acquire_on_behalf_of", "acquire_on_behalf_of_nowait", "receive")
Key = tuple[str, Site, int]


@define(eq=False)
class Holdings:
    """What the user's code made in one run, and who took from it last.

    Attributes:
        made: what there is, with its kind, the line that made it, and its number among those of that line.
        taken: the user's line that took from it last.
    """

    made: list[tuple[Key, Any, Callable[[Any], float]]] = field(factory=list[Any])
    taken: dict[int, Site] = field(factory=dict[int, Site])
    _counts: Counter[tuple[str, Site]] = field(factory=Counter[tuple[str, Site]])

    def add(self, kind: str, thing: Any, site: Site, free: Callable[[Any], float]) -> None:
        """Something new."""
        self._counts[kind, site] += 1
        self.made.append(((kind, site, self._counts[kind, site]), weakref.ref(thing), free))

    def free(self) -> dict[Key, tuple[float, Site | None]]:
        """How much can be taken of each thing that is alive, and who took last."""
        found: dict[Key, tuple[float, Site | None]] = {}
        for key, reference, free in self.made:
            thing = reference()
            if thing is not None:
                found[key] = (free(thing), self.taken.get(id(thing)))
        return found


_NOW: list[Holdings] = []


@contextmanager
def holding(holdings: Holdings) -> Generator[None]:
    """Watch what is made and taken while the block runs."""
    _NOW.append(holdings)
    try:
        yield
    finally:
        _NOW.pop()


@contextmanager
def held() -> Generator[None]:
    """Get between the user's code and trio's locks while the block runs."""
    undo: list[tuple[type[Any], str, Any]] = []
    for owner, kind, free in _KINDS:
        made = "__attrs_post_init__" if hasattr(owner, "__attrs_post_init__") else "__init__"
        _put(undo, owner, made, _making(getattr(owner, made), kind, free))
        for name in _TAKING:
            if hasattr(owner, name):
                _put(undo, owner, name, _taking(getattr(owner, name)))
    try:
        yield
    finally:
        for owner, name, before in reversed(undo):
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


def _put(undo: list[tuple[type[Any], str, Any]], owner: type[Any], name: str, new: Any) -> None:
    undo.append((owner, name, vars(owner).get(name)))
    setattr(owner, name, new)


def _making(original: Callable[..., None], kind: str, free: Callable[[Any], float]) -> Callable[..., None]:
    def make(self: Any, *args: Any, **named: Any) -> None:
        original(self, *args, **named)
        site = of_stack(sys._getframe(1)) if _NOW else None  # pyright: ignore[reportPrivateUsage]
        if site is not None:
            _NOW[-1].add(kind, self, site, free)

    return make


def _taking(original: Callable[..., Any]) -> Callable[..., Any]:
    def take(self: Any, *args: Any, **named: Any) -> Any:
        site = of_stack(sys._getframe(1)) if _NOW else None  # pyright: ignore[reportPrivateUsage]
        if site is not None:
            _NOW[-1].taken[id(self)] = site
        return original(self, *args, **named)

    return take
