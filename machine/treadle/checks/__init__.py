"""Invariants verified while running (``Host(checks=True)``) and over stored logs (§15).

The monitor derives everything a second time, from the events alone: it shares no code with the kernel, the surface or
the inbox it checks. A stored log, or a seed, is driven on only when the monitor finds nothing.
"""

from __future__ import annotations

from .intake import LogIntake, Resumed
from .monitor import LogMonitor, SessionChecks, check_request
from .state import Breach
from .stored import closed_session, seeded_session

__all__ = [
    "Breach",
    "LogIntake",
    "LogMonitor",
    "Resumed",
    "SessionChecks",
    "check_request",
    "closed_session",
    "seeded_session",
]
