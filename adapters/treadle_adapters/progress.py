"""What a running tool tells of itself before its result is there: progress, and live output."""

from __future__ import annotations

from attrs import frozen

from treadle import Agent, ToolCall
from treadle.hooks import Emit


@frozen
class ToolProgress:
    """One piece of news of a running call. It is told and not recorded: the result is what counts.

    Attributes:
        agent: whose call it is.
        call: the call as the model made it.
        text: what is said, or a piece of live output.
        done: how far it is, in units of its own; ``None`` where that was not said.
        total: how far it goes, in the same units; ``None`` where that is not known.
    """

    agent: Agent
    call: ToolCall
    text: str = ""
    done: float | None = None
    total: float | None = None


TOOL_PROGRESS = Emit("tools/progress", ToolProgress, "A running tool tells how far it is, or what it puts out.")
"""Listen with ``host.on(TOOL_PROGRESS, listener)``."""
