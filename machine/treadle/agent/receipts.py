"""Receipts: what becomes of a delivered message (D8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from ..kernel.effects import Admitted, Fate, Rejected


class Receipt:
    """Returned by every delivery; tells the message's fate once it is known.

    Attributes:
        message_id: the message.
    """

    __slots__ = ("_event", "_fate", "_hold", "message_id")

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        self._fate: Fate | None = None
        self._event: trio.Event | None = None
        self._hold: Callable[[], Awaitable[None]] | None = None

    @property
    def fate(self) -> Fate | None:
        """What became of it; ``None`` while it is pending or being admitted."""
        return self._fate

    async def outcome(self) -> Admitted | Rejected:
        """Wait for the fate: ``Admitted(turn, step)`` or ``Rejected(reason)`` (D8).

        A fate that came with the end of a turn is told once that end is flushed (P8).
        """
        if self._fate is None:
            if self._event is None:
                self._event = trio.Event()
            await self._event.wait()
        else:
            await trio.lowlevel.checkpoint()
        if self._hold is not None:
            await self._hold()
        assert self._fate is not None
        return self._fate

    def reach(self, fate: Fate) -> None:
        """Tell the fate; the first one stands. For the loop that the message was delivered to."""
        if self._fate is None:
            self._fate = fate
            if self._event is not None:
                self._event.set()

    def hold_for(self, flushed: Callable[[], Awaitable[None]]) -> None:
        """Have whoever waits for the fate wait for this, too. For the loop that the message was delivered to (P8)."""
        self._hold = flushed

    def __repr__(self) -> str:
        return f"<Receipt {self.message_id}: {self._fate or 'pending'}>"
