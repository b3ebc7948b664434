"""A replica: an owner of sessions with a lease, among others like it (P2)."""

from __future__ import annotations

import contextlib
import logging
import zlib
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import trio

from treadle import Host, MisuseError, StoreFailure, TreadleError
from treadle.errors import LeaseLost
from treadle.session import WINDOW
from treadle_adapters.stores.postgres import SCHEMA, Link, PostgresStore, owner_here

from . import rows
from .guard import guard
from .lease import RunningLease
from .peers import Peers

LOGGER = logging.getLogger("treadle")
T = TypeVar("T")
Resume = Callable[[str], Awaitable[object]]

LEASE = 10.0
"""Seconds without a beat after which others take over: longer than a restart of the server, a beat and its margin."""
BEATS = 5
"""Beats in a lease."""
BATCH = 25
"""Sessions that are claimed in one statement."""
RESUMING = 8
"""Sessions that are resumed at once after a claim."""


class Replica:
    """Owns sessions in a database for as long as its lease runs, and takes over those of replicas that died.

    Enter it, and within it the host that drives the sessions::

        async with Replica(url, resume=resume) as replica, Host(store=replica.store) as host:
            replica.guard(host)

    A lease that is lost ends the block at once: it is cancelled, nothing that was not written yet is written any more,
    and ``LeaseLost`` is raised. Begin again with another replica: its id is never used twice.

    Args:
        url: the database, as ``PostgresStore`` takes it.
        lease: seconds without a beat after which others bury it.
        resume: called with the id of each session that was claimed from a dead replica, to go on with it, as by
            ``host.agents.resume``. Without it nothing is claimed; who opens a session of a dead replica gets it all the same.
        schema: see ``PostgresStore``.
        fsync: see ``PostgresStore``.
        patience: see ``PostgresStore``; as long as the lease unless given.
        window: see ``PostgresStore``.

    Attributes:
        store: the store whose sessions the replica owns.

    Raises:
        MisuseError: the URL is none, or the lease is not positive.
    """

    def __init__(
        self,
        url: str,
        *,
        lease: float = LEASE,
        resume: Resume | None = None,
        schema: str = SCHEMA,
        fsync: Literal["always", "flush", "never"] = "flush",
        patience: float | None = None,
        window: float = WINDOW,
    ) -> None:
        if not lease > 0:
            raise MisuseError(f"a lease is of some seconds, not {lease}")
        self.lease = RunningLease(owner_here(), lease)
        self.store = PostgresStore(
            url,
            schema=schema,
            fsync=fsync,
            patience=lease if patience is None else patience,
            window=window,
            lease=self.lease,
        )
        self._resume = resume
        self._interval = lease / BEATS
        self._peers = Peers(lease / 2)
        self._heart = self._bounded()
        self._eyes = self._bounded()
        self._threads = [trio.CapacityLimiter(1), trio.CapacityLimiter(1)]
        self._resuming = trio.CapacityLimiter(RESUMING)
        self._claimed: set[str] = set()
        self._nursery_manager: Any = None
        self._nursery: trio.Nursery | None = None

    def _bounded(self) -> Link:
        """A connection of its own: what the sessions do never holds it up; a silent server is given up in time."""
        return self.store.link(patience=self.lease.seconds / BEATS)

    @property
    def id(self) -> str:
        """Its id: nobody else has it, ever."""
        return self.lease.owner

    def check(self, session_id: str | None = None) -> None:
        """See that the replica may act now, before an effect outside the log, such as a frame to a client.

        Raises:
            LeaseLost: its lease was lost, or the session was taken over.
        """
        self.lease.check(session_id)

    def guard(self, host: Host) -> None:
        """Have the host's agents ask no model and run no tool body without the lease, and stop without it."""
        guard(host, self.lease)

    # --- its life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        asked = self.lease.clock()
        await self._heart.run(rows.register, self.id, self.lease.seconds)
        self.lease.renew(asked)
        self._nursery_manager = trio.open_nursery()
        self._nursery = nursery = await self._nursery_manager.__aenter__()
        for run in (self._beat, self._watch_deadline, self._watch_others):
            nursery.start_soon(run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()
        try:
            return await self._nursery_manager.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if self.lease.lost is not None and group.subgroup(LeaseLost) is not None:
                raise LeaseLost(f"the lease of this replica was lost: {self.lease.lost} (P2)") from group
            if list(group.exceptions) == [error]:
                return False  # it goes on as the block raised it
            raise
        finally:
            with trio.CancelScope(shield=True):
                await self._leave()

    async def _leave(self) -> None:
        try:
            await self._heart.run(rows.leave, self.id)
        except TreadleError as error:
            LOGGER.warning("replica %s could not say that it leaves; others find out by its beats: %s", self.id, error)
        self.lease.end("the replica has left")
        for each in (self._heart, self._eyes, self.store):
            await each.close()

    async def _ask(self, link: Link, function: Callable[..., T], *args: Any) -> T:
        """Ask in a thread that no other work of the process can take."""
        limiter = self._threads[0 if link is self._heart else 1]
        return await trio.to_thread.run_sync(lambda: link.call(function, *args), limiter=limiter)

    # --- living -------------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        while True:
            await trio.sleep(self._interval)
            await self.beat()

    async def beat(self) -> None:
        """Say that the replica lives. A database that does not answer is asked again; the deadline goes on.

        Raises:
            LeaseLost: it was buried.
        """
        asked = self.lease.clock()
        try:
            living = await self._ask(self._heart, rows.beat, self.id)
        except StoreFailure as error:
            LOGGER.warning("replica %s could not beat: %s", self.id, error)
            return
        if not living:
            self.lease.end("others have taken it for dead")
            self.lease.check()
        self.lease.renew(asked)

    async def _watch_deadline(self) -> None:
        while True:
            self.lease.check()
            await trio.sleep(max(0.01, min(self._interval, self.lease.deadline - self.lease.clock())))

    # --- the others ---------------------------------------------------------------------------------------------------

    async def _watch_others(self) -> None:
        pace = 0.7 + 0.6 * zlib.crc32(self.id.encode()) / 2**32  # so that all do not look at once
        while True:
            await trio.sleep(self._interval * pace)
            try:
                await self.look()
            except StoreFailure as error:
                LOGGER.warning("replica %s could not look at the others: %s", self.id, error)

    async def look(self) -> None:
        """Look at the beats of the others, bury who has none, and claim what the dead have left behind.

        Raises:
            StoreFailure: the database cannot be reached.
        """
        beats = await self._ask(self._eyes, rows.seen)
        for replica, beat in self._peers.look(self.lease.clock(), beats):
            if replica != self.id and await self._ask(self._eyes, rows.bury, replica, beat):
                LOGGER.warning("replica %s has buried %s", self.id, replica)
        if self._resume is None:
            return
        for dead in await self._ask(self._eyes, rows.left_behind):
            while claimed := await self._claim(dead):
                LOGGER.warning("replica %s has claimed %d sessions of %s", self.id, len(claimed), dead)
                for session_id, epoch in claimed.items():
                    self._adopt(session_id, epoch)

    async def _claim(self, dead: str) -> rows.Claimed:
        """Claim a batch. If an answer was lost, what is owned and not known here was in it."""
        asked: list[None] = []

        def claim(conn: Any) -> rows.Claimed:
            asked.append(None)
            claimed = rows.claim(conn, self.id, dead, BATCH)
            if len(asked) == 1:
                return claimed
            known = self._claimed | set(self.store.open_sessions)
            return {name: epoch for name, epoch in rows.owned(conn, self.id).items() if name not in known}

        return await self._ask(self._eyes, claim)

    def _adopt(self, session_id: str, epoch: int) -> None:
        assert self._nursery is not None
        self._claimed.add(session_id)
        self.lease.owned(session_id)
        self._nursery.start_soon(self._go_on, session_id, epoch)

    async def _go_on(self, session_id: str, epoch: int) -> None:
        """Have a claimed session resumed; one that cannot be is let go of, for another replica or another day."""
        assert self._resume is not None
        try:
            async with self._resuming:
                await self._resume(session_id)
        except Exception:
            LOGGER.exception("replica %s could not resume session %s, and lets go of it", self.id, session_id)
            with contextlib.suppress(StoreFailure):  # it stays this replica's, and is free to its own store
                await self._ask(self._eyes, rows.release, session_id, epoch)
        finally:
            self._claimed.discard(session_id)

    def __repr__(self) -> str:
        return f"<Replica {self.id} on {self.store.place.shown}>"
