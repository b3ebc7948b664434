"""Invariants verified while running (``Host(checks=True)``) and over stored logs (§15).

What is here derives everything a second time, from the events alone: it shares no code with the kernel, the surface or
the inbox it checks.
"""

from __future__ import annotations

from .monitor import LogMonitor, SessionChecks, check_request
from .state import Breach

__all__ = ["Breach", "LogMonitor", "SessionChecks", "check_request"]
