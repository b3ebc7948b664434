"""The sessions of a host: live ones, and projections of live and stored ones (S9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import NoStore
from .session.log import Session
from .session.projections import Projections

if TYPE_CHECKING:
    from .host import Host


class Sessions(Projections):
    """Knows the sessions that agents drive, and registers projections."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host

    def get(self, session_id: str) -> Session | None:
        """The session of a live agent, ``None`` when no agent of that id is live."""
        agent = self._host.agents.get(session_id)
        return agent.session if agent is not None else None

    def list(self) -> list[Session]:
        """The sessions of all live agents, in the order of registration."""
        return [agent.session for agent in self._host.agents.list()]

    async def project_stored(self, name: str, session_id: str) -> Any:
        """The state of a projection over a stored session; no agent is started, no byte changed (S9, P3).

        Raises:
            NoStore: the host has no store.
            MisuseError: no projection has that name.
            SessionNotFound: the store has no such session.
            SessionCorrupt: it cannot be read, or the fold failed.
        """
        if self._host.store is None:
            raise NoStore("the host has no store to read sessions from (O13); give it one: Host(store=…)")
        stored = await self._host.store.open_read(session_id)
        return self.project(name, stored.events)
