"""Agents behind a real server on this machine, under hypercorn or uvicorn, and a client that can be cut at any byte."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import h11
import httpx
import trio
import uvicorn

from tests.hosts import OPTIONS
from treadle import Host
from treadle.asyncio import Bridge
from treadle.session import encode_event
from treadle_adapters.web import Limits, Web, app, serve

SERVERS = ("hypercorn", "uvicorn")


class Server:
    """A server that runs; ``client`` makes clients of it."""

    def __init__(self, web: Web, host: Host, port: int) -> None:
        self.web = web
        self.host = host
        self.port = port
        self.stop = trio.Event()
        self.listeners: list[Listener] = []

    def client(self, token: str | None = None, **headers: str) -> httpx.AsyncClient:
        token = token if token is not None else self.web.token
        auth = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}", headers=auth | headers, timeout=60, trust_env=False
        )

    async def listen(self, session: str, after: str | None = None, token: str | None = None) -> Listener:
        """Open a stream of a session."""
        listener = Listener(await trio.open_tcp_stream("127.0.0.1", self.port))
        self.listeners.append(listener)
        await listener.ask(f"/api/sessions/{session}/stream", token or self.web.token or "", after)
        return listener

    def log(self, session: str) -> list[Any]:
        """The log of a live session, as clients should have it."""
        agent = self.host.agents.get(session)
        assert agent is not None
        return [json.loads(encode_event(entry)) for entry in agent.session.events]


class Listener:
    """A client of one stream, over a socket of its own."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT)
        self._text = b""
        self.status = 0
        self.read = 0

    async def ask(self, path: str, token: str, after: str | None) -> None:
        headers = [("host", "127.0.0.1"), ("authorization", f"Bearer {token}")]
        if after is not None:
            headers.append(("last-event-id", after))
        data = self._http.send(h11.Request(method="GET", target=path, headers=headers))
        await self._stream.send_all((data or b"") + (self._http.send(h11.EndOfMessage()) or b""))

    async def next(self, most: int = 65536) -> dict[str, Any] | None:
        """The next message; ``None`` when the stream has ended in order."""
        while True:
            block, found, rest = self._text.partition(b"\n\n")
            if found:
                self._text = rest
                told = _message(block.decode())
                if told is not None:
                    return told
                continue
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                data = await self._stream.receive_some(most)
                self.read += len(data)
                self._http.receive_data(data)
            elif isinstance(event, h11.Response):
                self.status = event.status_code
            elif isinstance(event, h11.Data):
                self._text += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return None

    async def until(self, wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """Messages up to the one that is wanted."""
        found: list[dict[str, Any]] = []
        while True:
            told = await self.next()
            assert told is not None, "the stream ended"
            found.append(told)
            if wanted(told):
                return found

    async def close(self) -> None:
        await trio.aclose_forcefully(self._stream)


def _message(block: str) -> dict[str, Any] | None:
    fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
    if "event" not in fields:
        return None
    return {"event": fields["event"], "id": fields.get("id"), "data": json.loads(fields["data"])}


def event_of(kind: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a message is a log event of a type."""
    return lambda told: told["event"] == "event" and told["data"]["type"] == kind


@asynccontextmanager
async def served(
    host: Host, kind: str = "hypercorn", *, drain: float = 5, stalled: float = 5, port: int = 0, **options: Any
) -> AsyncIterator[Server]:
    """Serve a host that was not entered yet."""
    options = {"agent_options": OPTIONS, "limits": Limits(), **options}
    async with trio.open_nursery() as nursery:
        if kind == "hypercorn":
            made = app(host, **options)
            bound: list[str] = []
            server = Server(made, host, 0)

            async def run(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
                async with host:

                    def ready(url: str) -> None:
                        bound.append(url)
                        task_status.started()

                    await serve(
                        made, "127.0.0.1", port, ready=ready, until=server.stop.wait, drain=drain, stalled=stalled
                    )

            await nursery.start(run)
            server.port = int(bound[0].rpartition(":")[2])
        else:
            server = await nursery.start(_under_uvicorn, host, options, drain)
        try:
            yield server
        finally:
            with trio.CancelScope(shield=True):
                for listener in server.listeners:
                    await listener.close()
            server.stop.set()


async def _under_uvicorn(
    host: Host, options: dict[str, Any], drain: float, task_status: trio.TaskStatus[Server]
) -> None:
    token = trio.lowlevel.current_trio_token()
    stopping = threading.Event()
    ends: list[BaseException] = []
    over = trio.Event()
    ready = trio.Event()
    made: list[Server] = []

    async def main() -> None:
        async with Bridge(host) as bridge:
            web = app(bridge, **options)
            config = uvicorn.Config(web, port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=5)
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve())
            while not server.started:  # noqa: ASYNC110  # the server has no event for it
                await asyncio.sleep(0.001)
            made.append(Server(web, host, server.servers[0].sockets[0].getsockname()[1]))
            token.run_sync_soon(ready.set)
            await asyncio.get_running_loop().run_in_executor(None, stopping.wait)
            await web.drain(drain)
            server.should_exit = True
            await serving

    def ended() -> None:
        ready.set()
        over.set()

    def thread() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            ends.append(error)
        token.run_sync_soon(ended)

    running = threading.Thread(target=thread)
    running.start()
    await ready.wait()
    if made:
        task_status.started(made[0])
        try:
            await made[0].stop.wait()
        finally:
            stopping.set()
            with trio.CancelScope(shield=True):
                await over.wait()
    await trio.to_thread.run_sync(running.join)
    if ends:
        raise ends[0]


@contextmanager
def served_in_thread(host: Host, **options: Any) -> Iterator[Server]:
    """The same for a test that is no trio task, such as one that drives a browser."""
    started: queue.SimpleQueue[Server | BaseException] = queue.SimpleQueue()
    tokens: list[trio.lowlevel.TrioToken] = []

    async def main() -> None:
        async with served(host, **options) as server:
            tokens.append(trio.lowlevel.current_trio_token())
            started.put(server)
            await server.stop.wait()

    def thread() -> None:
        try:
            trio.run(main)
        except BaseException as error:
            started.put(error)

    running = threading.Thread(target=thread)
    running.start()
    server = started.get()
    if isinstance(server, BaseException):
        raise server
    try:
        yield server
    finally:
        tokens[0].run_sync_soon(server.stop.set)
        running.join()
    if not started.empty():
        failed = started.get()
        assert isinstance(failed, BaseException)
        raise failed
