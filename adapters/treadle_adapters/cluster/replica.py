"""A replica: an owner of sessions with a lease, among others like it (P2)."""

from __future__ import annotations

import logging
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import trio

from treadle import Agent, AgentHandle, AgentOptions, Host, MisuseError, StoreFailure, TreadleError
from treadle.agent import Setup
from treadle.errors import LeaseLost
from treadle.hooks import AGENT_CREATED
from treadle.session import WINDOW
from treadle_adapters.stores.postgres import SCHEMA, Link, PostgresStore, owner_here

from . import rows
from .guard import guard
from .heir import Heir, Resume
from .lease import RunningLease
from .mailbox import AgentRef, Approvals, Carrier, Post, wake_parked
from .peers import Peers

LOGGER = logging.getLogger("treadle")
T = TypeVar("T")

LEASE = 10.0
"""Seconds without a beat after which others take over: longer than a restart of the server, a beat and its margin."""
BEATS = 5
"""Beats in a lease."""


class Replica:
    """Owns sessions in a database for as long as its lease runs, and takes over those of replicas that died.

    The shortest way is ``Host(replica=Replica(url))``. Otherwise enter it, and within it the host that drives the sessions::

        async with Replica(url, resume=resume) as replica, Host(store=replica.store) as host:
            replica.attach(host)

    Whatever is asked by ``agent`` of any replica reaches the session here: see ``AgentRef``. A lease that is lost ends the block at once: it is cancelled, nothing that was not written yet is written any more,
    and ``LeaseLost`` is raised. Begin again with another replica: its id is never used twice.

    Args:
        url: the database, as ``PostgresStore`` takes it.
        lease: seconds without a beat after which others bury it.
        resume: called with the id of each session that was claimed from a dead replica, or for which a letter waits while
            nobody owns it, to go on with it, as by ``host.agents.resume``; if it returns the handle, the agent can be ended
            from any replica, and goes on with what waits for turns. Without it nothing is claimed, but for what ``Host(replica=…)`` says; who opens a session of a
            dead replica gets it all the same.
        agent_options: the options of agents that are resumed where ``resume`` is not given; the log's unless given.
        setup: as ``Agents.resume`` takes it, for the same.
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
        agent_options: AgentOptions | None = None,
        setup: Setup | None = None,
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
        self._agent_options = agent_options
        self._setup = setup
        self.post = Post(self.store, self.id, lambda session: self._carrier.here(session))
        self._carrier = Carrier(self.store, self.lease, self.post, self._bounded())
        self._resume: Resume | None = None
        if resume is not None:
            self._resume_by(resume)
        self._host: Host | None = None
        self._draining = False
        self._interval = lease / BEATS
        self._peers = Peers(lease / 2)
        self._heart = self._bounded()
        self._eyes = self._bounded()
        self._heir = Heir(self.lease, self.store, partial(self._ask, self._eyes))
        self._threads = [trio.CapacityLimiter(1), trio.CapacityLimiter(1)]
        self._nursery_manager: Any = None
        self._nursery: trio.Nursery | None = None

    def _bounded(self) -> Link:
        """A connection of its own: what the sessions do never holds it up; a silent server is given up in time."""
        return self.store.link(patience=self.lease.seconds / BEATS)

    @property
    def id(self) -> str:
        """Its id: nobody else has it, ever."""
        return self.lease.owner

    @property
    def approver(self) -> Approvals:
        """Answers hooks that ask, by ``AgentRef.approve`` (K2)."""
        return self._carrier.approvals

    def check(self, session_id: str | None = None) -> None:
        """See that the replica may act now, before an effect outside the log, such as a frame to a client.

        Raises:
            LeaseLost: its lease was lost, or the session was taken over.
        """
        self.lease.check(session_id)

    def attach(self, host: Host) -> None:
        """Have the host's agents act only while the lease runs, and take the letters of their sessions.

        They ask no model and run no tool body without the lease, and stop without it. Calls that ask for approval are
        answered by ``AgentRef.approve``, unless the host has an approver.
        """
        guard(host, self.lease)
        self._host = host
        self._carrier.attach(host)
        host.on(AGENT_CREATED, lambda made: made.agent.scope.defer(partial(self._ending, made.agent)))

    def agent(self, session_id: str) -> AgentRef:
        """The agent of a session, to be spoken to from here, whether its owner is here, elsewhere, or nobody yet.

        Raises:
            MisuseError: the id is none.
        """
        return self.post.agent(session_id)

    def hold(self, handle: AgentHandle) -> None:
        """Have an agent that was made here ended by ``AgentRef.dispose`` and at the drain, as those that were resumed."""
        self._carrier.handles[handle.agent.id] = handle

    async def take(self, session_id: str) -> None:
        """Own a session and resume it, if nobody owns it who lives; nothing if it is open here.

        Raises:
            MisuseError: this replica has no host, or takes no session any more.
            SessionLocked: another replica owns it.
            SessionNotFound: there is no such session.
            StoreFailure: the database cannot be reached.
        """
        if self._resume is None or self._draining:
            raise MisuseError(f"replica {self.id} takes no sessions: give it a host, and do not drain it")
        if session_id not in self.store.open_sessions:
            await self._resume(session_id)

    async def give(self, session_id: str, seconds: float) -> bool:
        """Let go of a session, with all that is pending, once its agent is at rest.

        Args:
            session_id: the session.
            seconds: how long its turn may take, on the clock of the program.

        Returns:
            Whether it was let go of: ``False`` if it is not open here, its agent is not the replica's to end, or its turn
            took longer and goes on.
        """
        agent = self._host.agents.get(session_id) if self._host is not None else None
        if agent is None or session_id not in self._carrier.handles:
            return False
        if agent.status != "idle":
            with trio.move_on_after(seconds) as waiting:
                await agent.when_idle()
            if waiting.cancelled_caught:
                return False
        await self._at_rest(agent)
        return True

    # --- a host of its own --------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def joined(self, host: Host) -> AsyncGenerator[None]:
        """What ``Host(replica=…)`` does: entered before its agents are, left when they have ended."""

        async def resume(session_id: str) -> AgentHandle:
            return await host.agents.resume(session_id, agent_options=self._agent_options, setup=self._setup)

        if self._resume is None:
            self._resume_by(resume)
        async with self:
            self.attach(host)
            yield

    def _resume_by(self, resume: Resume) -> None:
        async def resumed(session_id: str) -> None:
            handle = await resume(session_id)
            if isinstance(handle, AgentHandle):
                self.hold(handle)
                wake_parked(handle.agent)

        self._resume = self._carrier.resume = resumed

    async def drain(self, seconds: float) -> None:
        """Go out of service: take no further session, let running turns end for so long, let go of what is at rest.

        To be followed by leaving the host and the replica, which parks what is left: turns that still run are stopped,
        what is pending is kept, and others go on with the sessions at the next that is asked of them.

        Args:
            seconds: how long turns may take, on the clock of the program.
        """
        self._draining = self._carrier.resting = self._heir.resting = True
        host = self._host
        if host is None:
            return
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for agent in host.agents.roots():
                    nursery.start_soon(self._at_rest, agent)

    def _ending(self, agent: Agent) -> None:
        """What waits for a turn when the replica goes out of service is gone on with by whoever claims the session."""
        if self._draining and agent.inbox.next_turn:
            self.store.leave_owned(agent.id)

    async def _at_rest(self, agent: Agent) -> None:
        """Wait until an agent is at rest, and end it if that is the replica's."""
        await agent.when_idle()
        handle = self._carrier.handles.get(agent.id)
        if handle is not None:
            with trio.CancelScope(shield=True):
                await handle.dispose(keep_inbox=True)

    # --- its life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        asked = self.lease.clock()
        await self._heart.run(rows.register, self.id, self.lease.seconds)
        self.lease.renew(asked)
        self._nursery_manager = trio.open_nursery()
        self._nursery = nursery = await self._nursery_manager.__aenter__()
        for run in (self._beat, self._watch_deadline, self._watch_others, self.post.run, self._carrier.run):
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
        for each in (self._heart, self._eyes, self._carrier, self.post, self.store):
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
        if self._resume is None or self._draining or (self._host is not None and not self._host.running):
            return
        left = await self._ask(self._eyes, rows.left_behind)
        assert self._nursery is not None
        self._heir.take_over(left, self._resume, self._nursery)

    def __repr__(self) -> str:
        return f"<Replica {self.id} on {self.store.place.shown}>"
