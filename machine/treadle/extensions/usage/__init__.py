"""What attempts used and cost: sums that equal their parts, of a turn, a session, and an agent with its sub-agents.

Everything is folded from the log, so a session that is resumed goes on with what it has used. May import: ``models``,
``session``, ``hooks``.
"""

from .charge import Charge, SubAgentUsage
from .ledger import LEDGER, Ledger
from .prices import Price, Prices
from .spent import Spent
from .sub_agents import count_sub_agents

__all__ = [
    "LEDGER",
    "Charge",
    "Ledger",
    "Price",
    "Prices",
    "Spent",
    "SubAgentUsage",
    "count_sub_agents",
]
