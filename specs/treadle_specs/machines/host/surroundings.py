"""What the parts of a world see of it. Its other parts are ``Any`` here: each of them is seen by its neighbours only at work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from treadle import Agent, Host, Signal
from treadle.session import SessionStore

from ..bench import Bench
from .storage import Storage

T = TypeVar("T")


class Surroundings(Protocol):
    """A world, as ``World`` describes it."""

    bench: Bench
    storage: Storage
    store: SessionStore
    host: Host
    actors: dict[str, Any]
    everyone: list[Any]
    past: dict[str, Any]
    extras: list[Any]
    compactions: Any
    crew: Any
    model: Any
    revisions: Any
    fired: int
    depth: int
    interrupts: int
    interrupted: set[str]
    braced: bool
    leaving: bool
    failures: int

    @property
    def telling(self) -> bool:
        """Whether a listener is acting now."""
        ...

    def name(self) -> str:
        """A message id that was not used before."""
        ...

    def actor_of(self, agent: Agent) -> Any:
        """What is known of an agent."""
        ...

    def live(self) -> list[Any]:
        """The agents that were not disposed."""
        ...

    def noting(self, actor: Any = None) -> AbstractContextManager[None]:
        """Keep what is found."""
        ...

    def errand(self, actor: Any, how: str, seconds: float) -> Callable[[Signal], Awaitable[str]]:
        """A maintenance task."""
        ...
