"""From the kernel's notices to what listeners are given (I4, H8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

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

POINT_OF: dict[type[fx.Notice], HookPoint[Any]] = {
    fx.StatusChanged: AGENT_STATUS,
    fx.Inserted: INBOX_INSERTED,
    fx.Claimed: INBOX_CLAIMED,
    fx.Discarded: INBOX_DISCARDED,
    fx.Updated: INBOX_UPDATED,
    fx.Parked: AGENT_PARKED,
    fx.CancelRequested: CANCEL_REQUESTED,
    fx.ErrorReported: AGENT_ERROR,
}


class TurnFailed(TreadleError):
    """Stands for a failure that no exception caused; ``code`` is the failure's (T9, T11)."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # each carries the code of its failure


def announce(agent: Agent, notice: fx.Notice, report: Callable[[Listener, BaseException], None]) -> None:
    """Tell a notice's listeners, if it has any; ``report`` is told which of them failed (H5)."""
    listeners = agent.scope.heard[POINT_OF[type(notice)]]
    if listeners:
        emit(listeners, _payload(agent, notice), report)


def _payload(agent: Agent, notice: fx.Notice) -> object:
    match notice:
        case fx.StatusChanged():
            return AgentStatus(agent, notice.status)
        case fx.Inserted():
            return InboxInserted(agent, notice.message)
        case fx.Claimed():
            return InboxClaimed(agent, notice.message, notice.turn)
        case fx.Discarded():
            return InboxDiscarded(agent, notice.message)
        case fx.Updated():
            return InboxUpdated(agent, notice.message)
        case fx.Parked():
            return AgentParked(agent, notice.messages)
        case fx.CancelRequested():
            return CancelRequest(agent, notice.cause)
        case fx.ErrorReported():
            return AgentError(agent, notice.turn, notice.step, _error(notice), notice.failure)
        case _:
            assert_never(notice)


def _error(notice: fx.ErrorReported) -> BaseException:
    if isinstance(notice.error, BaseException):
        return notice.error
    if notice.failure.code == "STEP_LIMIT":
        return TurnFailed(notice.failure.message, notice.failure.code)
    return ModelFailure(notice.failure)
