"""What a user's invariant is told: the agent, its host and sessions, and what lies outside and outlives the process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define

from treadle import Agent, Event, Host, Message


@define(eq=False)
class World:
    """One run as it stands now.

    Attributes:
        host: the host, as the agent was made in it.
        agent: the agent.
        outside: what outlives the process: what ``outside`` of ``check_agent`` made for this run.
        life: 1, and 2 once the process has died and the agent was resumed.
        stopped: whether the turn that is over was stopped.
    """

    host: Host
    agent: Agent
    outside: Any
    life: int = 1
    stopped: bool = False

    @property
    def events(self) -> Sequence[Event]:
        """The agent's log."""
        return self.agent.session.events

    @property
    def history(self) -> Sequence[Message]:
        """What the model would be sent."""
        return self.agent.session.history()
