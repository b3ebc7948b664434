"""A tool that runs a command in one folder: its output is told as it comes, and nothing of it is left when it is over."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import trio

from treadle import Tool, ToolOutput, ToolRun
from treadle.hooks import tell

from ..processes import INHERITED, ProcessGroup, environment
from ..progress import TOOL_PROGRESS, ToolProgress

QUIET = {
    "CI": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "TERM": "dumb",
}
"""Variables by which programs learn that nobody is there to answer."""
MOST_OUTPUT = 100_000
"""Bytes of output that the model reads: the first and the last half of them."""
SECONDS, MOST_SECONDS = 120.0, 3_600.0
"""How long a command may take unless told otherwise, and at most."""
GRACE = 2.0
"""Seconds that a command has to end after SIGTERM; then its group is killed."""
CONTEXT = {"command": {"type": "string"}, "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_SECONDS}}


def shell_tool(folder: Path) -> Tool:
    """The tool."""

    async def run_command(arguments: dict[str, Any], run: ToolRun) -> ToolOutput:
        return await _run(folder, arguments["command"], arguments.get("seconds", SECONDS), run)

    parameters = {"type": "object", "properties": CONTEXT, "required": ["command"], "additionalProperties": False}
    return Tool(
        "run_command",
        f"Run a shell command in the folder; nobody is there to answer it. It is stopped after `seconds` ({SECONDS:g}).",
        parameters,
        run_command,
    )


async def _run(folder: Path, command: str, seconds: float, run: ToolRun) -> ToolOutput:
    if "\0" in command:
        return ToolOutput("a command cannot hold a NUL", is_error=True, code="TOOL_FAILED")
    output = Output()
    group = await ProcessGroup.start(
        ["/bin/sh", "-c", command], env=environment(INHERITED, QUIET), cwd=folder, stderr=subprocess.STDOUT
    )
    stopped = False
    try:
        with trio.move_on_after(seconds) as limit:
            await _follow(group.process, output, run)
        stopped = limit.cancelled_caught
    finally:
        # Also what it left running in the background: the call is over, and so is what it started.
        await group.end(GRACE, ask=group.process.returncode is None)
    status = group.process.returncode
    if stopped:
        return ToolOutput(f"{output.text()}\n[stopped after {seconds:g} s]", is_error=True, code="TOOL_TIMEOUT")
    if status:
        told = f"status {status}" if status > 0 else f"signal {-status}"
        return ToolOutput(f"{output.text()}\n[ended with {told}]", is_error=True, code="TOOL_FAILED")
    return ToolOutput(output.text() or "(no output)")


async def _follow(process: trio.Process, output: Output, run: ToolRun) -> None:
    """Take the output until the command is over; what it left running may still hold the pipe, and is not waited for."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_take, process, output, run)
        await process.wait()
        with trio.move_on_after(0.2):
            await output.ended.wait()
        nursery.cancel_scope.cancel()


async def _take(process: trio.Process, output: Output, run: ToolRun) -> None:
    assert process.stdout is not None
    async for chunk in process.stdout:
        tell(run.agent.scope, TOOL_PROGRESS, ToolProgress(run.agent, run.call, output.add(bytes(chunk))))
    output.ended.set()


class Output:
    """What a command puts out: its first and its last part, when it is long.

    Attributes:
        ended: set when no more comes.
    """

    def __init__(self) -> None:
        self.ended = trio.Event()
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0

    def add(self, chunk: bytes) -> str:
        """Take a further piece; as text, for whoever watches."""
        half = MOST_OUTPUT // 2
        self._size += len(chunk)
        room = half - len(self._head)
        self._head += chunk[: max(0, room)]
        self._tail += chunk[max(0, room) :]
        if len(self._tail) > 2 * half:
            del self._tail[:-half]
        return chunk.decode("utf-8", "replace")

    def text(self) -> str:
        """All of it, or its two ends with a note of what is missing."""
        tail = self._tail[-(MOST_OUTPUT // 2) :]
        missing = self._size - len(self._head) - len(tail)
        between = f"\n[{missing:,} bytes left out]\n".encode() if missing else b""
        return (bytes(self._head) + between + bytes(tail)).decode("utf-8", "replace").rstrip("\n")
