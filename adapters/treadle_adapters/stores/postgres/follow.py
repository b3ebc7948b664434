"""Following a session from any process: told of what is written, and looking by itself as well."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import trio

from treadle import Event

from . import rows
from .link import Connection, Link
from .notices import CHANNEL

LOOK = 1.0
"""Seconds after which a follower looks, told or not: a notice may be lost."""


def listen(conn: Connection) -> None:
    """Be told of what is written from now on."""
    conn.execute(f"listen {CHANNEL}")


async def followed(link: Link, session_id: str, first: int) -> AsyncGenerator[list[Event]]:
    """The events of a session from seq ``first`` on: those that are there, then those that come, until it is closed.

    ``link`` is the follower's own, prepared by ``listen``; whoever made it closes it.
    """
    while True:
        if events := await link.run(rows.news, session_id, first, link.place.shown):
            first += len(events)
            yield events
        else:
            await _told(link, session_id)


async def _told(link: Link, session_id: str) -> None:
    """Wait for a notice of this session, for the time after which one looks anyway."""
    with trio.move_on_after(LOOK):
        while True:
            await link.wait_readable()
            if await link.run(_names, f"{link.place.schema} ", session_id):
                return


def _names(conn: Connection, schema: str, session_id: str) -> bool:
    """Whether what the server has said names the session."""
    told = [notice.payload for notice in conn.notifies(timeout=0)]
    return any([payload.startswith(schema) and session_id in payload.split(" ") for payload in told])
