"""What a server bears: ``python -m benchmarks.web.load [idle | stalled | loris | bodies | sessions]… [--count N] [--server KIND]``.

Each load is put on a server of its own, is told in a line, and fails where a bound is broken: memory, what others wait for, how
long the drain takes. Loads of thousands take minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .served import Server, server

DRAIN = 15.0
"""Seconds, beside those in which it computes, within which a server must have ended whatever its clients do."""
IDLE_BYTES = 40_000
"""What an idle stream may take."""


def _session(made: Server, text: str | None = None) -> str:
    return made.post(made.connection(), "/api/sessions", {} if text is None else {"message": text})["id"]


def _others_wait(made: Server) -> float:
    """Seconds that another client's request takes, connection included: the median of some."""
    taken: list[float] = []
    for _ in range(9):
        began = time.monotonic()
        connection = made.connection()
        connection.request("GET", "/healthz")
        assert connection.getresponse().read()
        connection.close()
        taken.append(time.monotonic() - began)
    return sorted(taken)[4]


def _drained(made: Server) -> dict[str, float]:
    """How long the end takes, and what it computes meanwhile: on a machine that is busy the one says little."""
    assert made.process.stdin is not None
    before, began = made.used()["cpu"], time.monotonic()
    made.process.stdin.close()
    _, _, used = os.wait4(made.process.pid, 0)
    made.process.returncode = 0
    return {"drain": time.monotonic() - began, "drain cpu": used.ru_utime + used.ru_stime - before}


def idle(count: int, kind: str) -> dict[str, Any]:
    """Streams on which nothing happens, then one event for all."""
    with server("agents", kind, deltas=1) as made:
        name = _session(made)
        before = made.used()["memory"]
        for _ in range(count):
            made.open(f"/api/sessions/{name}/stream")
        ready: set[int] = set()

        def is_ready(number: int, data: bytes) -> bool:
            if b"event: state" in data:
                ready.add(number)
            return len(ready) == count

        made.read(is_ready, 400)
        assert len(ready) == count
        each = (made.used()["memory"] - before) / count
        cpu = made.used()["cpu"]
        made.post(made.connection(), f"/api/sessions/{name}/messages", {"text": "Go"})
        over: set[int] = set()
        events = 0

        def is_over(number: int, data: bytes) -> bool:
            nonlocal events
            events += data.count(b"event: ")
            if b'"turn/end"' in data:
                over.add(number)
            return len(over) == count

        made.read(is_over, 400)
        assert len(over) == count
        told = {
            "bytes": round(each),
            "µs/message": round((made.used()["cpu"] - cpu) / events * 1e6),
            "wait": _others_wait(made),
        }
        told |= _drained(made)
        assert each <= IDLE_BYTES, told
        return told


def stalled(count: int, kind: str) -> dict[str, Any]:
    """Readers that take nothing, of a session of some megabytes."""
    with server("agents", kind, deltas=1) as made:
        name = _session(made)
        for _ in range(6):
            made.post(made.connection(), f"/api/sessions/{name}/messages", {"text": "much " * 100_000})
        for _ in range(count):
            made.open(f"/api/sessions/{name}/stream")
        time.sleep(3)
        return {"memory": made.used()["memory"], "wait": _others_wait(made), **_drained(made)}


def loris(count: int, kind: str) -> dict[str, Any]:
    """Connections whose header never ends."""
    with server("agents", kind) as made:
        before = made.used()["memory"]
        for _ in range(count):
            reader = socket.create_connection(("127.0.0.1", made.port), timeout=60)
            reader.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ")
            made.readers.append(reader)
        told: dict[str, Any] = {"bytes": round((made.used()["memory"] - before) / count), "wait": _others_wait(made)}
        closed, end = 0, time.monotonic() + 60
        while closed < count and time.monotonic() < end:
            time.sleep(1)
            closed = 0
            for reader in made.readers:
                with suppress(OSError):
                    reader.setblocking(False)
                    reader.send(b"x")
                    continue
                closed += 1
        told |= {"closed": closed, **_drained(made)}
        return told


def bodies(count: int, kind: str) -> dict[str, Any]:
    """Bodies of a gigabyte each, by their length and in chunks."""
    piece = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    refused = 0
    with server("agents", kind) as made:
        before = most = made.used()["memory"]
        for number in range(count):
            head = f"POST /api/sessions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {made.token}\r\ncontent-type: application/json\r\n"
            length = f"content-length: {1 << 30}\r\n\r\n" if number % 2 else "transfer-encoding: chunked\r\n\r\n"
            with socket.create_connection(("127.0.0.1", made.port), timeout=60) as client:
                client.sendall((head + length).encode())
                with suppress(OSError):
                    for _ in range(1 << 14):  # a gigabyte
                        client.sendall(piece)
                with suppress(OSError):
                    refused += b" 413 " in client.recv(100)
            most = max(most, made.used()["memory"])
        told: dict[str, Any] = {
            "refused": refused,
            "memory": most - before,
            "wait": _others_wait(made),
            **_drained(made),
        }
        assert told["memory"] < 64 << 20, told
        return told


def sessions(count: int, kind: str) -> dict[str, Any]:
    """Sessions that were spoken to once, of which 200 are in memory."""
    with server("stored", kind, deltas=1) as made:
        connection = made.connection()
        names = [made.post(connection, "/api/sessions", {"message": "Go"})["id"] for _ in range(count)]
        loaded = made.used()["loaded"]
        began = time.monotonic()
        for name in names[:: max(1, count // 50)]:
            made.post(connection, f"/api/sessions/{name}/messages", {"text": "Go on", "id": "again"})
        told: dict[str, Any] = {
            "loaded": loaded,
            "resumed in": (time.monotonic() - began) / 50,
            "memory": made.used()["memory"],
        }
        told |= _drained(made)
        assert 0 < loaded <= 200, told
        return told


LOADS: dict[str, tuple[Callable[[int, str], dict[str, Any]], int]] = {
    "idle": (idle, 2_000),
    "stalled": (stalled, 200),
    "loris": (loris, 500),
    "bodies": (bodies, 6),
    "sessions": (sessions, 10_000),
}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loads", nargs="*", choices=[*LOADS, []], default=[])
    parser.add_argument("--count", type=int)
    parser.add_argument("--server", default="hypercorn", choices=["hypercorn", "uvicorn"])
    given = parser.parse_args()
    for name in given.loads or LOADS:
        load, count = LOADS[name]
        told = load(given.count or count, given.server)
        assert told["drain"] < DRAIN + 2 * told["drain cpu"], told
        assert told.get("wait", 0) < 1, told
        told = {key: round(value, 3) if isinstance(value, float) else value for key, value in told.items()}
        print(
            json.dumps(
                {"load": name, "count": given.count or count, "server": given.server, **told}, ensure_ascii=False
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
