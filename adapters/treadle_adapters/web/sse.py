"""A stream over HTTP: server-sent events, resumed by ``Last-Event-ID``."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import Receive, Scope, Send

from .answers import CLEAN, while_there
from .streams import Stream, Told

RETRY = 1_000
"""Milliseconds after which a browser comes back to a stream that ended."""
HEADERS: list[tuple[bytes, bytes]] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def encoded(told: Sequence[Told]) -> bytes:
    """Messages as server-sent events; none is a comment, which says that the stream lives."""
    if not told:
        return b": still here\n\n"
    out: list[bytes] = []
    for one in told:
        if one.id is not None:
            out += [b"id: ", one.id.encode(), b"\n"]
        out += [b"event: ", one.event.encode(), b"\ndata: ", one.data, b"\n\n"]
    return b"".join(out)


class EventStream:
    """An ASGI response that tells a stream until either side ends it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        stream = self._stream
        async with while_there(receive, stream.heartbeat, stream.pulse):
            with stream:
                await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
                await send(_body(b"retry: %d\n\n" % RETRY))
                over = False
                while not over:
                    told = await stream.next()
                    over = bool(told) and told[-1].event == "bye"
                    await send(_body(encoded(told)))
                await send({"type": "http.response.body", "body": b"", "more_body": False})


def _body(data: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": data, "more_body": True, CLEAN: True}
