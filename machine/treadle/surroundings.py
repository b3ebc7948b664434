"""What the loop needs of the host that it runs in, and nothing else of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import trio

    from .agent import Agent
    from .models.adapter import ModelRequest
    from .models.runtime import Models
    from .options import AgentOptions
    from .points import ToolProposal
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


class Surroundings(Protocol):
    """A host, as the loop sees it: see ``Host`` for what each part is."""

    store: SessionStore | None
    checks: bool
    approver: Callable[[ToolProposal, str], Awaitable[bool]] | None
    cwd: str
    scope: Scope
    models: Models
    agents: Agents
    max_delegation_depth: int | None
    thread_id: int
    flush_tasks: dict[trio.lowlevel.Task, Any]

    @property
    def presets(self) -> Presetting:
        """Binds new agents to the presets that their sessions record."""
        ...

    @property
    def default_model(self) -> ModelDefault:
        """Fills in the model where options name none."""
        ...

    def spawn(self, run: Callable[[], Awaitable[Any]], name: str | None = None) -> None:
        """Start a task of the host's own (O7)."""
        ...

    def leave(self, error: BaseException) -> None:
        """End the host because one of its tasks asks to leave the program, or broke (H5)."""
        ...

    def watch_convergence(self, driver: Any) -> None:
        """Log a warning should a cancellation take long (C10)."""
        ...

    def converged(self, driver: Any) -> None:
        """The cancellation has converged (C10)."""
        ...

    def turn_ended(self, driver: Any) -> trio.Event | None:
        """Run ``session/flush`` beside whatever follows; what it returns is set when that is over (P8)."""
        ...

    def flushing(self, driver: Any) -> bool:
        """Whether a flush of that agent is under way (P8)."""
        ...

    async def turn_flushed(self, driver: Any) -> None:
        """Wait until no flush of that agent is under way (P8)."""
        ...

    def check_request(self, driver: Any, request: ModelRequest) -> None:
        """With checks on, rebuild the request from the log and compare (Q1, N1)."""
        ...
