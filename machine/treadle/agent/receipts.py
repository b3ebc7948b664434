"""Receipts: what becomes of a delivered message (D8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from ..kernel.effects import Admitted, Fate, Rejected


class Keeper(Protocol):
    """What keeps the agent that a message was delivered to."""

    def forbid_wait(self, what: str, *, known: bool) -> None:
        """Raise where the running task is awaited by what it would wait for; ``known``: only a flush is left (L6)."""
        ...

    async def durable(self) -> None:
        """Flush what has been recorded so far; raises what that failed with (P8)."""
        ...


class Receipt:
    """Returned by every delivery; tells the message's fate once it is known.

    Args:
        message_id: the message.
        keeper: keeps the agent that it was delivered to; ``None`` for agents of other factories.

    Attributes:
        message_id: the message.
        turn: the turn that claimed it, once its fate is known; ``None`` when none did.
    """

    __slots__ = ("_event", "_fate", "_hold", "_keeper", "message_id", "turn")

    def __init__(self, message_id: str, keeper: Keeper | None = None) -> None:
        self.message_id = message_id
        self.turn: int | None = None
        self._keeper = keeper
        self._fate: Fate | None = None
        self._event: trio.Event | None = None
        self._hold: Callable[[], Awaitable[None]] | None = None

    @property
    def fate(self) -> Fate | None:
        """What became of it; ``None`` while it is pending or being admitted."""
        return self._fate

    @trio.lowlevel.enable_ki_protection
    async def outcome(self, *, durable: bool = False) -> Admitted | Rejected:
        """Wait for the fate: ``Admitted(turn, step)`` or ``Rejected(reason)`` (D8).

        A fate that came with the end of a turn is told once that end is flushed (P8). Any other is told when it is
        recorded, which is not yet on disk: a killed process may lose the last moments of an open turn.

        Args:
            durable: wait until the record of it is as durable as the store's policy makes it (P7).

        Raises:
            MisuseError: awaited by the agent's own tool or hook before the fate is known, which would never return, or
                by its flush or clean-up (L6).
            StoreFailure, SessionLocked: with ``durable``: what the flush failed with.
        """
        keeper, known = self._keeper, self._fate is not None
        if keeper is not None and (not known or self._hold is not None or durable):
            keeper.forbid_wait(f"the outcome of message {self.message_id!r}", known=known)
        if not known:
            if self._event is None:
                self._event = trio.Event()
            await self._event.wait()
        else:
            await trio.lowlevel.checkpoint()
        if self._hold is not None:
            await self._hold()
        if durable and keeper is not None:
            await keeper.durable()
        assert self._fate is not None
        return self._fate

    def reach(self, fate: Fate, turn: int | None = None) -> None:
        """Tell the fate; the first one stands. For the loop that the message was delivered to."""
        if self._fate is None:
            self._fate = fate
            self.turn = turn
            if self._event is not None:
                self._event.set()

    def hold_for(self, flushed: Callable[[], Awaitable[None]]) -> None:
        """Have whoever waits for the fate wait for this, too. For the loop that the message was delivered to (P8)."""
        self._hold = flushed

    def __repr__(self) -> str:
        return f"<Receipt {self.message_id}: {self._fate or 'pending'}>"
