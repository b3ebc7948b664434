"""What the loop's factory needs of the host that it runs in, and nothing else of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .shared import Services

if TYPE_CHECKING:
    from .agent import Agent
    from .options import AgentOptions
    from .registry import Agents
    from .scope import Scope
    from .session.store import SessionStore


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


class Surroundings(Services, Protocol):
    """A host, as the loop's factory sees it: see ``Host`` for what each part is."""

    store: SessionStore | None
    checks: bool
    cwd: str
    scope: Scope
    agents: Agents
    max_delegation_depth: int | None

    @property
    def presets(self) -> Presetting:
        """Binds new agents to the presets that their sessions record."""
        ...

    @property
    def default_model(self) -> ModelDefault:
        """Fills in the model where options name none."""
        ...
