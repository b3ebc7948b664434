"""Front ends of others, in Node.js: where they are, and how a test has one do something."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

FOLDER = "TREADLE_WEB_CLIENTS"
"""The variable that names a folder into which npm has installed the clients, and a Node.js that is new enough for them."""
HERE = Path(__file__).parent


def installed(package: str) -> Path:
    """The folder of an installed package; skips where there is none."""
    folder = os.environ.get(FOLDER)
    found = Path(folder) / "node_modules" / package if folder else None
    if found is None or not found.is_dir():
        pytest.skip(f"{package} is not below ${FOLDER} (npm; see docs/dependencies.md)")
    return found


class Client:
    """A front end that runs in a process of its own."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._read = b""

    async def do(self, what: str, **how: Any) -> Any:
        """Have it do something, and return what it holds then."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        await self._process.stdin.send_all(json.dumps({"do": what, **how}).encode() + b"\n")
        while b"\n" not in self._read:
            data = await self._process.stdout.receive_some()
            assert data, "the client has ended; its standard error says why"
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return json.loads(line)


@asynccontextmanager
async def client(script: str, package: str, *args: str) -> AsyncIterator[Client]:
    """Run a front end; its standard error is the test's."""
    folder = installed(package)
    node = folder.parents[package.count("/")] / ".bin" / "node"
    command = [str(node), str(HERE / script), str(folder), *args]
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False)
        process: trio.Process = await nursery.start(run)
        try:
            yield Client(process)
        finally:
            process.kill()
