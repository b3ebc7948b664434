"""Sessions in a database, where a file or a folder could be named: ``postgres://user@host/database#SESSION``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import trio

from treadle import Event, MisuseError
from treadle.agent import Membership
from treadle.session import SessionStore
from treadle_adapters.stores import is_database, open_store
from treadle_diagrams import SessionFile

from ..extras import extra_for

T = TypeVar("T")
Take = Callable[[Iterable[Event]], None]


def open_database(url: str) -> SessionStore:
    """The store that a URL names, without the session it may name.

    Raises:
        MisuseError: it is none.
        MissingExtra: the library is not installed.
    """
    with extra_for("sessions in PostgreSQL need", "postgres"):
        return open_store("postgres", url.partition("#")[0])


def replica_on(url: str, **options: Any) -> Membership:
    """A replica on the database that a URL names; ``options`` as ``Replica`` takes them.

    Raises:
        MisuseError: it is none.
        MissingExtra: the library is not installed.
    """
    with extra_for("replicas need", "postgres"):
        from treadle_adapters.cluster import Replica
    return Replica(url.partition("#")[0], **options)


def shown(where: str | Path) -> str:
    """What may be shown of where sessions are: of a URL neither name nor password (X1)."""
    if not is_database(where):
        return str(where)
    with extra_for("sessions in PostgreSQL need", "postgres"):
        from treadle_adapters.stores.postgres import Place
    return Place.of(str(where).partition("#")[0]).shown


def within(url: str, ask: Callable[[SessionStore], Awaitable[T]]) -> T:
    """Ask the store that a URL names, in a run of its own."""

    async def run() -> T:
        async with open_database(url) as store:
            return await ask(store)

    return trio.run(run)


async def session_in(store: SessionStore, url: str) -> str:
    """The id of the session that a URL names, of the newest one where it names none.

    Raises:
        MisuseError: there is none.
    """
    session = url.partition("#")[2]
    if session:
        return session
    listing = await store.list()
    if not listing.sessions:
        raise MisuseError(f"there is no session in {shown(url)}: name one, as in postgres://host/database#SESSION")
    return listing.sessions[0].header.id


def read_stored(url: str) -> SessionFile:
    """Read a session as far as possible, as ``read_file`` does.

    Raises:
        SessionNotFound: the database has no such session.
        SessionCorrupt: not even the header can be read.
        SessionFormatUnsupported: it is in another format (P5).
        StoreFailure: the database cannot be reached.
    """

    async def read(store: SessionStore) -> SessionFile:
        session = await session_in(store, url)
        stored = await store.inspect(session)
        place = Path(f"{shown(url)}#{session}")
        return SessionFile(place, stored.header, tuple(stored.events), None, stored.damage)

    return within(url, read)


def follow_stored(url: str, take: Take, pause: Callable[[], None]) -> None:
    """Give what is there of a session, then what comes, until interrupted; ``pause`` is called behind each part."""

    async def follow(store: SessionStore) -> None:
        from treadle_adapters.stores.postgres import PostgresStore

        assert isinstance(store, PostgresStore)
        async with store.follow(await session_in(store, url)) as coming:
            async for events in coming:
                take(events)
                pause()

    within(url, follow)
