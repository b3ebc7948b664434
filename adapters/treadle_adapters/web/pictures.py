"""What the page draws beside the transcript: by whom it is drawn, and the newest turn of a session as the drawing has it.

Nothing here knows how to draw: ``treadle_diagrams.LivePictures()`` does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from time import time
from typing import Protocol

import trio
from attrs import define, field

from treadle import Event

from .desk import Desk
from .sessions import Asked

REMEMBERED = 64
"""How many sessions are followed at once; any other is read anew when it is asked for again."""
MOST_EVENTS = 50_000
"""A longer log is followed from so many events before its end: what has waited for longer is not drawn."""
PIECE = 1_000
"""How many events are read at a time."""


class Turn(Protocol):
    """Follows one log, and tells its newest turn."""

    def take(self, events: Iterable[Event]) -> None:
        """Follow the next events of the log."""
        ...

    def told(self, now: int, *, attempting: bool = False) -> bytes:
        """The turn as JSON that the script draws.

        Args:
            now: milliseconds since the epoch.
            attempting: whether the model is being asked.
        """
        ...


class Pictures(Protocol):
    """What a page is given to draw with.

    Attributes:
        lifecycle: the lifecycle as SVG without a style; ``data-state`` names each state, the class ``now`` marks one.
        style: its rules, and those of a turn.
        script: a module that exports ``Lanes``, which draws a turn.
    """

    lifecycle: str
    style: str
    script: str

    def turn(self) -> Turn:
        """Something that follows one log."""
        ...


@define(eq=False)
class Followed:
    """A log, as far as it was followed: the number of the next event, and the time of the last."""

    turn: Turn
    next: int = 0
    time: int | None = None
    lock: trio.Lock = field(factory=trio.Lock)

    def is_of(self, log: Sequence[Event]) -> bool:
        """Whether the log is the one that was followed, or has grown from it: a kill may have lost its end."""
        return self.time is None or (self.next <= len(log) and log[self.next - 1].time == self.time)

    def tell(self, log: Sequence[Event], afresh: Callable[[], Turn], attempting: bool) -> bytes:
        """Follow what is new, in pieces, and tell the turn. It reads and computes: not for the host's loop."""
        if self.time is None or not self.is_of(log):
            self.turn, self.next, self.time = afresh(), 0, None
        end = len(log)
        at = self.next if self.time is not None else max(0, end - MOST_EVENTS)
        while at < end:
            piece = log[at : min(end, at + PIECE)]
            self.time, self.next = None, 0  # should it fail, it is followed from its beginning
            self.turn.take(piece)
            at += len(piece)
            self.time, self.next = piece[-1].time, at
        return self.turn.told(round(time() * 1000), attempting=attempting)


class PictureOperations:
    """The operations; each runs in the host's thread."""

    def __init__(self, desk: Desk, pictures: Pictures) -> None:
        self._desk = desk
        self._pictures = pictures
        self._followed: OrderedDict[str, Followed] = OrderedDict()

    async def turn(self, asked: Asked) -> bytes:
        """The newest turn of a session, as the page draws it: what took time in it, and what waited."""
        desk, name = self._desk, asked.session
        await desk.check(asked.owner, name)
        followed = self._followed.setdefault(name, Followed(self._pictures.turn()))
        self._followed.move_to_end(name)
        if len(self._followed) > REMEMBERED:
            self._followed.popitem(last=False)
        async with followed.lock:
            agent = desk.host.agents.get(name)
            log = agent.session.events if agent is not None else (await desk.stored(name)).events
            attempting = name in desk.watching.attempts
            return await trio.to_thread.run_sync(followed.tell, log, self._pictures.turn, attempting)
