"""The sessions of a host: live ones, and projections of live and stored ones (S9)."""

from __future__ import annotations

from typing import Any

from ..errors import NoStore
from ..session.log import Session
from ..session.projections import Projections
from ..session.store import SessionStore
from .registry import Agents


class Sessions(Projections):
    """Knows the sessions that agents drive, and registers projections."""

    def __init__(self, agents: Agents, store: SessionStore | None) -> None:
        super().__init__()
        self._agents = agents
        self._store = store

    def get(self, session_id: str) -> Session | None:
        """The session of a live agent, ``None`` when no agent of that id is live."""
        agent = self._agents.get(session_id)
        return agent.session if agent is not None else None

    def list(self) -> list[Session]:
        """The sessions of all live agents, in the order of registration."""
        return [agent.session for agent in self._agents.list()]

    async def project_stored(self, name: str, session_id: str) -> Any:
        """The state of a projection over a stored session; no agent is started, no byte changed (S9, P3).

        Raises:
            NoStore: the host has no store.
            MisuseError: no projection has that name.
            SessionNotFound: the store has no such session.
            SessionCorrupt: it cannot be read, or the fold failed.
        """
        if self._store is None:
            raise NoStore("the host has no store to read sessions from (O13); give it one: Host(store=…)")
        stored = await self._store.open_read(session_id)
        return self.project(name, stored.events)
