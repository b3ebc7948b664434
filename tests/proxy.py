"""A proxy in front of a server, which cuts connections and loses answers when it is told to."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

LONGEST = 1 << 16


class Proxy:
    """Passes bytes on to a port of 127.0.0.1, in threads of its own."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lost = 0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._mark: bytes | None = None
        self._frozen = threading.Event()
        self._frozen.set()
        self._refusing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answer_to(self, mark: bytes) -> None:
        """The next time that a client sends this, the server gets it, and its answer is lost with the connection."""
        self._mark = mark

    def cut(self) -> None:
        """End all connections."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            _end(pair)

    def refuse(self, refusing: bool) -> None:  # a switch
        """Whether new connections end at once."""
        self._refusing = refusing

    def freeze(self) -> None:
        """Pass nothing on any more, and say nothing."""
        self._frozen.clear()

    def thaw(self) -> None:
        """Pass on what waits."""
        self._frozen.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._refusing:
                    client.close()
                    continue
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                pair = (client, server)
                self._pairs.append(pair)
                muted = threading.Event()
                threading.Thread(target=self._requests, args=(pair, muted), daemon=True).start()
                threading.Thread(target=self._answers, args=(pair, muted), daemon=True).start()

    def _requests(self, pair: tuple[socket.socket, socket.socket], muted: threading.Event) -> None:
        client, server = pair
        with contextlib.suppress(OSError):
            while data := client.recv(LONGEST):
                self._frozen.wait()
                if self._mark is not None and self._mark in data:
                    self._mark = None
                    muted.set()
                server.sendall(data)
        _end(pair)

    def _answers(self, pair: tuple[socket.socket, socket.socket], muted: threading.Event) -> None:
        client, server = pair
        with contextlib.suppress(OSError):
            while data := server.recv(LONGEST):
                self._frozen.wait()
                if muted.is_set():
                    self.lost += 1
                    break
                client.sendall(data)
        _end(pair)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.thaw()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()


def _end(pair: tuple[socket.socket, socket.socket]) -> None:
    for each in pair:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
