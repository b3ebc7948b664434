"""Deliveries: the message that is made of text, and the receipt that tells what becomes of it (D1, D3, D8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import define, field

from ..ids import new_id
from ..kernel.effects import Admitted, Fate, Rejected
from ..words.messages import USER, Source, Text, UserMessage, check_user_message


def message(text: str, *, id: str | None = None, source: Source = USER) -> UserMessage:
    """Make a user message of ``text``, under a fresh id unless one is given (I1)."""
    return UserMessage(id if id is not None else new_id(), (Text(text),), source)


def checked(given: UserMessage | str) -> UserMessage:
    """Check a message, or make one of text (D3)."""
    return check_user_message(message(given) if isinstance(given, str) else given)


@define(eq=False, repr=False)
class Receipt:
    """Returned by every delivery; tells the message's fate once it is known.

    Attributes:
        message_id: the message.
    """

    message_id: str
    _fate: Fate | None = field(default=None, init=False)
    _event: trio.Event | None = field(default=None, init=False)
    _hold: Callable[[], Awaitable[None]] | None = field(default=None, init=False)

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
