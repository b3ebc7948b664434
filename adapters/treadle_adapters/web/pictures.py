"""What the page draws beside the transcript: by whom it is drawn, and the newest turn of a session as the drawing has it.

Nothing here knows how to draw: ``treadle_diagrams.LivePictures()`` does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial
from time import time
from typing import Protocol

import trio
from attrs import define, field

from treadle import Event

from .desk import Desk
from .sessions import Asked

REMEMBERED = 64
"""How many sessions are followed at once; any other is read from its beginning when it is asked for again."""


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
class _Followed:
    """A log, as far as it was followed: the number of the next event, and the time of the last."""

    turn: Turn
    next: int = 0
    time: int | None = None
    lock: trio.Lock = field(factory=trio.Lock)

    def is_of(self, log: Sequence[Event]) -> bool:
        """Whether the log is the one that was followed, or has grown from it: a kill may have lost its end."""
        return self.next == 0 or (self.next <= len(log) and log[self.next - 1].time == self.time)


class PictureOperations:
    """The operations; each runs in the host's thread."""

    def __init__(self, desk: Desk, pictures: Pictures) -> None:
        self._desk = desk
        self._pictures = pictures
        self._followed: OrderedDict[str, _Followed] = OrderedDict()

    async def turn(self, asked: Asked) -> bytes:
        """The newest turn of a session, as the page draws it: what took time in it, and what waited."""
        desk, name = self._desk, asked.session
        await desk.check(asked.owner, name)
        followed = self._followed.setdefault(name, _Followed(self._pictures.turn()))
        self._followed.move_to_end(name)
        if len(self._followed) > REMEMBERED:
            self._followed.popitem(last=False)
        async with followed.lock:
            agent = desk.host.agents.get(name)
            log = agent.session.events if agent is not None else (await desk.stored(name)).events
            if not followed.is_of(log):
                followed.turn, followed.next = self._pictures.turn(), 0
            fresh = log[followed.next :]
            tell = partial(followed.turn.told, round(time() * 1000), attempting=name in desk.watching.attempts)
            told = await trio.to_thread.run_sync(_follow, followed.turn, fresh, tell)
            if fresh:
                followed.next, followed.time = followed.next + len(fresh), fresh[-1].time
            return told


def _follow(turn: Turn, fresh: Sequence[Event], tell: partial[bytes]) -> bytes:
    turn.take(fresh)
    return tell()
