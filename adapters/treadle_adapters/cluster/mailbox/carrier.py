"""The owner's side: takes letters into the sessions that this replica owns, and has those resumed that nobody owns."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio
from attrs import define

from treadle import AgentHandle, DuplicateSession, Host, SessionLocked, StoreFailure
from treadle.errors import LeaseLost
from treadle.hooks import AGENT_CREATED, AGENT_DISPOSED
from treadle_adapters.approvals import Approvals
from treadle_adapters.stores.postgres import Lease, Link, PostgresStore

from . import rows
from .asked import decode
from .live import Stage
from .post import Post
from .taking import take
from .wires import LOOK

LOGGER = logging.getLogger("treadle")
WATCHED = 10.0
"""Seconds for which somebody who waits for a session is told that it was written."""
OPENING = 8
"""Sessions that are resumed at once for their letters."""
PAUSES = (1.0, 5.0, 30.0, 120.0)
"""Seconds until a session that could not be resumed is tried again; the last one repeats."""


_Known = tuple[str, int, str]
"""A letter: its session, the epoch under which it was taken, its id."""


@define
class _Failing:
    again: float
    times: int = 1


class Carrier:
    """Carries letters into sessions.

    Args:
        store: the sessions that this replica owns.
        lease: says whether it may act.
        post: what it hears and tells by.
        link: a connection of its own.
        resume: resumes the agent of a session; ``None`` where this replica takes none.

    Attributes:
        host: the agents, once there is a host.
        resume: see there.
        handles: those that end agents which were resumed here.
        resting: whether no session is taken any more.
    """

    def __init__(
        self,
        store: PostgresStore,
        lease: Lease,
        post: Post,
        link: Link,
        resume: Callable[[str], Awaitable[object]] | None = None,
    ) -> None:
        self.host: Host | None = None
        self.handles: dict[str, AgentHandle] = {}
        self.resting = False
        self.approvals = Approvals(self._asks)
        self._store = store
        self._lease = lease
        self._post = post
        self._link = link
        self.resume = resume
        self._stage = Stage(self.approvals, post.tell)
        self._watchers: dict[str, dict[str, float]] = {}
        self._names: set[str] = set()
        self._knocked = trio.Event()
        self._under_way: set[_Known] = set()
        self._taken: set[_Known] = set()
        self._opening: set[str] = set()
        self._failing: dict[str, _Failing] = {}
        self._room = trio.CapacityLimiter(OPENING)
        self._nursery: trio.Nursery | None = None
        post.heard = self._hear
        store.listener = self._written

    def attach(self, host: Host) -> None:
        """Carry letters to the agents of a host, which answer calls that ask for approval unless it has an approver."""
        self.host = host
        if host.approver is None:
            host.approver = self.approvals
        self._stage.attach(host)
        host.on(AGENT_CREATED, lambda told: self.knock(told.agent.id))
        host.on(AGENT_DISPOSED, lambda told: self.handles.pop(told.agent.id, None))

    # --- what is heard and told ---------------------------------------------------------------------------------------

    def _hear(self, words: list[str]) -> None:
        kind, session, channel = words[0], words[1], words[2]
        if kind == "follow":
            attempt = None if words[3] == "-" else words[3]
            self._stage.follow(session, channel, attempt, int(words[4]))
            return
        self._watchers.setdefault(session, {})[channel] = trio.current_time() + WATCHED
        if kind == "letter" and not self.here(session):
            self.knock(session)

    def _asks(self, session: str) -> None:
        self._stage.changed(session)

    def _written(self, sessions: list[str]) -> None:
        """Sessions were written: tell who waits for them."""
        for session in sessions:
            self._post.written(session)
            watchers = self._watchers.get(session)
            if watchers is None:
                continue
            for channel, until in list(watchers.items()):
                if trio.current_time() > until:
                    del watchers[channel]
                else:
                    self._post.tell(channel, f"written {session}")
            if not watchers:
                del self._watchers[session]

    # --- carrying -----------------------------------------------------------------------------------------------------

    def here(self, session: str) -> bool:
        """A letter waits for a session that this replica owns, or nobody; returns whether it is seen to here."""
        if self.host is None:
            return False
        if self._store.epoch(session) is not None:
            self.knock(session)
            return True
        return self._open_soon(session)

    def knock(self, session: str) -> None:
        """Look soon for letters to a session."""
        self._names.add(session)
        self._knocked.set()

    async def run(self) -> None:
        """Carry, until cancelled."""
        look_at_all = 0.0
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._stage.run)
            while True:
                with trio.move_on_at(look_at_all):
                    await self._knocked.wait()
                names, self._names, self._knocked = self._names, set[str](), trio.Event()
                whole = trio.current_time() >= look_at_all
                try:
                    await self._carry(None if whole else names)
                except StoreFailure:
                    LOGGER.warning("letters could not be read; they wait", exc_info=True)
                    whole = True
                if whole:
                    look_at_all = trio.current_time() + LOOK

    async def _carry(self, sessions: set[str] | None) -> None:
        """Take the letters that wait for some sessions, or for all and then for those that nobody owns."""
        more = self.host is not None
        while more:
            over = set(self._taken)
            found = await self._link.run(rows.waiting, self._lease.owner, sessions, len(self._under_way))
            fresh = [each for each in found if (each.session, each.epoch, each.id) not in self._under_way]
            took = [each.session for each in fresh if self._take(each)]
            self._under_way -= over  # what is read from now on was read after these were taken
            self._taken -= over
            for session in dict.fromkeys(took):
                assert self._nursery is not None
                self._nursery.start_soon(self._write, session)
            more = bool(took) and len(fresh) >= rows.AT_ONCE
        if sessions is not None:
            return
        self._under_way = {each for each in self._under_way if self._store.epoch(each[0]) == each[1]}
        if not self.resting:
            for session in await self._link.run(rows.unowned, self._lease.owner):
                if self._store.epoch(session) is None:
                    self._open_soon(session)

    def _take(self, waiting: rows.Waiting) -> bool:
        """Take a letter, if the session is open here under that epoch; returns whether it was taken."""
        host, session = self.host, waiting.session
        agent = host.agents.get(session) if host is not None else None
        if agent is None or self._store.epoch(session) != waiting.epoch:
            return False
        try:
            self._lease.check(session)
            asked = decode(waiting.letter)
        except LeaseLost:
            return False
        except ValueError:
            LOGGER.warning("a letter to session %s is not understood here, and waits for a newer replica", session)
            return False
        known = (session, waiting.epoch, waiting.id)

        def taken() -> None:
            self._taken.add(known)

        handle = self.handles.get(session)
        done = take(agent, handle, self.approvals, waiting.id, asked, self._store.take_letter, taken)
        if done:
            self._under_way.add(known)
        return done

    async def _write(self, session: str) -> None:
        """Have a letter taken now, and not when the window of the write path ends."""
        try:
            await self._store.written(session)
        except (StoreFailure, SessionLocked):
            return  # the write path tells of it; the letter waits for as long as its record is not written

    async def close(self) -> None:
        """Close its connection; nobody runs any more."""
        await self._link.close()

    # --- sessions that nobody owns ------------------------------------------------------------------------------------

    def _open_soon(self, session: str) -> bool:
        if self._nursery is None or self.resting or self.resume is None or self.host is None or not self.host.running:
            return False
        failing = self._failing.get(session)
        if failing is not None and trio.current_time() < failing.again:
            return False
        if session not in self._opening:
            self._opening.add(session)
            self._nursery.start_soon(self._open, session)
        return True

    async def _open(self, session: str) -> None:
        """Resume a session, unless somebody else was faster."""
        try:
            async with self._room:
                assert self.resume is not None
                await self.resume(session)
            self._failing.pop(session, None)
        except (SessionLocked, DuplicateSession):
            pass
        except Exception:
            known = self._failing.get(session)
            times = known.times if known is not None else 0
            again = trio.current_time() + PAUSES[min(times, len(PAUSES) - 1)]
            self._failing[session] = _Failing(again, times + 1)
            LOGGER.exception("letters wait for session %s, which could not be resumed here", session)
        finally:
            self._opening.discard(session)
