"""A host that is one of many, which drive the sessions of one store together (P2)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..session.store import SessionStore


class Membership(Protocol):
    """Makes a host one of many; ``Host(replica=…)``. ``treadle_adapters.cluster.Replica`` is one."""

    @property
    def store(self) -> SessionStore:
        """Where sessions are kept, as those of this host while it is a member."""
        ...

    def joined(self, host: Any) -> AbstractAsyncContextManager[None]:
        """Be a member for as long as the context lasts: entered before the host runs, left when its agents have ended.

        Membership that is lost cancels the body and is raised when it is left.
        """
        ...
