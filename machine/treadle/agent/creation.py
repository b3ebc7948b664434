"""What a creation is asked for, and what makes agents: the factory interface (O13, O14)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from attrs import field, frozen

from ..hooks.scope import Scope
from ..words.events import Event
from .agent import Agent
from .options import DEFAULT_OPTIONS, AgentOptions

if TYPE_CHECKING:
    from .handle import AgentHandle

Commit = Callable[[], None]
"""Runs right before publication, synchronously; raising rolls the creation back (O1)."""
Setup = Callable[[Scope, Agent], Awaitable[Commit | None]]
"""Awaited with the agent's scope and the agent before anything is published; may return a commit (O1)."""


@frozen(eq=False)
class ResumeOptions:
    """What ``agents.resume`` hands to the factory (O13).

    Attributes:
        session_id: id of session and agent.
        owner: the scope that owns the agent beside the factory; its end is the agent's (O3).
        parent_agent: the live agent that owns it, ``None`` for a root (O6).
        agent_options: its options; what they name overrides the logged configuration once (Q11).
        setup: see ``Setup``.
    """

    session_id: str
    owner: Scope
    parent_agent: Agent | None = None
    agent_options: AgentOptions | None = None
    setup: Setup | None = None


@frozen(eq=False)
class CreateOptions:
    """What ``agents.create`` hands to the factory: as ``ResumeOptions``, and what the session begins with (O13).

    Attributes:
        seed: events the session begins with.
        meta: further fields of the session's header (S8).
    """

    session_id: str
    owner: Scope
    parent_agent: Agent | None = None
    agent_options: AgentOptions = DEFAULT_OPTIONS
    setup: Setup | None = None
    seed: Iterable[Event] = ()
    meta: Mapping[str, Any] = field(factory=lambda: {})


class AgentFactory(Protocol):
    """Makes agents for ``host.agents``. The loop that ships is one; ``set_factory`` takes any other (O14)."""

    async def create(self, options: CreateOptions) -> AgentHandle:
        """Create an agent on a fresh session and publish it, or roll back and raise (O1)."""
        ...

    async def resume(self, options: ResumeOptions) -> AgentHandle:
        """Resume an agent on a stored session and publish it, or roll back and raise (O1).

        Raises:
            NoStore: there is nowhere to resume from.
        """
        ...

    def close(self) -> Awaitable[None]:
        """Stop creations under way and dispose every agent it made, keeping what is pending.

        Begun in the call, as far as the factory can; what it returns is awaited for the ends.
        """
        ...
