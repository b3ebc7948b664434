"""Budgets: what a turn, a session and a host may spend. What is reached ends the turn, with its log whole (B1–B4).

May import: ``usage``, ``hooks``, ``models``, ``session``, ``agent``, and of the host what reads files.
"""

from .budgets import Budgets
from .files import declared_budgets
from .limits import Limits
from .points import BUDGET_WARNING, BudgetNearlySpent, BudgetWarning

__all__ = ["BUDGET_WARNING", "BudgetNearlySpent", "BudgetWarning", "Budgets", "Limits", "declared_budgets"]
