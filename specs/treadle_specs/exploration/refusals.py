"""Which inputs must be refused, with what, and that a refused one changes nothing (L1, L9, M1, D8, I1)."""

from __future__ import annotations

from typing import Any

from treadle import AgentBusy, AgentDisposed, DuplicateMessage, TreadleError
from treadle.errors import InvalidTrigger
from treadle.kernel import effects as fx
from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel
from treadle.kernel.lifecycle import DISPOSAL, DISPOSED, IDLE
from treadle.kernel.schedule import SETTLED, STARTED

from .node import Node
from .violation import Violation

_ACCEPTING = frozenset[Any](
    {
        *(i.Deliver, i.Splice, i.ReplaceMessage, i.RemoveMessage, i.ClearInbox, i.EditMessage, i.SteerMessage),
        i.BeginMaintenance,
    }
)
"""Calls that need an agent which accepts something."""


def expected_refusal(node: Node, given: i.Input) -> type[TreadleError] | None:
    """The error that the contract has for an input in this state, ``None`` when it must be taken."""
    before = node.kernel
    if type(given) in _ACCEPTING and before.state in (DISPOSAL, DISPOSED):
        return AgentDisposed
    match given:
        case i.BeginMaintenance() | i.Reserve():
            return None if _truly_idle(before) else AgentBusy
        case i.Deliver():
            return DuplicateMessage if given.message.id in node.view.live else None
        case i.Splice():
            ids = [message.id for message in given.inserted]
            return DuplicateMessage if len(ids) != len(set(ids)) else None
        case _:
            known = type(given) in _OWED or isinstance(given, (i.Failed, i.Interrupted, i.Proceeded))
            return InvalidTrigger if known and not is_owed(before, given) else None


_OWED: dict[Any, type] = {
    **dict.fromkeys((i.Entered, i.Refused), fx.Admit),
    **dict.fromkeys((i.Prepared, i.AttemptRecorded, i.Answered, i.AttemptFailed), fx.Request),
    i.Retried: fx.Recover,
    **dict.fromkeys((i.CallStarted, i.CallRefused, i.CallFinished, i.CallSettled, i.CallDropped), fx.RunTools),
    i.ToolsSettled: fx.RunTools,
    i.Stopped: fx.Stop,
    i.Maintained: fx.Maintain,
}
"""Which operation each outcome or piece of progress answers (L7)."""


def is_owed(kernel: Kernel, given: i.Input) -> bool:
    """Whether an outcome, or a piece of progress, can answer what is owed (L1, L7)."""
    owed = kernel.owed
    match given:
        case i.Proceeded():
            return owed is fx.PROCEED
        case i.Failed():
            return isinstance(owed, (fx.Admit, fx.Request, fx.Recover, fx.RunTools, fx.Stop))
        case i.Interrupted():
            return owed is not None and owed is not fx.PROCEED and kernel.cause is not None
        case i.ToolsSettled():
            return isinstance(owed, fx.RunTools) and kernel.schedule is not None and kernel.schedule.done
        case i.CallStarted() | i.CallRefused() | i.CallFinished() | i.CallSettled() | i.CallDropped():
            return isinstance(owed, fx.RunTools) and _call_may(kernel, given)
        case _:
            return isinstance(owed, _OWED[type(given)])


def _call_may(kernel: Kernel, given: Any) -> bool:
    """Calls start in order, exclusive ones alone, and settle in order once their bodies are over (K4, K5, K6)."""
    schedule = kernel.schedule
    if schedule is None or given.index >= len(schedule.calls):
        return False
    status = schedule.status
    running = [n for n, now in enumerate(status) if now == STARTED]
    match given:
        case i.CallStarted():
            alone = not running or (given.parallel and not schedule.exclusive and len(running) < schedule.pool)
            return kernel.cause is None and given.index == schedule.next_start and alone
        case i.CallRefused():
            return given.index == schedule.next_start
        case i.CallFinished():
            return given.index in running
        case _:
            return given.index == status.count(SETTLED) and given.index not in running


def _truly_idle(kernel: Kernel) -> bool:
    replay = kernel.latched and kernel.inbox.can_use_wake
    return kernel.state is IDLE and not kernel.reserved and not kernel.held and not replay


def check_refusal(node: Node, given: i.Input, error: Exception | None) -> None:
    """Check that an input was refused exactly when it had to be.

    Raises:
        Violation: it was refused or taken against the contract, or the kernel broke.
    """
    expected = expected_refusal(node, given)
    if (type(error) if error is not None else None) is expected:
        return
    if error is None:
        assert expected is not None
        raise Violation(_rule(expected), f"{_name(given)} is taken in {node.kernel.state.name}")
    if isinstance(error, TreadleError):
        raise Violation(
            _rule(type(error)), f"{_name(given)} is refused in {node.kernel.state.name}: {error}"
        ) from error
    raise Violation("L1", f"the kernel breaks on {_name(given)} in {node.kernel.state.name}: {error!r}") from error


_RULES = {AgentDisposed.code: "L9", AgentBusy.code: "M1", DuplicateMessage.code: "I1"}


def _rule(error: type[TreadleError]) -> str:
    return _RULES.get(error.code, "L1")


def _name(given: Any) -> str:
    return type(given).__name__
