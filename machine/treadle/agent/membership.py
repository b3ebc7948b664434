"""A host that is one of many, which drive the sessions of one store together (P2, A1–A6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..hooks.points import ToolProposal
    from ..session.store import SessionStore
    from ..words.events import Target
    from ..words.messages import UserMessage


class Sent(Protocol):
    """A message that is on record, wherever it is to be taken."""

    @property
    def fresh(self) -> bool:
        """Whether it was not there before."""
        ...


class Reached(Protocol):
    """An agent, wherever it is: what ``treadle_adapters.cluster.AgentRef`` has, and more."""

    async def send(self, message: UserMessage | str, target: Target, wakeup: bool) -> Sent:
        """Deliver a message, durably and once, as ``Agent.send`` does (A1).

        Raises:
            TreadleError: it cannot be accepted.
        """
        ...

    async def cancel(self, *, keep_inbox: bool = False) -> None:
        """Stop the current activity, as ``Agent.cancel`` does; taken when this returns.

        Raises:
            TreadleError: that cannot be accepted.
        """
        ...


class Membership(Protocol):
    """Makes a host one of many; ``Host(replica=…)``. ``treadle_adapters.cluster.Replica`` is one."""

    @property
    def store(self) -> SessionStore:
        """Where sessions are kept, as those of this host while it is a member."""
        ...

    @property
    def approver(self) -> Callable[[ToolProposal, str], Awaitable[bool]]:
        """Answers hooks that ask where the host has no approver (K2); whoever serves people may take its place."""
        ...

    def agent(self, session_id: str) -> Reached:
        """The agent of a session, wherever it is.

        Raises:
            MisuseError: the id is none.
        """
        ...

    def joined(self, host: Any) -> AbstractAsyncContextManager[None]:
        """Be a member for as long as the context lasts: entered before the host runs, left when its agents have ended.

        Membership that is lost cancels the body and is raised when it is left.
        """
        ...

    async def drain(self, seconds: float) -> None:
        """Go out of service before the host is left: take no further session, let running turns end (A6).

        Args:
            seconds: how long they may take.
        """
        ...
