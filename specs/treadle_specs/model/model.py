"""Who takes which input, and the one way to move the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.kernel import effects as fx
from treadle.kernel import inputs as i

from . import calls, tools, turns
from .agent import Agent


class Model(Agent):
    """The agent that the contract promises."""

    def receive(self, given: i.Input) -> list[fx.Effect]:
        """Take one input; return what it leads to, in order.

        Raises:
            TreadleError: the contract refuses it; nothing has changed. The text is the rule.
        """
        self.out = []
        TAKERS[type(given)](self, given)
        return self.out


TAKERS: dict[type[i.Input], Callable[[Any, Any], None]] = {
    i.Deliver: calls.deliver,
    i.Splice: calls.splice,
    i.ReplaceMessage: calls.replace,
    i.RemoveMessage: calls.remove,
    i.ClearInbox: calls.clear,
    i.EditMessage: calls.edit,
    i.SteerMessage: calls.steer,
    i.Cancel: calls.cancel,
    i.Dispose: calls.dispose,
    i.BeginMaintenance: calls.maintain,
    i.Reserve: calls.reserve,
    i.Unreserve: calls.unreserve,
    i.Replayed: calls.replayed,
    i.Entered: turns.entered,
    i.Refused: turns.refused,
    i.Prepared: turns.prepared,
    i.AttemptRecorded: turns.attempt_recorded,
    i.Answered: turns.answered,
    i.AttemptFailed: turns.attempt_failed,
    i.Retried: turns.retried,
    i.Proceeded: turns.proceeded,
    i.ToolsSettled: turns.tools_settled,
    i.Stopped: turns.stopped,
    i.Maintained: turns.maintained,
    i.Failed: turns.failed,
    i.Interrupted: turns.interrupted,
    i.CallStarted: tools.started,
    i.CallRefused: tools.refused,
    i.CallFinished: tools.finished,
    i.CallSettled: tools.settled,
    i.CallDropped: tools.dropped,
}
"""What each input does, by its kind."""
