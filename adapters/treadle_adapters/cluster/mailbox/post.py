"""The sender's side: accepts what is asked of any session in one commit, and finds out what came of it.

The database is the truth. Whoever owns the session is told of a letter, and tells of what it writes; both may be lost, so
both sides also look by themselves.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import psycopg
import trio
from attrs import define, field

from treadle import Event, StoreFailure
from treadle.session import new_id, session_id
from treadle_adapters.stores.postgres import Connection, PostgresStore, news

from . import rows
from .asked import Asked, digest_of, encode
from .live import Follower
from .ref import AgentRef
from .wires import LOOK, Ears, Teller, channel_of

T = TypeVar("T")


@define(eq=False)
class Waiter:
    """Somebody who waits for a session to be written."""

    _written: trio.Event = field(factory=trio.Event)

    def wake(self) -> None:
        """It was written."""
        self._written.set()

    async def wait(self) -> bool:
        """Wait until it was written, or for the time after which one looks anyway; returns whether it was."""
        with trio.move_on_after(LOOK):
            await self._written.wait()
        told, self._written = self._written.is_set(), trio.Event()
        return told


class Post:
    """Reaches the agents of all sessions of a database, wherever they are. Use it as an async context manager.

    A program that owns no sessions has one by itself; a ``Replica`` has one of its own.

    Args:
        store: the database.
        me: the id of this process; made up unless given.
        here: called with a session that this process owns, or nobody, when a letter waits for it; returns whether it is
            seen to here.

    Attributes:
        channel: where this process is told something.
        heard: given what else is told there, as words.
    """

    def __init__(self, store: PostgresStore, me: str | None = None, here: Callable[[str], bool] | None = None) -> None:
        self.store = store
        self.me = me if me is not None else new_id()
        self.channel = channel_of(self.me)
        self.heard: Callable[[list[str]], None] | None = None
        self._here = here
        self._link = store.link()
        self._teller = Teller(store)
        self._ears = Ears(store, self.channel, self._hear)
        self._followers: dict[str, set[Follower]] = {}
        self._waiters: dict[str, set[Waiter]] = {}
        self._nursery: trio.Nursery | None = None
        self._nursery_manager: Any = None

    def agent(self, id: str) -> AgentRef:
        """The agent of a session, to be spoken to from here wherever it is.

        Raises:
            MisuseError: the id is none.
        """
        return AgentRef(self, session_id(id))

    # --- its life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._nursery_manager = trio.open_nursery()
        self._nursery = nursery = await self._nursery_manager.__aenter__()
        nursery.start_soon(self.run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()
        try:
            await self._nursery_manager.__aexit__(None, None, None)
        finally:
            await self.close()
        return None

    async def run(self) -> None:
        """Hear what this process is told, until cancelled. For who does not enter it."""
        await self._ears.run()

    async def close(self) -> None:
        """Close its connections."""
        with trio.CancelScope(shield=True):
            for each in (self._ears, self._teller, self._link):
                await each.close()

    # --- asking -------------------------------------------------------------------------------------------------------

    async def accept(self, session: str, id: str, asked: Asked) -> rows.Accepted:
        """Put something into the mailbox of a session; it is durable when this returns, and will be taken once.

        Raises:
            SessionNotFound: there is no such session.
            DuplicateMessage: something else was asked under that id.
            StoreFailure: the database cannot be reached; whether it was accepted is not known: ask the same again.
        """
        letter = encode(asked)

        def put(conn: Connection) -> rows.Accepted:
            accepted = rows.accept(conn, session, id, digest_of(letter), letter)
            if not accepted.taken and accepted.owner not in (None, self.me):
                with suppress(psycopg.Error):  # it is accepted, and who waits looks by himself
                    rows.notify(conn, [(channel_of(accepted.owner), self._letter(session))])
            return accepted

        accepted = await self._link.run(put)
        if not accepted.taken and accepted.owner in (None, self.me):
            await self._knock(session, accepted.owner)
        return accepted

    def _letter(self, session: str) -> str:
        return f"letter {session} {self.channel}"

    async def _knock(self, session: str, owner: str | None) -> None:
        """Have whoever owns a session, or would, look into its mailbox."""
        if owner in (None, self.me) and self._here is not None and self._here(session):
            return
        if owner is None:
            try:
                owner = await self._link.run(rows.some_replica, self.me)
            except StoreFailure:
                owner = None  # all look by themselves
        if owner is not None:
            self.tell(channel_of(owner), self._letter(session))

    async def answer(self, session: str, id: str) -> tuple[int, str]:
        """Wait until a letter was taken; returns the number of the event that records it, and what it came to."""
        async with self._waiting(session) as waiter:
            while (found := await self._patiently(rows.answer, session, id)) is None:
                if not await waiter.wait():
                    await self._knock(session, await self.owner(session))
            return found

    async def events(self, session: str, first: int) -> AsyncGenerator[Event]:
        """See ``AgentRef.events``."""
        async with self._waiting(session) as waiter:
            while True:
                found = await self._patiently(news, session, first, self.store.place.shown)
                first += len(found)
                for entry in found:
                    yield entry
                if not found and not await waiter.wait():
                    owner = await self.owner(session)
                    if owner is not None and owner != self.me:
                        self.tell(channel_of(owner), f"watch {session} {self.channel}")

    async def owner(self, session: str) -> str | None:
        """Who owns a session and lives, ``None`` for nobody.

        Raises:
            SessionNotFound: it is not there.
        """
        return await self._patiently(rows.owner, session)

    async def _patiently(self, function: Callable[..., T], *args: Any) -> T:
        """Ask the database, again and again for as long as it is away."""
        while True:
            await trio.lowlevel.checkpoint_if_cancelled()
            try:
                return await self._link.run(function, *args)
            except StoreFailure:
                await trio.sleep(LOOK)

    # --- telling and hearing ------------------------------------------------------------------------------------------

    def tell(self, channel: str, word: str) -> None:
        """Tell a channel a word soon; one's own at once."""
        if channel == self.channel:
            self._hear(word)
        else:
            self._teller.tell(channel, word)

    def written(self, session: str) -> None:
        """A session was written: wake who waits for it here."""
        for waiter in self._waiters.get(session, ()):
            waiter.wake()

    def _hear(self, word: str) -> None:
        kind, _, rest = word.partition(" ")
        if kind == "written":
            self.written(rest)
        elif kind == "live":
            session, _, piece = rest.partition(" ")
            for follower in self._followers.get(session, ()):
                follower.take(piece)
        elif self.heard is not None:
            self.heard(word.split(" "))

    @asynccontextmanager
    async def _waiting(self, session: str) -> AsyncGenerator[Waiter]:
        waiter = Waiter()
        self._waiters.setdefault(session, set()).add(waiter)
        try:
            yield waiter
        finally:
            _leave(self._waiters, session, waiter)

    @contextmanager
    def follower(self, session: str, follower: Follower) -> Generator[None]:
        """Have a follower of a session given what its owner tells."""
        self._followers.setdefault(session, set()).add(follower)
        try:
            yield
        finally:
            _leave(self._followers, session, follower)


def _leave(table: dict[str, set[T]], session: str, one: T) -> None:
    table[session].discard(one)
    if not table[session]:
        del table[session]
