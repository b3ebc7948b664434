"""The two pending lists, as pure data: splice arithmetic and the fold of the log (§3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from attrs import define, field

from ..errors import MisuseError, SessionCorrupt
from ..words.events import InboxSpliced, Target
from ..words.messages import UserMessage

NEXT_TURN: Target = "next-turn"
NEXT_STEP: Target = "next-step"

E = TypeVar("E")


@define(eq=False)
class Entry:
    """One pending message. ``waking`` says that it came by a delivery that may start the driver.

    In next-step a waking entry presses: it forces one more step (§1). It is process-local, never in the log (I3).
    """

    message: UserMessage
    waking: bool = False


def normalize(length: int, start: int, delete_count: int) -> tuple[int, int]:
    """Resolve splice coordinates as JavaScript's ``splice`` does (I2).

    A negative ``start`` counts from the end; both are clamped to the list.
    """
    start = max(length + start, 0) if start < 0 else min(start, length)
    return start, max(0, min(delete_count, length - start))


@define
class Inbox:
    """Both lists, and where each pending id is. Ids are unique over both (I1)."""

    next_turn: list[Entry] = field(factory=lambda: [])
    next_step: list[Entry] = field(factory=lambda: [])
    ids: dict[str, Target] = field(factory=lambda: {})

    def list_of(self, target: Target) -> list[Entry]:
        """The live list of a target.

        Raises:
            MisuseError: there is no such target.
        """
        if target == NEXT_TURN:
            return self.next_turn
        if target == NEXT_STEP:
            return self.next_step
        raise MisuseError(f"inbox target must be 'next-turn' or 'next-step', not {target!r} (D1)")

    def locate(self, message_id: str) -> tuple[Target, int] | None:
        """Where a message is pending, ``None`` when it is not (I2)."""
        target = self.ids.get(message_id)
        if target is None:
            return None
        for index, entry in enumerate(self.list_of(target)):
            if entry.message.id == message_id:
                return target, index
        raise AssertionError(f"{message_id!r} is indexed but not listed")

    def splice(self, target: Target, start: int, delete_count: int, inserted: Iterable[Entry] = ()) -> list[Entry]:
        """Apply normalized coordinates; returns what was removed."""
        pending = self.list_of(target)
        entries = list(inserted)
        removed = pending[start : start + delete_count]
        pending[start : start + delete_count] = entries
        for entry in removed:
            del self.ids[entry.message.id]
        for entry in entries:
            self.ids[entry.message.id] = target
        return removed

    @property
    def presses(self) -> bool:
        """Whether next-step holds a pressing entry: it forces one more step (§1)."""
        for entry in self.next_step:
            if entry.waking:
                return True
        return False

    @property
    def can_use_wake(self) -> bool:
        """Whether a latched wake would find work: a next-turn entry or a pressing one (D5)."""
        return bool(self.next_turn) or self.presses

    def waking(self) -> tuple[UserMessage, ...]:
        """The pending messages that came by waking deliveries, in the order in which a claim would take them."""
        return tuple([entry.message for entry in (*self.next_step, *self.next_turn) if entry.waking])

    def fold(self, data: InboxSpliced, seq: int) -> list[Entry]:
        """Apply one recorded splice (I6) and return what it removed; folded entries are passive (I3).

        Raises:
            SessionCorrupt: coordinates out of range, or an id that is pending already; the seq is named.
        """
        if data.target != NEXT_TURN and data.target != NEXT_STEP:  # pyright: ignore[reportUnnecessaryComparison]
            raise SessionCorrupt(f"event {seq}: inbox target {data.target!r} is unknown (I6)", seq)
        length = len(self.list_of(data.target))
        start, count = data.start, data.removed_count
        if start < 0 or count < 0 or start + count > length:
            raise SessionCorrupt(
                f"event {seq}: splice at {start} removing {count} does not fit {length} pending in {data.target} (I6)",
                seq,
            )
        if not count and not data.inserted:
            raise SessionCorrupt(f"event {seq}: a splice that changes nothing was recorded (I2, I6)", seq)
        removed = self.splice(data.target, start, count) if count else []
        fresh: set[str] = set()
        for message in data.inserted:
            if message.id in self.ids or message.id in fresh:
                raise SessionCorrupt(f"event {seq}: message {message.id!r} is pending already (I6)", seq)
            fresh.add(message.id)
        if fresh:
            self.splice(data.target, start, 0, [Entry(message) for message in data.inserted])
        return removed

    def copy(self) -> Inbox:
        """An independent copy; entries are shared (they never change)."""
        return Inbox(list(self.next_turn), list(self.next_step), dict(self.ids))

    def messages(self) -> dict[Target, tuple[UserMessage, ...]]:
        """Both lists as messages."""
        return {
            NEXT_TURN: tuple([entry.message for entry in self.next_turn]),
            NEXT_STEP: tuple([entry.message for entry in self.next_step]),
        }


def whole(value: Any, what: str) -> int:
    """Check a splice coordinate.

    Raises:
        MisuseError: it is no whole number.
    """
    if type(value) is not int:
        raise MisuseError(f"{what} must be a whole number, not {value!r} (I2)")
    return value
