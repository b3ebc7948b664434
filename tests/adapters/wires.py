"""What the tests of model adapters share: recorded bodies, an in-memory transport, a loopback server, and outcomes."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import h11
import httpx
import trio
import trio.testing
from attrs import define, field, frozen

from treadle import AssistantMessage, Block, Failure, Message, ModelFailure, ModelRequest, Reasoning, Signal, Text
from treadle.models import DEFAULT_BOUNDS, AnswerBounds, CallConfig, Chunk, ModelAdapter, ToolSchema, Usage
from treadle.models.assembly import Recorder
from treadle.words.messages import user_message

HERE = Path(__file__).parent / "wire"
After = Literal["close", "abort", "hold"]


@frozen
class Body:
    """One recorded response body and what must come of it."""

    name: str
    proto: str
    status: int
    headers: dict[str, str]
    cuts: tuple[int, ...]
    after: After
    expect: dict[str, Any]

    @property
    def data(self) -> bytes:
        return (HERE / self.name).read_bytes()

    def pieces(self) -> list[bytes]:
        return cut(self.data, self.cuts)


def cut(data: bytes, at: Iterable[int]) -> list[bytes]:
    edges = [0, *at, len(data)]
    return [data[start:end] for start, end in pairwise(edges) if end > start]


def bodies(*protos: str) -> list[Body]:
    rows = json.loads((HERE / "index.json").read_text())
    found: list[Body] = []
    for row in rows:
        size = (HERE / row["file"]).stat().st_size
        cuts = {"none": (), "every_byte": range(1, size)}.get(str(row["split"]), row["split"])
        body = Body(row["file"], row["proto"], row["status"], row["headers"], tuple(cuts), row["after"], row["expect"])
        if not protos or body.proto in protos:
            found.append(body)
    return found


@define
class _Pieces(httpx.AsyncByteStream):
    transport: MemoryTransport
    pieces: Sequence[bytes]
    after: After

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            await trio.lowlevel.checkpoint()
            if self.transport.gap:
                await trio.sleep(self.transport.gap)
            yield piece
        if self.after == "hold":
            await trio.sleep_forever()
        if self.after == "abort":
            raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")

    async def aclose(self) -> None:
        self.transport.closed += 1


@define
class MemoryTransport(httpx.AsyncBaseTransport):
    """Answers every request with the same pieces; counts the bodies that were closed."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: dict[str, str] = field(factory=lambda: {"Content-Type": "text/event-stream"})
    after: After = "close"
    gap: float = 0.0
    before: Callable[[], Any] | None = None
    requests: list[httpx.Request] = field(factory=list)
    opened: int = 0
    closed: int = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        await request.aread()
        if self.before is not None:
            await self.before()
        self.opened += 1
        return httpx.Response(
            self.status, headers=self.headers, stream=_Pieces(self, self.pieces, self.after), request=request
        )

    def sent(self) -> dict[str, Any]:
        """The body of the latest request."""
        return json.loads(self.requests[-1].content)


def memory(body: Body, pieces: Sequence[bytes] | None = None) -> MemoryTransport:
    return MemoryTransport(pieces if pieces is not None else body.pieces(), body.status, body.headers, body.after)


@define
class Loopback:
    """A tiny HTTP server on 127.0.0.1 that answers every request of every connection with the same body.

    With ``keep`` a connection serves many requests; with ``drop`` it is closed, without a word, once it has served
    that many and is asked for more.
    """

    pieces: Sequence[bytes]
    status: int = 200
    headers: dict[str, str] = field(factory=lambda: {"Content-Type": "text/event-stream"})
    after: After = "close"
    keep: bool = False
    drop: int | None = None
    url: str = ""
    connections: int = 0
    hung_up: trio.Event = field(factory=trio.Event)
    answered: trio.Event = field(factory=trio.Event)

    async def start(self, nursery: trio.Nursery) -> str:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, self._serve, listeners)
        port = listeners[0].socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return self.url

    async def _serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        conn = h11.Connection(h11.SERVER)
        try:
            served = 0
            while await self._request(conn, stream) and served != self.drop:
                served += 1
                await self._answer(conn, stream)
                if self.after == "abort":
                    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                if self.after == "hold":
                    await self._hold(stream)
                if self.after != "close" or not self.keep:
                    return
                conn.start_next_cycle()
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            pass
        finally:
            self.hung_up.set()
            await stream.aclose()

    async def _request(self, conn: h11.Connection, stream: trio.SocketStream) -> bool:
        while True:
            event = conn.next_event()
            if event is h11.NEED_DATA:
                conn.receive_data(await stream.receive_some())
            elif isinstance(event, h11.ConnectionClosed):
                return False
            elif isinstance(event, h11.EndOfMessage):
                return True

    async def _answer(self, conn: h11.Connection, stream: trio.SocketStream) -> None:
        send = partial(self._send, conn, stream)
        headers = list(self.headers.items())
        await send(h11.Response(status_code=self.status, headers=[*headers, ("Transfer-Encoding", "chunked")]))
        for piece in self.pieces:
            await trio.testing.wait_all_tasks_blocked()
            await send(h11.Data(data=piece))
        self.answered.set()
        await trio.testing.wait_all_tasks_blocked()
        if self.after == "close":
            await send(h11.EndOfMessage())

    async def _send(self, conn: h11.Connection, stream: trio.SocketStream, event: Any) -> None:
        await stream.send_all(conn.send(event) or b"")

    async def _hold(self, stream: trio.SocketStream) -> None:
        while await stream.receive_some():
            pass


@define
class Outcome:
    """What came of one attempt."""

    blocks: tuple[Block, ...] = ()
    chunks: list[Chunk] = field(factory=list)
    finish: str | None = None
    usage: Usage | None = None
    failure: Failure | None = None
    message: AssistantMessage | None = None

    @property
    def code(self) -> str | None:
        return self.failure.code if self.failure is not None else None

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def reasoning(self) -> str:
        return "".join(block.text for block in self.blocks if isinstance(block, Reasoning))

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        message = AssistantMessage(self.blocks)
        return [(call.call_id, call.name, call.arguments) for call in message.calls]


def request(
    *messages: Message,
    tools: tuple[ToolSchema, ...] = (),
    config: CallConfig | None = None,
    session_id: str = "s1",
    bounds: AnswerBounds = DEFAULT_BOUNDS,
) -> ModelRequest:
    return ModelRequest(
        config=config or CallConfig(provider="p", model="m-test"),
        messages=list(messages) or [user_message("hello", "u1")],
        tools=tools,
        attempt_id="a1",
        session_id=session_id,
        signal=Signal(),
        bounds=bounds,
    )


async def outcome(model: ModelAdapter, asked: ModelRequest | None = None) -> Outcome:
    """Run one attempt to its end and assemble what it gave, as the driver would."""
    recorder = Recorder()
    out = Outcome()
    try:
        async with aclosing(model.stream(asked or request())) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                recorder.add(chunk, 0.0)
                out.chunks.append(chunk)
    except ModelFailure as error:
        out.failure = error.failure
    out.blocks = recorder.blocks(calls=out.failure is None)
    out.usage = recorder.usage
    out.finish = recorder.finish.kind if recorder.finish is not None else None
    out.message = AssistantMessage(out.blocks, model.name, recorder.finish_replay)
    return out
