"""Takes over what the dead have left behind, as fast as it is resumed (P2)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import trio

from treadle import DuplicateSession, StoreFailure
from treadle_adapters.stores.postgres import PostgresStore

from . import rows
from .lease import RunningLease
from .peers import in_turn

LOGGER = logging.getLogger("treadle")
T = TypeVar("T")
Resume = Callable[[str], Awaitable[object]]
BATCH = 25
"""Sessions that are claimed in one statement."""
RESUMING = 8
"""Sessions that are resumed at once after a claim."""


class Ask(Protocol):
    """Runs a function of statements in a thread, on a connection for this alone."""

    async def __call__(self, function: Callable[..., T], *args: Any) -> T:
        """See there."""
        ...


class Heir:
    """Claims sessions of dead replicas, and has them resumed.

    A batch is claimed when fewer sessions than are resumed at once are left of those before: what is slow here is left for
    the others, who come by with each of their looks.

    Args:
        lease: of the replica that takes over.
        store: its store.
        ask: asks the database.

    Attributes:
        resting: whether nothing is claimed any more.
    """

    def __init__(self, lease: RunningLease, store: PostgresStore, ask: Ask) -> None:
        self._lease = lease
        self._store = store
        self._ask = ask
        self._resuming = trio.CapacityLimiter(RESUMING)
        self._claimed: set[str] = set()
        self._room = trio.lowlevel.ParkingLot()
        self._busy = False
        self.resting = False

    def take_over(self, left: list[str], resume: Resume, nursery: trio.Nursery) -> None:
        """Begin to take over what these have left behind, unless it is under way still."""
        if left and not self._busy:
            self._busy = True
            nursery.start_soon(self._take_over, in_turn(self._lease.owner, left), resume, nursery)

    async def _take_over(self, left: list[str], resume: Resume, nursery: trio.Nursery) -> None:
        try:
            for dead in left:
                count = BATCH
                while count == BATCH:  # the last batch is not full
                    while len(self._claimed) >= RESUMING:
                        await self._room.park()
                    if self.resting:
                        return
                    claimed = await self._claim(dead)
                    count = len(claimed)
                    for session_id, epoch in claimed.items():
                        self._claimed.add(session_id)
                        self._lease.owned(session_id)
                        nursery.start_soon(self._go_on, session_id, epoch, resume)
                    if claimed:
                        LOGGER.warning("replica %s has claimed %d sessions of %s", self._lease.owner, count, dead)
        except StoreFailure as error:
            LOGGER.warning("replica %s could not claim sessions: %s", self._lease.owner, error)
        finally:
            self._busy = False

    async def _claim(self, dead: str) -> rows.Claimed:
        """Claim a batch. If an answer was lost, what is owned and not known here was in it."""
        me, asked = self._lease.owner, list[None]()

        def claim(conn: Any) -> rows.Claimed:
            asked.append(None)
            claimed = rows.claim(conn, me, dead, BATCH)
            if len(asked) == 1:
                return claimed
            known = self._claimed | set(self._store.open_sessions)
            return {name: epoch for name, epoch in rows.owned(conn, me).items() if name not in known}

        return await self._ask(claim)

    async def _go_on(self, session_id: str, epoch: int, resume: Resume) -> None:
        """Have a claimed session resumed; one that cannot be is let go of, for another replica or another day."""
        try:
            async with self._resuming:
                await resume(session_id)
        except DuplicateSession:
            return  # a letter for it was faster
        except Exception:
            LOGGER.exception("replica %s could not resume session %s, and lets go of it", self._lease.owner, session_id)
            with contextlib.suppress(StoreFailure):  # it stays this replica's, and is free to its own store
                await self._ask(rows.release, session_id, epoch)
        finally:
            self._claimed.discard(session_id)
            self._room.unpark_all()
