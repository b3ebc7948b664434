"""curl as a client: the commands of docs/web.md, under both servers."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
import trio

from tests.adapters.web.served import SERVERS, Server, served
from treadle import Host, MemoryStore, ScriptedModel

PAGE = Path(__file__).parents[3] / "docs" / "web.md"
pytestmark = [
    pytest.mark.parametrize("kind", SERVERS),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


def command(server: Server, begins: str, session: str = "") -> list[str]:
    """A command of the page, for this server and session."""
    (line,) = [line for line in PAGE.read_text().splitlines() if line.startswith(begins)]
    line = line.replace("http://127.0.0.1:8321", f"http://127.0.0.1:{server.port}").replace("SESSION", session)
    return ["sh", "-c", line]


async def test_the_commands_of_the_page_do_what_it_says(kind: str) -> None:
    host = Host(store=MemoryStore())
    host.models.register("scripted", ScriptedModel(["Hello to you."]))
    async with served(host, kind) as server, trio.open_nursery() as nursery:
        environment: Any = {"TOKEN": server.web.token, "PATH": str(Path(shutil.which("curl") or "").parent) + ":/bin"}
        made = await trio.run_process(command(server, "curl -s"), capture_stdout=True, env=environment)
        session = json.loads(made.stdout)["id"]
        run = partial(trio.run_process, command(server, "curl -N", session), stdout=PIPE, stderr=PIPE, check=False)
        process: trio.Process = await nursery.start(partial(run, env=environment))
        assert process.stdout is not None
        text = b""
        while b'"type":"turn/end"' not in text:
            text += await process.stdout.receive_some()
        assert b"Hello to you." in text
        server.stop.set()  # a drain: the stream says goodbye, and curl ends as it should
        while piece := await process.stdout.receive_some():
            text += piece
        assert b'event: bye\ndata: {"reason":"draining"}' in text
        assert await process.wait() == 0
