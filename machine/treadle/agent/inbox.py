"""The pending messages of an agent, as its owner sees and changes them (§3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..kernel import inputs as i
from ..kernel.pending import normalize, whole
from ..words.messages import UserMessage, check_batch
from .delivery import checked

if TYPE_CHECKING:
    from ..words.events import Target
    from .engine import Engine


class Inbox:
    """The pending messages of an agent (§3). Every change is recorded before anyone is told."""

    __slots__ = ("_engine",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def next_turn(self) -> tuple[UserMessage, ...]:
        """Messages that each await a turn of their own."""
        return tuple([entry.message for entry in self._engine.kernel.inbox.next_turn])

    @property
    def next_step(self) -> tuple[UserMessage, ...]:
        """Messages that await the next step boundary."""
        return tuple([entry.message for entry in self._engine.kernel.inbox.next_step])

    def append(self, target: Target, message: UserMessage | str) -> None:
        """Put a message at the end of a list, without waking anybody; in next-step it is passive (I2, I3)."""
        self._splice(target, len(self._engine.kernel.inbox.list_of(target)), 0, (message,))

    def prepend(self, target: Target, message: UserMessage | str) -> None:
        """Put a message at the front of a list, without waking anybody (I2)."""
        self._splice(target, 0, 0, (message,))

    def replace(self, message_id: str, message: UserMessage | str) -> bool:
        """Put another message in the place of a pending one; returns whether that was still pending (I2)."""
        pending = self._pending(message_id)
        self._engine.feed(i.ReplaceMessage(message_id, checked(message)))
        return pending

    def remove(self, message_id: str) -> bool:
        """Take a pending message out; returns whether it was still pending (I2)."""
        pending = self._pending(message_id)
        self._engine.feed(i.RemoveMessage(message_id))
        return pending

    def splice(
        self, target: Target, start: int, delete_count: int, inserted: tuple[UserMessage, ...] | list[UserMessage] = ()
    ) -> tuple[UserMessage, ...]:
        """Change a list as JavaScript's ``splice`` does; returns what was removed (I2, I10)."""
        return self._splice(target, whole(start, "start"), whole(delete_count, "delete_count"), tuple(inserted))

    def clear(self) -> None:
        """Drop everything pending, next-step first (I7)."""
        self._engine.check_thread()
        self._engine.feed(i.ClearInbox())

    def _pending(self, message_id: str) -> bool:
        self._engine.check_thread()
        return self._engine.kernel.inbox.locate(message_id) is not None

    def _splice(
        self, target: Target, start: int, count: int, inserted: tuple[UserMessage | str, ...]
    ) -> tuple[UserMessage, ...]:
        engine = self._engine
        engine.check_thread()
        messages = tuple([checked(message) for message in inserted])
        check_batch(messages)
        pending = engine.kernel.inbox.list_of(target)
        at, some = normalize(len(pending), start, count)
        removed = tuple([entry.message for entry in pending[at : at + some]])
        engine.feed(i.Splice(target, start, count, messages))
        return removed

    def __repr__(self) -> str:
        return f"<Inbox next-turn={len(self.next_turn)} next-step={len(self.next_step)}>"
