"""A server that is a child process: newline-delimited JSON on its stdin and stdout, what it says on stderr in a log."""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import trio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from ..processes import ProcessGroup, environment
from .servers import StdioServer
from .wire import TOO_LONG, refused

MOST_SAID = 1024 * 1024
"""How much of what a server says on stderr is logged."""
_HEAD = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,')
_TAIL = re.compile(rb',\s*"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_EDGE = 256
ENDLESS = 16
"""An answer of so many times the bound is one without end: it is not waited for."""


@asynccontextmanager
async def stdio(name: str, server: StdioServer, lost: Callable[[str], None]) -> AsyncGenerator[tuple[Any, Any]]:
    """Start a server and speak with it until the block is left; then it is ended, with all that it started.

    Raises:
        OSError: it cannot be started.
    """
    group = await ProcessGroup.start(
        server.command, env=environment(server.inherit, server.env), cwd=server.cwd, stdin=subprocess.PIPE
    )
    try:
        to_us, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writing, from_us = anyio.create_memory_object_stream[SessionMessage](0)
        async with trio.open_nursery() as nursery, to_us, reading, writing, from_us:
            nursery.start_soon(_read, group.process, to_us, server.limits.message_bytes, lost)
            nursery.start_soon(_write, group.process, from_us)
            nursery.start_soon(_log, name, group.process)
            nursery.start_soon(_watch, group.process, lost)
            try:
                yield reading, writing
            finally:
                await group.end(server.limits.end_seconds)
                nursery.cancel_scope.cancel()
    finally:
        await group.end(server.limits.end_seconds, ask=False)


async def _watch(process: trio.Process, lost: Callable[[str], None]) -> None:
    status = await process.wait()
    lost(f"it ended with status {status}")


async def _write(process: trio.Process, messages: Any) -> None:
    assert process.stdin is not None
    try:
        async for message in messages:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send_all(line.encode("utf-8", "replace") + b"\n")
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        await messages.aclose()


async def _read(process: trio.Process, target: Any, most: int, lost: Callable[[str], None]) -> None:
    assert process.stdout is not None
    lines = Lines(most)
    async with target:
        try:
            async for chunk in process.stdout:
                for line in lines.feed(bytes(chunk)):
                    message = line if isinstance(line, SessionMessage) else _parsed(line)
                    if message is None:
                        lost(f"it sent a message of more than {most:,} bytes that answers nothing")
                        return
                    await target.send(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # nobody reads any more, or we have closed it


def _parsed(line: bytes | None) -> SessionMessage | Exception | None:
    if line is None:
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


class Lines:
    """Lines out of pieces, of bounded length. An answer that is too long is let go, and an error takes its place.

    Args:
        most: bytes that a line may have.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: list[bytes] = []
        self._size = 0
        self._head = b""
        self._tail = b""

    def feed(self, chunk: bytes) -> list[bytes | SessionMessage | None]:
        """The lines that end in a further piece; ``None`` for one that is too long and answers nothing, or has no end."""
        *ends, rest = chunk.split(b"\n")
        found: list[bytes | SessionMessage | None] = []
        for end in ends:
            self._add(end)
            if self._size > self._most:
                found.append(self._too_long())
            elif line := b"".join(self._pieces).strip():
                found.append(line)
            self._pieces, self._size, self._head, self._tail = [], 0, b"", b""
        self._add(rest)
        if self._size > ENDLESS * self._most:
            found.append(None)
        return found

    def _add(self, piece: bytes) -> None:
        if not piece:
            return
        self._size += len(piece)
        if len(self._head) < _EDGE:
            self._head = (self._head + piece[:_EDGE])[:_EDGE]
        self._tail = (self._tail + piece[-_EDGE:])[-_EDGE:]
        if self._size <= self._most:
            self._pieces.append(piece)
        else:
            self._pieces.clear()

    def _too_long(self) -> SessionMessage | None:
        found = _HEAD.match(self._head) or _TAIL.search(self._tail)
        if found is None:
            return None
        text = f"the answer has {self._size:,} bytes, and more than {self._most:,} are not taken"
        return refused(int(found[1]), TOO_LONG, text)


async def _log(name: str, process: trio.Process) -> None:
    """Log what it says on stderr, line by line, up to a bound; beyond it is read and forgotten."""
    assert process.stderr is not None
    logger = logging.getLogger(f"treadle.mcp.{name}")
    said, rest = 0, b""
    try:
        async for chunk in process.stderr:
            if said > MOST_SAID:
                continue
            said += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                logger.info("%s", line[:2_000].decode("utf-8", "replace"))
            rest = rest[:2_000]
            if said > MOST_SAID:
                logger.warning("server %s said more than %s bytes on stderr; the rest is not logged", name, MOST_SAID)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    if rest:
        logger.info("%s", rest.decode("utf-8", "replace"))
