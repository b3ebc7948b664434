"""The tools that the agents of ``scripts`` can call."""

from __future__ import annotations

import trio

from treadle import Tool, ToolOutput, ToolRun, message, tool


@tool
async def look(what: str = "around") -> str:
    """Look at something."""
    await trio.lowlevel.checkpoint()
    return f"You see {what}."


@tool(parallel=True)
async def fetch(number: int) -> int:
    """Fetch a number; higher ones come sooner."""
    await trio.sleep(1 / (1 + number))
    return number * number


@tool
async def sleep_for_ever() -> str:
    """Wait until stopped."""
    await trio.sleep_forever()
    return "woken"


@tool
async def fail(why: str = "no reason") -> str:
    """Fail."""
    await trio.lowlevel.checkpoint()
    raise RuntimeError(why)


@tool
async def steer_myself(text: str, run: ToolRun) -> str:
    """Steer the running agent."""
    await trio.lowlevel.checkpoint()
    run.agent.steer(text)
    return "steered"


@tool
async def with_contexts(count: int) -> ToolOutput:
    """Hand contexts over beside the result."""
    await trio.lowlevel.checkpoint()
    return ToolOutput("see the notes", contexts=[message(f"note {number}") for number in range(count)])


@tool
async def finish_up() -> ToolOutput:
    """End the turn."""
    await trio.lowlevel.checkpoint()
    return ToolOutput("all done", concludes_turn=True, value={"done": True})


TOOLS: tuple[Tool, ...] = (look, fetch, sleep_for_ever, fail, steer_myself, with_contexts, finish_up)
"""What the scripted agents can call."""
