"""Lines that nobody edits here: from a pipe or file, or from a terminal that echoes by itself."""

from __future__ import annotations

import codecs
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing

import trio

CHUNK = 4096
LONGEST_LINE = 1_000_000
"""How many characters a line may have; the rest is dropped."""


class LineSplitter:
    """Splits bytes into lines."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> list[str]:
        """Take bytes; returns the lines that are complete. Empty bytes are the end: the last line is complete."""
        self._rest += self._decode.decode(data, final=not data)
        *lines, self._rest = self._rest.split("\n")
        if not data and self._rest:
            lines, self._rest = [*lines, self._rest], ""
        return [line.removesuffix("\r")[:LONGEST_LINE] for line in lines]


async def chunks_of(descriptor: int) -> AsyncGenerator[bytes]:
    """The bytes of a file descriptor as they come, until its end."""
    waits = True
    while True:
        if waits:
            try:
                await trio.lowlevel.wait_readable(descriptor)
            except OSError:
                waits = False  # a plain file, or a platform that cannot wait for one
        if waits:
            data = os.read(descriptor, CHUNK)
        else:
            data = await trio.to_thread.run_sync(os.read, descriptor, CHUNK, abandon_on_cancel=True)
        if not data:
            return
        yield data


async def lines_of(descriptor: int) -> AsyncGenerator[str]:
    """The lines that come from a file descriptor, until its end."""
    splitter = LineSplitter()
    async with aclosing(chunks_of(descriptor)) as chunks:
        async for data in chunks:
            for line in splitter.feed(data):
                yield line
    for line in splitter.feed(b""):
        yield line


async def no_lines() -> AsyncGenerator[str]:
    """What comes from an input that is closed."""
    for line in ():
        yield line
