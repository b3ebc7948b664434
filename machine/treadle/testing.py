"""For tests: a model that answers from a script, the checks of a log, and the lifecycle as a table."""

from .checks import Breach, LogMonitor, SessionChecks, check_request
from .kernel.lifecycle import LIFECYCLE, TABLE, Lifecycle, Row, Trigger
from .models.scripted import Answer, Call, Script, ScriptedModel

__all__ = [
    "LIFECYCLE",
    "TABLE",
    "Answer",
    "Breach",
    "Call",
    "Lifecycle",
    "LogMonitor",
    "Row",
    "Script",
    "ScriptedModel",
    "SessionChecks",
    "Trigger",
    "check_request",
]
