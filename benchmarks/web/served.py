"""A server in a process of its own, and clients over bare sockets: what they cost is not the server's."""

from __future__ import annotations

import http.client
import json
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field

ROOT = Path(__file__).parents[2]


@define(eq=False)
class Server:
    """A server that runs."""

    process: subprocess.Popen[str]
    port: int
    token: str
    readers: list[socket.socket] = field(factory=lambda: [])

    def used(self) -> Any:
        """What it has used so far: ``cpu`` seconds, ``memory`` bytes, sessions ``loaded``."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def connection(self) -> http.client.HTTPConnection:
        """A kept connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def post(self, connection: http.client.HTTPConnection, path: str, body: Any) -> Any:
        """Post JSON and return JSON."""
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
        assert response.status < 300, text
        return json.loads(text)

    def open(self, path: str, body: Any = None) -> socket.socket:
        """Ask for a stream; nothing of it is read yet."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n"
        )
        head += f"authorization: Bearer {self.token}\r\n" if self.token else ""
        head += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n" if content else ""
        made.sendall(head.encode() + b"\r\n" + content)
        made.setblocking(False)
        self.readers.append(made)
        return made

    def read(self, until: Callable[[int, bytes], bool], seconds: float = 120) -> None:
        """Read all streams until ``until`` says so of what came, by the reader's number; or for so long."""
        numbers = {reader.fileno(): number for number, reader in enumerate(self.readers)}
        polled = select.epoll()
        for reader in self.readers:
            polled.register(reader, select.EPOLLIN)
        end = time.monotonic() + seconds
        with polled:
            while (left := end - time.monotonic()) > 0:
                for descriptor, _ in polled.poll(left):
                    data = self.readers[numbers[descriptor]].recv(1 << 20)
                    if not data:
                        polled.unregister(descriptor)
                    if until(numbers[descriptor], data):
                        return


@contextmanager
def server(
    subject: str, kind: str, *, pace: float = 0.0, deltas: int = 0, python: str = sys.executable
) -> Iterator[Server]:
    """Run a server. See ``child``."""
    words = ["-m", "benchmarks.web.child"] if python == sys.executable else [str(Path(__file__).with_name("child.py"))]
    process = subprocess.Popen(
        [python, *words, subject, kind, str(pace), str(deltas)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        told = json.loads(process.stdout.readline())
        made = Server(process, told["port"], told["token"])
        try:
            yield made
        finally:
            for reader in made.readers:
                reader.close()
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
