"""What the drivers of one host share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from attrs import frozen

from ..hooks.points import ToolProposal
from ..models.routes import Models
from .convergence import Convergences

Approver = Callable[[ToolProposal, str], Awaitable[bool]]
"""Answers pre-execute hooks that ask (K2)."""


class Services(Protocol):
    """What a driver and its operations take of the host."""

    @property
    def thread_id(self) -> int:
        """The thread that agents are used from; none while the host is not usable (D2)."""
        ...

    def check_here(self) -> None:
        """Raise ``MisuseError`` unless called where the host runs (D2)."""
        ...

    @property
    def models(self) -> Models:
        """The routes to the models."""
        ...

    @property
    def approver(self) -> Approver | None:
        """Answers pre-execute hooks that ask; nobody does without one (K2)."""
        ...

    @property
    def start(self) -> Callable[[Callable[[], Awaitable[Any]]], None]:
        """Starts a task of the host's own that raises nothing, in the host's context (O7)."""
        ...

    def spawn(self, run: Callable[[], Awaitable[Any]], name: str | None = None) -> None:
        """As ``start``, for a task that may raise: the host ends with what it raised (O7, H5)."""
        ...

    def leave(self, error: BaseException) -> None:
        """End the host because one of its tasks asks to leave the program, or broke (H5)."""
        ...


@frozen(eq=False)
class Shared:
    """What the drivers of one host share."""

    host: Services
    convergences: Convergences
