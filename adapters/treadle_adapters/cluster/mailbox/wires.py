"""Telling another process something soon, through the database: it may be lost, so whoever waits also looks by himself."""

from __future__ import annotations

from collections.abc import Callable

import trio
from psycopg.sql import SQL, Identifier

from treadle import StoreFailure
from treadle_adapters.stores.postgres import Connection, PostgresStore, Telling

from . import rows

LOOK = 1.0
"""Seconds after which everybody who waits looks by himself: a notice may be lost."""
PAUSE = 0.002
"""Seconds between two statements that tell; what came meanwhile is told together, and once."""
LONGEST = 7_000
"""Characters of one word at most; the server takes less than 8,000 bytes."""


def channel_of(owner: str) -> str:
    """The channel on which an owner of sessions, or whoever else has an id, is told something."""
    return f"treadle_mail_{owner.partition(' ')[0].replace('-', '')}"


class Teller:
    """Tells channels words soon, on a connection of its own."""

    def __init__(self, store: PostgresStore) -> None:
        self._link = store.link()
        self._telling = Telling[tuple[str, str]](self._link, rows.notify, PAUSE)

    def tell(self, channel: str, word: str) -> None:
        """Tell a channel a word soon; from any thread of the trio run."""
        self._telling.soon([(channel, word)])

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()


class Ears:
    """Hears what this process is told, on a connection of its own.

    Args:
        store: the database.
        channel: this process's.
        heard: called with each word.
    """

    def __init__(self, store: PostgresStore, channel: str, heard: Callable[[str], None]) -> None:
        def listen(conn: Connection) -> None:
            conn.execute(SQL("listen {}").format(Identifier(channel)))

        self._link = store.link(listen)
        self._heard = heard

    async def run(self) -> None:
        """Hear, until cancelled."""
        while True:
            words = self.heard()
            if words is None:
                words = await self._asked()
            for word in words:
                self._heard(word)
            with trio.move_on_after(LOOK):
                await self._link.wait_readable()
                continue
            for word in await self._asked():  # a connection that is lost without a word is found by asking
                self._heard(word)

    async def _asked(self) -> list[str]:
        """Make sure that the connection is there; returns what was said meanwhile."""
        try:
            return await self._link.run(_asked)
        except StoreFailure:
            await trio.sleep(LOOK)
            return []

    def heard(self) -> list[str] | None:
        """What was said since; ``None`` when the connection is lost."""
        return self._link.notices()

    async def close(self) -> None:
        """Close the connection; nobody runs any more."""
        await self._link.close()


def _asked(conn: Connection) -> list[str]:
    conn.execute("select 1")
    return [notice.payload for notice in conn.notifies(timeout=0)]
