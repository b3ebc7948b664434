"""What attempts used and cost: sums that equal their parts, of a turn, a session, and an agent with its sub-agents.

Everything is folded from the log, so a session that is resumed goes on with what it has used. May import: ``models``,
``session``, ``hooks``, and of the host what reads files.
"""

from .charge import Charge, SubAgentUsage
from .files import prices_declared, read_prices
from .ledger import USAGE, UsageLedger, charged
from .prices import Price, Prices
from .spent import Spent
from .sub_agents import count_sub_agents

__all__ = [
    "USAGE",
    "Charge",
    "Price",
    "Prices",
    "Spent",
    "SubAgentUsage",
    "UsageLedger",
    "charged",
    "count_sub_agents",
    "prices_declared",
    "read_prices",
]
