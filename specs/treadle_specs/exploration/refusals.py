"""Which calls must be refused, with what, and that a refused call changes nothing (L9, M1, D8, I1)."""

from __future__ import annotations

from typing import Any

from treadle import inputs as i
from treadle.errors import AgentBusy, AgentDisposed, DuplicateMessage, TreadleError
from treadle.kernel import Kernel
from treadle.lifecycle import DISPOSAL, DISPOSED, IDLE

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
            return None


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
