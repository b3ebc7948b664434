"""What the drawn programs raise on purpose, so that anything else is a fault."""

from __future__ import annotations


class Planned(Exception):
    """Raised by a tool, hook, listener or task because the program said so."""


UNSEEN = "a task that nobody awaits"
"""Says the failure of such a maintenance task."""
