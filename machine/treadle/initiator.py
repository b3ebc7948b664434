"""Which agent's driver started this chain of tasks: attribution only, never permission (O7)."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from .agent import Agent


@frozen(eq=False)
class Initiator:
    """An agent, and which of its activities. A new activity gets a new token, so that old tasks are told apart."""

    agent: Agent
    activity: object


CURRENT: ContextVar[Initiator | None] = ContextVar("treadle_initiator", default=None)
"""The initiator of the running task, ``None`` outside any driver."""
