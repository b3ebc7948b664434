"""Failures that end nothing, made visible as ``agent/error`` (N8, H5)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..words.failures import failure_of
from .dispatch import Listener, emit
from .points import AGENT_ERROR, AgentError

if TYPE_CHECKING:
    from ..agent.agent import Agent

LOGGER = logging.getLogger("treadle")


def report_failure(agent: Agent, error: BaseException, who: str, turn: int = 0, step: int = 0) -> None:
    """Publish a failure that ends nothing; a failing error listener is only logged (N8)."""
    LOGGER.warning("%s of agent %s failed", who, agent.id, exc_info=error)
    listeners = agent.scope.heard[AGENT_ERROR]
    if listeners:
        payload = AgentError(agent, turn, step, error, failure_of(error))
        emit(listeners, payload, _report_again)


def _report_again(_listener: Listener, error: BaseException) -> None:
    LOGGER.error("a listener of agent/error failed", exc_info=error)


def report_listener(agent: Agent, listener: Listener, error: BaseException) -> None:
    """A listener of a notification failed: the others go on (H5)."""
    report_failure(agent, error, f"listener {listener.name}")
