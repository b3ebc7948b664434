"""The server that is measured: ``python -m benchmarks.web.child SUBJECT SERVER PACE DELTAS``.

It tells its port and token in a line, and then, for each line it reads, what it has used: processor seconds, bytes of memory,
sessions in memory. It ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

PAGE = resource.getpagesize()
FRAME = (
    b"id: 7.1796149276349~01a232d6-eebc-71bf-8a8d-3877090bb68a\nevent: frames\n"
    b'data: {"attemptId":"01a232d6-eebc-71bf-8a8d-3877090bb68a","turn":1,"step":1,"from":%05d,"next":%05d,'
    b'"chunks":[{"type":"text-delta","index":0,"text":"word "}]}\n\n'
)
"""A frame as ours tells it; the bare generator tells the same bytes."""


def used(loaded: Callable[[], int]) -> str:
    """What this process has used, as a line."""
    memory = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    return json.dumps({"cpu": time.process_time(), "memory": memory, "loaded": loaded()})


def bare(pace: float) -> Starlette:
    """The least that Starlette takes for a paced stream."""

    async def words(number: int) -> AsyncIterator[bytes]:
        for at in range(number):
            await anyio.sleep(pace)
            yield FRAME % (at, at + 1)

    async def stream(request: Request) -> StreamingResponse:
        return StreamingResponse(words(int(request.query_params["deltas"])), media_type="text/event-stream")

    return Starlette(routes=[Route("/stream", stream)])


async def trio_main(subject: str, pace: float, deltas: int) -> None:
    """Serve under hypercorn on trio."""
    import trio

    from treadle_adapters.web.serving import listening

    if subject == "bare":
        from hypercorn.config import Config
        from hypercorn.trio import serve as run_server

        config = Config()
        listener = listening("127.0.0.1", 0, 10)
        port = listener.getsockname()[1]
        config.bind = [f"fd://{listener.detach()}"]
        config.accesslog = config.errorlog = None
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: run_server(bare(pace), config, task_status=task_status))  # type: ignore[arg-type]
            await _talk(port, "", lambda: 0)
            nursery.cancel_scope.cancel()
        return
    from treadle_adapters.web import serve

    from .subject import host_of, web_of

    host = host_of(subject, pace, deltas)
    web = web_of(host)
    over = trio.Event()

    async with host, trio.open_nursery() as nursery:

        async def talk(url: str) -> None:
            await _talk(int(url.rpartition(":")[2]), web.token or "", lambda: len(host.agents.list()))
            over.set()

        def ready(url: str) -> None:
            nursery.start_soon(talk, url)

        await serve(web, "127.0.0.1", 0, ready=ready, until=over.wait, drain=1.0, stalled=5.0)
        print(json.dumps({"drained": True}), flush=True)


async def _talk(port: int, token: str, loaded: Callable[[], int]) -> None:
    import trio

    print(json.dumps({"port": port, "token": token}), flush=True)
    while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        print(used(loaded), flush=True)


async def asyncio_main(subject: str, pace: float, deltas: int) -> None:
    """Serve under uvicorn."""
    import uvicorn

    async def run(application: Any, token: str) -> None:
        server = uvicorn.Server(
            uvicorn.Config(application, port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        )
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110  # the server has no event for it
            await asyncio.sleep(0.01)
        print(json.dumps({"port": server.servers[0].sockets[0].getsockname()[1], "token": token}), flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(used(lambda: 0), flush=True)
        server.should_exit = True
        await serving

    if subject == "bare":
        await run(bare(pace), "")
    elif subject == "pydantic_ai":
        from pydantic_agent import application  # pyright: ignore[reportMissingImports]  # beside this file: the other package's environment knows no treadle

        await run(application(pace, deltas), "")
    else:
        from treadle.asyncio import Bridge

        from .subject import host_of, web_of

        async with Bridge(host_of(subject, pace, deltas)) as bridge:
            web = web_of(bridge)
            await run(web, web.token or "")


def main() -> None:
    """See the module."""
    subject, server, pace, deltas = sys.argv[1:]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if server == "hypercorn":
        import trio

        trio.run(trio_main, subject, float(pace), int(deltas))
    else:
        sys.path.insert(0, str(Path(__file__).parent))
        asyncio.run(asyncio_main(subject, float(pace), int(deltas)))


if __name__ == "__main__":
    main()
