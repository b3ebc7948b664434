"""Telling followers that sessions were written: in statements of their own, and few (a commit with one holds up others)."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, TypeVar

import trio

from treadle import StoreFailure

from .link import Connection, Link

T = TypeVar("T")
PAUSE = 0.02
"""Seconds between two statements that tell; what was written meanwhile is told together."""
CHANNEL = "treadle_written"
LONGEST = 7_000
"""Bytes of one notification; the server takes less than 8,000."""


class Telling(Generic[T]):
    """Tells things soon, in a thread while there are any: what comes meanwhile is told together, and each once.

    What is lost is no loss: whoever waits for it also looks by himself.

    Args:
        link: a connection.
        tell: the statement that tells some.
        pause: seconds between two statements.
    """

    def __init__(self, link: Link, tell: Callable[[Connection, list[T]], None], pause: float) -> None:
        self._link = link
        self._tell = tell
        self._pause = pause
        self._lock = threading.Lock()
        self._things: dict[T, None] = {}
        self._busy = False

    def soon(self, things: Iterable[T]) -> None:
        """Tell these soon; from any thread of the trio run."""
        with self._lock:
            self._things.update(dict.fromkeys(things))
            if self._busy or not self._things:
                return
            self._busy = True
        trio.lowlevel.start_thread_soon(self._run, lambda _: None)

    def _run(self) -> None:
        while True:
            with self._lock:
                things, self._things = self._things, {}
                if not things:
                    self._busy = False
                    return
            with contextlib.suppress(StoreFailure):  # it is the writing that tells of a database that is away
                self._link.call(self._tell, list(things))
            time.sleep(self._pause)


class Notices:
    """Tells which sessions were written."""

    def __init__(self, link: Link) -> None:
        self._telling = Telling[str](link, partial(_notify, schema=link.place.schema), PAUSE)

    def tell(self, sessions: list[str]) -> None:
        """Tell of these soon."""
        self._telling.soon(sessions)


def _notify(conn: Connection, sessions: list[str], schema: str) -> None:
    payloads: list[str] = [schema]
    for session in sessions:
        if len(payloads[-1]) + len(session) >= LONGEST:
            payloads.append(schema)
        payloads[-1] += f" {session}"
    conn.execute("select pg_notify(%s, payload) from unnest(%s::text[]) payload", (CHANNEL, payloads))
