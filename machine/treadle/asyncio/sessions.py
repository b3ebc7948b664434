"""The sessions of a host and of its store, from asyncio code."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..host.sessions import Sessions
from ..kernel.pending import Inbox
from ..session.log import Session, SessionHeader
from ..session.projections import Projection
from ..session.store import Listing, SessionStore, StoredSession
from ..words.events import Event
from .crossing import Crossing
from .reply import Reply

S = TypeVar("S")


class BridgedSessions:
    """The live sessions of the host, to be read only, and projections of live and stored ones (S9)."""

    __slots__ = ("_crossing", "_sessions")

    def __init__(self, crossing: Crossing, sessions: Sessions) -> None:
        self._crossing = crossing
        self._sessions = sessions

    @property
    def inbox(self) -> Projection[Inbox]:
        """The projection of the pending lists."""
        return self._sessions.inbox

    def get(self, session_id: str) -> Session | None:
        """See ``Sessions.get``, as of now."""
        return self._sessions.get(session_id)

    def list(self) -> builtins.list[Session]:
        """See ``Sessions.list``, as of now."""
        return self._sessions.list()

    def register_projection(
        self, name: str, initial: S | Callable[[], S], fold: Callable[[S, Event], S]
    ) -> Reply[Projection[S]]:
        """See ``Projections.register_projection``; the fold runs in the host's thread.

        Raises:
            MisuseError: from the reply: the name is taken, or the fold is no function.
            BridgeClosed: from the call: the bridge is not open.
        """
        return self._crossing.call(self._sessions.register_projection, name, initial, fold)

    def unregister_projection(self, projection: Projection[Any]) -> Reply[None]:
        """See ``Projections.unregister_projection``."""
        return self._crossing.call(self._sessions.unregister_projection, projection)

    def project(self, name: str, source: Session | Iterable[Event]) -> Reply[Any]:
        """See ``Projections.project``. Asked of the host's thread, which keeps the state it reached.

        Raises:
            MisuseError, SessionCorrupt: from the reply, as there.
            BridgeClosed: from the call: the bridge is not open.
        """
        return self._crossing.call(self._sessions.project, name, source)

    async def project_stored(self, name: str, session_id: str) -> Any:
        """See ``Sessions.project_stored``.

        Raises:
            NoStore, MisuseError, SessionNotFound, SessionCorrupt: as there.
            BridgeClosed: the bridge is not open, or was closed meanwhile.
        """
        return await self._crossing.run(self._sessions.project_stored, name, session_id)


class BridgedStore:
    """The host's store: what is kept, listed, read, forked and deleted. Agents are resumed through ``agents.resume``.

    Raises:
        SessionNotFound: the store has no such session.
        BridgeClosed: the bridge is not open, or was closed meanwhile.
        TreadleError: what else ``SessionStore`` says, with each method.
    """

    __slots__ = ("_crossing", "_store")

    def __init__(self, crossing: Crossing, store: SessionStore) -> None:
        self._crossing = crossing
        self._store = store

    async def list(self) -> Listing:
        """See ``SessionStore.list``."""
        return await self._crossing.run(self._store.list)

    async def open_read(self, session_id: str) -> StoredSession:
        """See ``SessionStore.open_read``."""
        return await self._crossing.run(self._store.open_read, session_id)

    async def inspect(self, session_id: str) -> StoredSession:
        """See ``SessionStore.inspect``."""
        return await self._crossing.run(self._store.inspect, session_id)

    async def revision(self, session_id: str) -> str:
        """See ``SessionStore.revision``."""
        return await self._crossing.run(self._store.revision, session_id)

    async def fork(self, session_id: str, new_id: str, upto: int | None = None) -> SessionHeader:
        """See ``SessionStore.fork``."""
        return await self._crossing.run(self._store.fork, session_id, new_id, upto)

    async def delete(self, session_id: str) -> None:
        """See ``SessionStore.delete``."""
        await self._crossing.run(self._store.delete, session_id)
