"""The results of calls that have none of their own: which the kernel chooses, and what the model reads then (C4, P4)."""

from __future__ import annotations

from ..words.events import ToolResultAdded
from ..words.messages import Text
from . import inputs as i

TEXTS = {
    "ABORTED": (
        "This tool was stopped while it was running, because the turn was cancelled. "
        "It may have taken effect in part; check before repeating it."
    ),
    "ABORTED_BEFORE_DISPATCH": "This tool call was not started: the turn was stopped first. Nothing was done.",
    "TOOL_NOT_STARTED": "This tool call was never started: the turn broke off before it. Nothing was done.",
    "TOOL_OUTCOME_UNKNOWN": (
        "This tool call was started, but the turn broke off before its result was recorded. "
        "It may or may not have taken effect; check before repeating it."
    ),
}
"""What the model reads, by code."""


def missing_result(call_id: str, code: str) -> ToolResultAdded:
    """The error result, with one of the codes of ``TEXTS``, that says what is known of a call (C4, P4)."""
    return ToolResultAdded(call_id, (Text(TEXTS[code]),), True, code)


def result_of(call_id: str, ending: i.Ending) -> ToolResultAdded | None:
    """The result that stands for a body which ended so; ``None`` when the body's own counts.

    What a body came to counts whatever else happened, a cancel included: it was done (C4).
    """
    match ending:
        case i.Returned():
            return None
        case i.LetThrough():
            return missing_result(call_id, "ABORTED" if ending.started else "ABORTED_BEFORE_DISPATCH")
        case i.TimedOut():
            text = f"the tool was stopped after {ending.seconds:g} s"
            return ToolResultAdded(call_id, (Text(text),), True, "TOOL_TIMEOUT")
