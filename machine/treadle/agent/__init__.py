"""The public handle of an agent and what its owner holds: inbox, receipts, options, maintenance, its creation and end.

What makes agents in another way, or adds an option to them, finds it here. An agent sees what drives it as an
``Engine``. May import: all rooms but ``loop``, ``host``, ``asyncio``.
"""

from ..kernel.effects import Admitted, Rejected
from ..words.events import Target
from .agent import Agent
from .asking import TurnAnswer
from .compacting import Compacted, Compactor, nearest_compactor, register_compactor
from .creation import AgentFactory, Commit, CreateOptions, ResumeOptions, Setup
from .delivery import Receipt, checked, message
from .ending import Ending
from .engine import Converging
from .handle import AgentHandle
from .inbox import Inbox
from .initiator import current_initiator
from .maintenance import MaintenanceTask
from .membership import Membership, Reached
from .options import AgentOptions, register_agent_option

__all__ = [
    "Admitted",
    "Agent",
    "AgentFactory",
    "AgentHandle",
    "AgentOptions",
    "Commit",
    "Compacted",
    "Compactor",
    "Converging",
    "CreateOptions",
    "Ending",
    "Inbox",
    "MaintenanceTask",
    "Membership",
    "Reached",
    "Receipt",
    "Rejected",
    "ResumeOptions",
    "Setup",
    "Target",
    "TurnAnswer",
    "checked",
    "current_initiator",
    "message",
    "nearest_compactor",
    "register_agent_option",
    "register_compactor",
]
