"""Keeps a long session small while it lives: what is written is let go of, and checkpoints are made on the way (S11)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable
from functools import partial

import trio
from attrs import define, field

from ..checks import LogIntake
from ..errors import SessionCorrupt, SessionNotFound, StoreFailure
from ..session.log import Session
from ..session.repair import at_rest
from ..session.store import Archive, SessionWriter
from .convergence import Spawn

LOGGER = logging.getLogger("treadle")
HELD = 2_000
"""How many events a session holds, but for those since the last write; half as many are kept when there are more."""
HELD_BYTES = 4 << 20
"""How many bytes their records may have, likewise."""
EVERY = 20_000
"""So many events without a checkpoint are worth one."""
SHARE = 4
"""And so is the fourth part of what the last one has in bytes, if that is more: it is read and written whole."""


@define(eq=False)
class Keeper:
    """Told whenever everything that was recorded is written; bounds what the session holds of it.

    Attributes:
        session: the session.
        archive: what its store offers.
        spawn: starts the task that makes a checkpoint.
        marks: how many events and bytes were stored when something was written, the oldest first: places to cut at.
    """

    session: Session
    archive: Archive
    spawn: Spawn
    marks: deque[tuple[int, int]] = field(factory=lambda: deque[tuple[int, int]]())
    _weighed: tuple[int, int] = (0, 0)
    _idle: trio.Event | None = None

    @classmethod
    def of(cls, session: Session, writer: SessionWriter, spawn: Spawn) -> Keeper | None:
        """One for a session whose store reads back; ``None`` where it does not."""
        archive: Archive | None = getattr(writer, "archive", None)
        if archive is None:
            return None
        session.past = archive
        keeper = cls(session, archive, spawn)
        keeper.marks.append((session.base, archive.size))
        keeper._weighed = archive.covered, archive.size
        return keeper

    def written(self, *, turn_ended: bool = False) -> None:
        """What was recorded until now is written: let go of what is beyond the bounds; see about a checkpoint."""
        count, size, marks = self.archive.count, self.archive.size, self.marks
        marks.append((count, size))
        if count - marks[0][0] > HELD or size - marks[0][1] > HELD_BYTES:
            while count - marks[0][0] > HELD // 2 or size - marks[0][1] > HELD_BYTES // 2:
                marks.popleft()
            self.session.forget(marks[0][0])
        if turn_ended and self._idle is None:
            covered, at = self._weighed
            if count - covered >= EVERY and (size - at) * SHARE >= self.archive.weight:
                upto = at_rest(self.session.events)
                if upto <= count:
                    self._weighed = upto, size
                    self._idle = trio.Event()
                    self.spawn(partial(self._advance, self._idle, upto))

    async def _advance(self, over: trio.Event, upto: int) -> None:
        try:
            await checkpointed(self.archive.advance(LogIntake(), upto), self.session.id)
        finally:
            self._idle = None
            over.set()

    async def close(self) -> None:
        """Have a checkpoint that is being made given up; returns when that is over."""
        self.archive.stop()
        if self._idle is not None:
            await self._idle.wait()


def refill(session: Session, archive: Archive) -> None:
    """Have a session hold its newest events again, where a checkpoint stood for them; reads, and blocks for as long.

    Raises:
        StoreFailure, SessionCorrupt, SessionNotFound: they cannot be read back.
    """
    first = max(0, len(session) - HELD // 2)
    if first < session.base:
        session.held[:0] = archive.read(first, session.base)
        session.base = first


async def checkpointed(making: Awaitable[bool], session_id: str) -> bool:
    """Wait until a checkpoint is made. Nothing depends on it, so a failure is told in the log of the program and no more."""
    try:
        return await making
    except (StoreFailure, SessionCorrupt, SessionNotFound) as error:
        LOGGER.warning(
            "session %s gets no checkpoint, and is read from further back at its resume: %s", session_id, error
        )
        return False
