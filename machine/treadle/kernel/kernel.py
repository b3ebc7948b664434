"""The kernel: decides everything the lifecycle does, and does nothing itself.

Theory of operation
===================

There are two halves. The kernel takes one input and returns effects: plain values that say what to record, whom to
tell, which operation to begin. The shell performs the effects in order, runs the one operation that is owed, and
reports back what happened. The shell knows tasks, clocks, cancellation and exceptions; the kernel knows none of them,
and no identity but those it is given. So the shipped code itself can be explored state by state, replayed and
model-checked, and a fault found there is a fault of the product and not of a model of it.

Two kinds of input exist, and the difference carries the design:

1. Calls on the agent (deliver, cancel, dispose, …) may come at any time, also from a listener that is being told of
   the last commit. They are total: each is taken, or refused with an error that changed nothing.
2. Outcomes and progress come only from the operation that is *owed*. At most one is owed at any time (L7), so there is
   never a question whose answer this is, and no race to consider: whatever came between is already in the state.

An outcome is a fact, not a decision. "The body let the cancellation through after it had started" is a fact; that the
model reads ABORTED for it is decided here. "The answer is complete" is a fact; whether the turn goes on, rests, or ends
because of its step limit is decided here. Wherever the shell would choose, the same situation would be told by two
hands, and only one of them is explored.

Where the agent goes is one table (``lifecycle``). This half of the code refines an input to one trigger, by asking
what is pending and what is owed; the table says where that leads and which verbs run; verbs append effects. Rows have
no guards, because a guard is a second place that decides. A trigger without a row is a fault of whoever fired it.

A cancel is the one thing that cannot wait for its turn. It therefore only sets ``cause`` and asks for the abort; the
operation stays owed until it has settled, and its outcome, whatever it is, then ends the activity (C8). What must
outlive the activity (a wake that came meanwhile) is latched, and read again once everybody has been told (H4). That
is why there is a ``Reread`` effect: told first, decided afterwards, or a listener could not prevent a replay.

The modules know each other in one direction, each only what stands before it::

    inputs, effects, schedule, pending   what is said, and the arithmetic of tool calls and pending lists
    missing_results                      what the model reads for a call without a result of its own
    state                                what is known of one agent; claiming, recording, settling
    verbs                                what rows do
    lifecycle                            the table, the machine made from it, ``fire``
    commands, outcomes                   which trigger an input means
    kernel                               who takes which input

The state names its lifecycle by what it asks of it (``Table``), since the table stands above: its rows are made of verbs.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, get_args

from attrs import define, fields

from . import commands as calls
from . import inputs as i
from . import outcomes
from .effects import Effect
from .lifecycle import LIFECYCLE
from .state import KernelState, Table


@define(eq=False)
class Kernel(KernelState):
    """One agent's state, and the one way to change it."""

    lifecycle: Table = LIFECYCLE

    def receive(self, given: i.Input) -> tuple[Effect, ...]:
        """Take one input; return the effects to perform, in order.

        Raises:
            AgentDisposed: the agent accepts nothing any more (L9).
            AgentBusy: maintenance was asked for outside true idle (M1).
            DuplicateMessage: a message id is taken (I1).
            InvalidTrigger: an outcome that is not owed, or a trigger without a row (L1).
            MisuseError: the cause of a dispose for a cancel (C1), or no such entry to edit or steer (I9).
        """
        out = self.out
        try:
            _TAKERS[type(given)](self, given)
            return tuple(out)
        finally:
            out.clear()

    def copy(self) -> Kernel:
        """An independent copy, for exploring what else could follow."""
        twin = Kernel(*_ALL(self))
        twin.recorded, twin.inbox = dict(self.recorded), self.inbox.copy()
        twin.schedule = self.schedule.copy() if self.schedule is not None else None
        twin.out = []
        return twin


_ALL = attrgetter(*[known.name for known in fields(Kernel)])

_TAKERS: dict[type[i.Input], Callable[[KernelState, Any], None]] = {
    i.Deliver: calls.deliver,
    **dict.fromkeys(
        (i.Splice, i.ReplaceMessage, i.RemoveMessage, i.ClearInbox, i.EditMessage, i.SteerMessage),
        calls.inbox_operation,
    ),
    i.Cancel: calls.cancel,
    i.Dispose: calls.dispose,
    i.BeginMaintenance: calls.maintain,
    i.Reserve: calls.reserve,
    i.Unreserve: calls.unreserve,
    i.Replayed: calls.replayed,
    i.Proceeded: outcomes.proceeded,
    **dict.fromkeys((i.Prepared, i.AttemptRecorded), outcomes.request_progress),
    **dict.fromkeys(
        (i.CallStarted, i.CallRefused, i.CallFinished, i.CallSettled, i.CallDropped), outcomes.tool_progress
    ),
    **dict.fromkeys(get_args(i.Outcome), outcomes.outcome),
}
"""Who takes which input; a table, since ``receive`` is called several times in every step."""

assert set(_TAKERS) == set(get_args(i.Input)), "every input has exactly one taker"
