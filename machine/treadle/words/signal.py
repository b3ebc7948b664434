"""Cancellation, as hooks, tools and adapters see it (H9)."""

from __future__ import annotations

import trio
from attrs import define, field

from .reasons import Cause


@define(eq=False, repr=False)
class Signal:
    """Tells whether and why the operation's turn was cancelled. It stays readable afterwards and grants nothing."""

    _cause: Cause | None = field(default=None, init=False)
    _event: trio.Event | None = field(default=None, init=False)

    @property
    def cancelled(self) -> bool:
        """Whether the turn was cancelled."""
        return self._cause is not None

    @property
    def cause(self) -> Cause | None:
        """The exact object that was given to ``cancel``, ``None`` while not cancelled."""
        return self._cause

    async def wait(self) -> Cause:
        """Wait until the turn is cancelled; returns the cause."""
        if self._cause is None:
            if self._event is None:
                self._event = trio.Event()
            await self._event.wait()
        else:
            await trio.lowlevel.checkpoint()
        assert self._cause is not None
        return self._cause

    def __repr__(self) -> str:
        return f"<Signal {'cancelled: ' + repr(self._cause) if self._cause is not None else 'live'}>"


@define(eq=False, repr=False)
class SignalSource(Signal):
    """The loop's side: the signal that it cancels. Whoever is handed one knows it as a ``Signal`` only."""

    def cancel(self, cause: Cause) -> None:
        """The turn is cancelled; the first cause stands (C2)."""
        if self._cause is None:
            self._cause = cause
            if self._event is not None:
                self._event.set()
