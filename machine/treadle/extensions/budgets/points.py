"""The hook point of this room, and the event that stands for it in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from attrs import frozen

from ...hooks import Emit
from ...session import EndSeed, Event, Projection, event

if TYPE_CHECKING:
    from ...agent import Agent


@event("turn/budget-warning")
class BudgetNearlySpent(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A budget is nearly spent; told once per turn, session or host (B3).

    Attributes:
        account: whose budget: ``turn``, ``session`` or ``host``.
        limit: what is limited.
        bound: the limit.
        amount: what is spent of it.
        turn: the turn during which it was noticed.
    """

    account: str
    limit: str
    bound: float
    amount: float
    turn: int


Told = tuple[str, str, float, int]
"""What was told: whose budget, of what, how large, and in which turn; no turn but that of a turn's own."""


def told_by(data: BudgetNearlySpent) -> Told:
    """What an event stands for."""
    return data.account, data.limit, data.bound, data.turn if data.account == "turn" else 0


def _fold(told: set[Told], entry: Event) -> set[Told]:
    if type(entry.data) is BudgetNearlySpent:
        told.add(told_by(entry.data))
    elif type(entry.data) is EndSeed:
        told.clear()
    return told


TOLD: Projection[set[Told]] = Projection("budget-warnings", lambda: set[Told](), _fold)
"""What a session's log says was told of its budgets: after a resume it is not told again (B3)."""


@frozen
class BudgetWarning:
    """A budget is nearly spent (B3).

    Attributes:
        agent: whose turn or session it is; of the host's budget, the agent that was at work.
        account: whose budget: ``turn``, ``session`` or ``host``.
        limit: what is limited, as ``Limits`` names it.
        bound: the limit.
        amount: what is spent of it.
    """

    agent: Agent
    account: str
    limit: str
    bound: float
    amount: float


BUDGET_WARNING: Emit[BudgetWarning] = Emit(
    "turn/budget-warning", BudgetWarning, "A budget of a turn, a session or the host is nearly spent (B3)."
)
