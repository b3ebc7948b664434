"""A user's own agent, checked: its tools, hooks, guards, prompts and sub-agents under every disturbance.

``check_agent`` plays a scenario on virtual time with a scripted model: undisturbed, and then stopped, disposed, steered and
killed at each place, with each call failing, hanging and taking long. The room imports the core, the stepper of
``exploration`` and the checker of ``logs``.
"""

from .check import AgentFaulty, check_agent
from .report import Finding, Report
from .scenario import Scenario, Turn
from .world import World

__all__ = ["AgentFaulty", "Finding", "Report", "Scenario", "Turn", "World", "check_agent"]
