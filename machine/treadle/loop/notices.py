"""One table: from a notice of the kernel to the hook point that tells of it, and to what its listeners are given (I4, H8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from ..agent.agent import Agent
from ..errors import TreadleError
from ..hooks.dispatch import HookPoint, Listener, emit
from ..hooks.points import (
    AGENT_ERROR,
    AGENT_PARKED,
    AGENT_STATUS,
    CANCEL_REQUESTED,
    INBOX_CLAIMED,
    INBOX_DISCARDED,
    INBOX_INSERTED,
    INBOX_UPDATED,
    AgentError,
    AgentParked,
    AgentStatus,
    CancelRequest,
    InboxClaimed,
    InboxDiscarded,
    InboxInserted,
    InboxUpdated,
)
from ..kernel import effects as fx
from ..words.failures import ModelFailure


class TurnFailed(TreadleError):
    """Stands for a failure that no exception caused; ``code`` is the failure's (T9, T11)."""

    def __init__(self, message: str, code: str) -> None:
        self.code = code  # type: ignore[misc]  # each carries the code of its failure
        super().__init__(message)


def _error(notice: fx.ErrorReported) -> BaseException:
    if isinstance(notice.error, BaseException):
        return notice.error
    if notice.failure.code == "STEP_LIMIT":
        return TurnFailed(notice.failure.message, notice.failure.code)
    return ModelFailure(notice.failure)


@frozen(eq=False)
class Told:
    """How a notice is told: at which point, and how what its listeners are given is made of agent and notice."""

    point: HookPoint[Any]
    payload: Callable[[Agent, Any], object]


TOLD: dict[type[fx.Notice], Told] = {
    fx.StatusChanged: Told(AGENT_STATUS, lambda agent, notice: AgentStatus(agent, notice.status)),
    fx.Inserted: Told(INBOX_INSERTED, lambda agent, notice: InboxInserted(agent, notice.message)),
    fx.Claimed: Told(INBOX_CLAIMED, lambda agent, notice: InboxClaimed(agent, notice.message, notice.turn)),
    fx.Discarded: Told(INBOX_DISCARDED, lambda agent, notice: InboxDiscarded(agent, notice.message)),
    fx.Updated: Told(INBOX_UPDATED, lambda agent, notice: InboxUpdated(agent, notice.message)),
    fx.Parked: Told(AGENT_PARKED, lambda agent, notice: AgentParked(agent, notice.messages)),
    fx.CancelRequested: Told(CANCEL_REQUESTED, lambda agent, notice: CancelRequest(agent, notice.cause)),
    fx.ErrorReported: Told(
        AGENT_ERROR,
        lambda agent, notice: AgentError(agent, notice.turn, notice.step, _error(notice), notice.failure),
    ),
}


def announce(agent: Agent, notice: fx.Notice, report: Callable[[Listener, BaseException], None]) -> None:
    """Tell a notice's listeners, if it has any; ``report`` is told which of them failed (H5)."""
    told = TOLD[type(notice)]
    listeners = agent.scope.heard[told.point]
    if listeners:
        emit(listeners, told.payload(agent, notice), report)
