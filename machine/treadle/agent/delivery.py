"""Deliveries: the message that is made of text, and the receipt that tells what becomes of it (D1, D3, D8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec
import trio
from attrs import define, field

from ..ids import new_id
from ..kernel.effects import Admitted, Fate, Rejected
from ..words.messages import MOST_TEXT, USER, Source, Text, UserMessage, check_user_message


def message(text: str, *, id: str | None = None, source: Source = USER, pinned: bool = False) -> UserMessage:
    """Make a user message of ``text``, under a fresh id unless one is given (I1); compaction keeps a pinned one (Z2)."""
    made = UserMessage(id if id is not None else new_id(), (Text(text),), source)
    return msgspec.structs.replace(made, pinned=True) if pinned else made


def checked(given: UserMessage | str) -> UserMessage:
    """Check a message, or make one of text (D3)."""
    if type(given) is str:
        made = message(given)
        # Nearly all text needs no second look: ASCII is lossless, and this much of it can be recorded.
        return made if given.isascii() and len(given) <= MOST_TEXT else check_user_message(made)
    return check_user_message(message(given) if isinstance(given, str) else given)


class Keeper(Protocol):
    """What keeps the agent that a message was delivered to."""

    def forbid_wait(self, what: str, *, known: bool) -> None:
        """Raise where the running task is awaited by what it would wait for; ``known``: only a flush is left (L6)."""
        ...

    async def durable(self) -> None:
        """Flush what has been recorded so far; raises what that failed with (P8)."""
        ...


@define(eq=False, repr=False)
class Receipt:
    """Returned by every delivery; tells the message's fate once it is known.

    Args:
        message_id: the message.
        keeper: keeps the agent that it was delivered to; ``None`` for agents of other factories.

    Attributes:
        message_id: the message.
        turn: the turn that claimed it, once its fate is known; ``None`` when none did.
    """

    message_id: str
    _keeper: Keeper | None = None
    turn: int | None = field(default=None, init=False)
    _fate: Fate | None = field(default=None, init=False)
    _event: trio.Event | None = field(default=None, init=False)
    _hold: Callable[[], Awaitable[None]] | None = field(default=None, init=False)

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
