"""What became of a message, by the log alone: whoever wrote it, and whoever reads it (D8)."""

from __future__ import annotations

from attrs import define

from treadle import Admitted, Event, Rejected
from treadle.session import (
    Aborted,
    Blocked,
    Errored,
    InboxSpliced,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
)

_REASONS = ((Aborted, "aborted"), (Blocked, "blocked"), (Errored, "failed"))
"""What a claimed message comes to that is not recorded when its turn ends."""


@define
class Fate:
    """Follows one message from the event on that put it into the inbox; give it each event, in order.

    Attributes:
        message_id: the message.
        fate: what became of it, once that is known.
        turn: the turn that claimed it, once that is known.
        ended: the end of that turn, once it is there.
    """

    message_id: str
    fate: Admitted | Rejected | None = None
    turn: int | None = None
    ended: TurnEnd | None = None
    _place: tuple[str, int] | None = None
    _claimed: bool = False
    _open: int = 0
    _step: int | None = None
    _untold: Admitted | Rejected | None = None

    def take(self, entry: Event) -> None:
        """Take the next event."""
        data = entry.data
        if isinstance(data, TurnStart):
            self._open, self._step = data.turn, None
        elif isinstance(data, StepEnd):
            self._open = data.turn
        elif isinstance(data, StepStart):
            self._open, self._step = data.turn, data.step
            if self._claimed and self.fate is None and self.message_id not in data.accepted:
                self._reach(Rejected("left-out"))
        elif isinstance(data, InboxSpliced):
            if self.fate is None:
                self._splice(data)
        elif isinstance(data, UserMessageAdded):
            if data.message.id == self.message_id:
                self._reach(Admitted(self._open, self._step))
        elif isinstance(data, TurnEnd):
            self._turn_ended(data)

    def _reach(self, fate: Admitted | Rejected) -> None:
        if self._open == 0:
            self._untold = fate  # which turn this is stands before what is read: its end will say so
        elif self.fate is None:
            self.fate, self.turn = fate, self._open

    def _turn_ended(self, end: TurnEnd) -> None:
        self._open = end.turn
        if isinstance(self._untold, Admitted):
            self._untold = Admitted(end.turn, self._untold.step)
        if self._untold is not None:
            self._reach(self._untold)
        if self._claimed and self.fate is None:
            self._reach(Rejected(next((word for kind, word in _REASONS if isinstance(end.reason, kind)), "left-out")))
        if self.turn == end.turn:
            self.ended = end

    def _splice(self, data: InboxSpliced) -> None:
        """Follow its place in the lists; a removal without outcome that puts it nowhere is a claim, or half a move."""
        for offset, message in enumerate(data.inserted):
            if message.id == self.message_id:
                self._place, self._claimed = (data.target, data.start + offset), False
                return
        if self._place is None or self._place[0] != data.target:
            return
        at = self._place[1]
        if data.start <= at < data.start + data.removed_count:
            self._place = None
            if data.outcome == "canceled":
                self.fate = Rejected("discarded")
            else:
                self._claimed, self._step = True, None
        elif data.start <= at:
            self._place = (data.target, at - data.removed_count + len(data.inserted))
