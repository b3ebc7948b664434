"""A chat-completions server on 127.0.0.1 that says what a test tells it to say, when it tells it to."""

from __future__ import annotations

import json
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WAIT = 30.0


class Hold:
    """A place in an answer where the server waits: until it is told to go on, or the client is gone."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()
        self.dropped = threading.Event()

    def wait(self, connection: Any) -> bool:
        """Wait there; returns whether the client is still connected."""
        self.reached.set()
        for _ in range(int(WAIT / 0.02)):
            if self.released.is_set():
                return True
            if select.select([connection], [], [], 0.02)[0] and not connection.recv(1):
                self.dropped.set()
                return False
        return False


Piece = str | Hold | dict[str, Any]
"""Text, a place to wait, or a whole delta."""


class ChatServer:
    """What the server does: plays ``answers``, one per request, and keeps the requests."""

    def __init__(self) -> None:
        self.answers: list[list[Piece] | tuple[int, dict[str, Any]]] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.models = ["wool"]
        self.url = ""

    def said(self, number: int) -> list[str]:
        """The contents of the messages of a request."""
        return [str(message["content"]) for message in self.requests[number]["messages"]]


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """One event of the stream."""
    body = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


@contextmanager
def serving() -> Iterator[ChatServer]:
    """Run a server."""
    script = ChatServer()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._json(200, {"data": [{"id": name} for name in script.models]})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            script.requests.append(json.loads(body))
            script.headers.append(dict(self.headers))
            answer: Any = script.answers.pop(0) if script.answers else ["Done."]
            if isinstance(answer, tuple):
                self._json(*answer)
            else:
                self._stream(answer)

        def _json(self, status: int, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, pieces: list[Piece]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.close_connection = True
            finish = "stop"
            for piece in pieces:
                if isinstance(piece, Hold):
                    if not piece.wait(self.connection):
                        return
                    continue
                delta = {"content": piece} if isinstance(piece, str) else piece
                finish = "tool_calls" if "tool_calls" in delta else str(delta.get("finish", finish))
                self.wfile.write(chunk(delta))
            self.wfile.write(chunk({}, finish) + b"data: [DONE]\n\n")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
