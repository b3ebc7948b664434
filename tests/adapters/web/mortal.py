"""A server that is killed: ``python -m tests.adapters.web.mortal FOLDER PORT SAYS``. With ``hang`` it never ends what it says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import trio

from tests.adapters.web.served import OPTIONS
from treadle import Host, ModelRequest, ScriptedModel
from treadle.models import BlockStart, TextDelta
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_adapters.web import app, serve
from treadle_diagrams import LivePictures

TOKEN = "the-token-of-the-page"


async def half(_: ModelRequest) -> Any:
    """Say half of something."""
    yield BlockStart(0, "text")
    yield TextDelta(0, "Half of what I was going to say")
    await trio.sleep_forever()


async def main(folder: Path, port: int, says: str) -> None:
    """Serve until the process is killed."""
    async with Host(store=JsonlStore(folder)) as host:
        host.models.register("scripted", ScriptedModel([half if says == "hang" else says]))
        web = app(host, tokens={TOKEN: None}, agent_options=OPTIONS, pictures=LivePictures())
        await serve(web, "127.0.0.1", port, ready=lambda url: print(url, flush=True), until=trio.sleep_forever)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
