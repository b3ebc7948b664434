"""Telling followers that sessions were written: in statements of their own, and few (a commit with one holds up others)."""

from __future__ import annotations

import contextlib
import threading
import time

import trio

from treadle import StoreFailure

from .link import Connection, Link

PAUSE = 0.02
"""Seconds between two statements that tell; what was written meanwhile is told together."""
CHANNEL = "treadle_written"
LONGEST = 7_000
"""Bytes of one notification; the server takes less than 8,000."""


class Notices:
    """Tells which sessions were written, in a thread while there is something to tell.

    A notice that is lost is no loss: who follows a session also looks by itself.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._sessions: dict[str, None] = {}
        self._busy = False

    def tell(self, sessions: list[str]) -> None:
        """Tell of these soon."""
        with self._lock:
            self._sessions.update(dict.fromkeys(sessions))
            if self._busy or not self._sessions:
                return
            self._busy = True
        trio.lowlevel.start_thread_soon(self._run, lambda _: None)

    def _run(self) -> None:
        while True:
            with self._lock:
                told, self._sessions = self._sessions, {}
                if not told:
                    self._busy = False
                    return
            with contextlib.suppress(StoreFailure):  # it is the writing that tells of a database that is away
                self._link.call(_notify, self._link.place.schema, told)
            time.sleep(PAUSE)


def _notify(conn: Connection, schema: str, sessions: dict[str, None]) -> None:
    payloads: list[str] = [schema]
    for session in sessions:
        if len(payloads[-1]) + len(session) >= LONGEST:
            payloads.append(schema)
        payloads[-1] += f" {session}"
    conn.execute("select pg_notify(%s, payload) from unnest(%s::text[]) payload", (CHANNEL, payloads))
