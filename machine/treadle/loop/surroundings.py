"""What the loop's factory needs of the host that it runs in, and nothing else of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from .services import Services

if TYPE_CHECKING:
    from ..agent.agent import Agent
    from ..agent.options import AgentOptions
    from ..hooks.points import StartSource
    from ..hooks.scope import Disposer, Scope
    from ..session.store import SessionStore
    from ..words.signal import Signal


class Presetting(Protocol):
    """Binds new agents to presets (O12)."""

    async def prepare(self, agent: Agent) -> None:
        """Bind a new agent to the preset that its session records."""
        ...


class ModelDefault(Protocol):
    """Names a model where an agent's options name none (O10)."""

    def fill(self, options: AgentOptions) -> AgentOptions:
        """The options with the selection filled in, where they name neither provider nor model."""
        ...


class Register(Protocol):
    """The live agents of a host, as their factory and their lives enter and leave it: see ``Agents`` for each part."""

    def check_free(self, id: str) -> None:
        """Raise ``DuplicateSession`` while an agent of that id is live (O2)."""
        ...

    def check_parent(self, parent: Agent) -> object:
        """Raise unless an agent may get children now (O6)."""
        ...

    def enter(self, agent: Agent, owner: Agent | None = None) -> Disposer:
        """Insert a prepared agent silently; returns what takes it out (O15)."""
        ...

    async def announce(self, agent: Agent, source: StartSource, signal: Signal | None = None) -> None:
        """Tell the created listeners of an entered agent, in order (O1, O15, O18)."""
        ...

    def adopt_child(self, parent: Agent, end: Callable[[bool], Awaitable[None]]) -> Disposer:
        """End a child by ``end`` when its parent ends; returns what takes that back (O6)."""
        ...

    def end_children(self, parent: Agent, keep_inbox: bool) -> list[Awaitable[None]]:
        """Begin the ends of an agent's children; returns them (O6)."""
        ...


class Surroundings(Services, Protocol):
    """A host, as the loop's factory sees it: see ``Host`` for what each part is."""

    store: SessionStore | None
    checks: bool
    cwd: str
    scope: Scope
    max_delegation_depth: int | None

    @property
    def agents(self) -> Register:
        """The live agents."""
        ...

    @property
    def presets(self) -> Presetting:
        """Binds new agents to the presets that their sessions record."""
        ...

    @property
    def default_model(self) -> ModelDefault:
        """Fills in the model where options name none."""
        ...
