"""Which agent's driver started this chain of tasks: attribution only, never permission (O7, O16).

The initiator travels in a contextvar, so it reaches awaited code, tasks started from it, and worker threads. Code that
is shared by several agents (pumps, pools, exporters) is started inside ``without_initiator``, so that it does not bear
the name of whoever happened to need it first.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec
import trio

from ..errors import MisuseError

if TYPE_CHECKING:
    from .agent import Agent

T = TypeVar("T")


class Initiator(msgspec.Struct, frozen=True, eq=False):
    """An agent, and which of its activities. A new activity gets a new token, so that old tasks are told apart."""

    agent: Agent
    activity: object


CURRENT: ContextVar[Initiator | None] = ContextVar("treadle_initiator", default=None)
"""The initiator of the running task, ``None`` outside any driver."""

_LINEAGE: ContextVar[tuple[object, ...]] = ContextVar("treadle_boundaries", default=())
"""The open boundaries that the running task stands in, outermost first."""


def current_initiator() -> Agent | None:
    """The agent whose driver started this chain of tasks, ``None`` outside any and in a clearing boundary (O7)."""
    current = CURRENT.get()
    return current.agent if current is not None else None


class Initiators:
    """Looks up and sets the initiator, and drains the boundaries it opened at teardown (O7, O16)."""

    def __init__(self) -> None:
        self._open: dict[object, None] = {}
        self._closing = False
        self._gone = False
        self._ended = trio.lowlevel.ParkingLot()

    def current_initiator(self) -> Agent | None:
        """As the function ``current_initiator``.

        Raises:
            MisuseError: the host is disposed.
        """
        if self._gone:
            raise MisuseError("the host is disposed; it attributes nothing any more (O16)")
        return current_initiator()

    def require_initiator(self) -> Agent:
        """The agent whose driver started this chain of tasks.

        Raises:
            MisuseError: there is none, or the host is disposed.
        """
        agent = self.current_initiator()
        if agent is None:
            raise MisuseError(
                "no agent started this (O7): call it below a driver, inside with_initiator(agent, …), "
                "or use current_initiator() where there may be none"
            )
        return agent

    @overload
    def with_initiator(self, agent: Agent, operation: Callable[[], Awaitable[T]]) -> Awaitable[T]: ...
    @overload
    def with_initiator(self, agent: Agent, operation: Callable[[], T]) -> T: ...
    def with_initiator(self, agent: Agent, operation: Callable[[], Any]) -> Any:
        """Run an operation as started by exactly this agent; returns its exact value (O16).

        A coroutine that it gives runs inside the boundary when it is awaited, and the host's teardown waits for its end.

        Raises:
            MisuseError: the host is closing.
            BaseException: what the operation raised.
        """
        current = CURRENT.get()
        if current is None or current.agent is not agent:
            current = Initiator(agent, object())
        return self._within(current, operation)

    @overload
    def without_initiator(self, operation: Callable[[], Awaitable[T]]) -> Awaitable[T]: ...
    @overload
    def without_initiator(self, operation: Callable[[], T]) -> T: ...
    def without_initiator(self, operation: Callable[[], Any]) -> Any:
        """Run an operation as started by no agent; returns its exact value. For shared background work (O7, O16).

        Raises:
            MisuseError: the host is closing.
            BaseException: what the operation raised.
        """
        return self._within(None, operation)

    def _within(self, initiator: Initiator | None, operation: Callable[[], Any]) -> Any:
        if self._closing:
            raise MisuseError("the host is closing; it opens no more initiator boundaries (O16)")
        before = CURRENT.set(initiator)
        try:
            result = operation()
        finally:
            CURRENT.reset(before)
        return self._boundary(initiator, result) if inspect.iscoroutine(result) else result

    def _boundary(self, initiator: Initiator | None, result: Coroutine[Any, Any, T]) -> Awaitable[T]:
        boundary = object()

        async def run() -> T:
            self._open[boundary] = None
            before, lineage = CURRENT.set(initiator), _LINEAGE.set((*_LINEAGE.get(), boundary))
            try:
                return await result
            finally:
                _LINEAGE.reset(lineage)
                CURRENT.reset(before)
                self._open.pop(boundary, None)
                self._ended.unpark_all()

        return run()

    def begin_closing(self) -> None:
        """Open no more boundaries."""
        self._closing = True

    async def drained(self) -> None:
        """Wait for every open boundary but those that the caller stands in (O16); afterwards lookups raise."""
        self._closing = True
        own = _LINEAGE.get()
        while [boundary for boundary in self._open if boundary not in own]:
            await self._ended.park()
        self._gone = True
