"""Group commit: what the sessions of a store have to write at the same time goes out together (P1).

Nobody is in charge. Whoever has something to write and finds a connection free takes everything that waits, writes it,
and wakes whose it was; what comes meanwhile waits for the next one. Two connections, so that one batch is gathered and
sent while another is being committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import trio
from attrs import define

from treadle import StoreFailure

from .append import Due, append
from .link import Link

FULL = 4 << 20
"""Bytes of one commit, from which on what waits is left for the next."""
PAUSE = 0.02
"""Seconds until a session whose row somebody holds is tried again."""


@define(eq=False)
class _Waiting:
    due: Due
    again: bool
    sent: bool = False
    task: trio.lowlevel.Task | None = None


class Flusher:
    """Writes what is due, many sessions to a commit.

    Args:
        links: the connections; as many commits are under way at once.
        patience: seconds that somebody else may hold a session's row.
        written: called with the ids of the sessions that were written.
    """

    def __init__(self, links: Sequence[Link], patience: float, written: Callable[[list[str]], None]) -> None:
        self._free = list(links)
        self._patience = patience
        self._queue: list[_Waiting] = []
        self._written = written

    async def write(self, due: Due) -> None:
        """Write it with others; not to be cancelled.

        Raises:
            SessionLocked: the session is another writer's now, or was changed; nothing was written (P2).
            StoreFailure: the database refuses it, or cannot be reached.
        """
        await self._tried(_Waiting(due, False))
        if not due.done:
            await self._patiently(due)
        if due.error is not None:
            raise due.error

    async def _patiently(self, due: Due) -> None:
        """Somebody holds the session's row: try again and again."""
        until = time.monotonic() + self._patience
        while not due.done:
            if time.monotonic() > until:
                due.settle(StoreFailure(f"somebody held the row of session {due.session!r} for {self._patience:g} s"))
                return
            await trio.sleep(PAUSE)
            await self._tried(_Waiting(due, True))

    async def _tried(self, mine: _Waiting) -> None:
        """Have it sent once."""
        self._queue.append(mine)
        while not mine.sent:
            if self._free and self._queue:
                await self._lead(self._free.pop())
            else:
                mine.task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(_to_the_end)

    async def _lead(self, link: Link) -> None:
        batch: list[_Waiting] = []
        try:
            await trio.lowlevel.checkpoint()  # whoever is about to write in this instant comes along
            batch = self._taken()
            dues = [each.due for each in batch]
            if dues:
                await link.run(append, dues)
                self._written([due.session for due in dues if due.done and due.error is None])
            for each in batch:
                each.sent = True
        except Exception as error:
            for each in batch:
                each.sent = True
                if not each.due.done:
                    each.due.settle(error)
        finally:
            self._free.append(link)
            self._queue[:0] = [each for each in batch if not each.sent]
            for each in [*batch, *self._queue[:1]]:
                if each.task is not None:
                    trio.lowlevel.reschedule(each.task)
                    each.task = None

    def _taken(self) -> list[_Waiting]:
        """What waits, as far as one commit holds it; whose row somebody holds, by itself."""
        if self._queue and self._queue[0].again:
            return [self._queue.pop(0)]
        batch: list[_Waiting] = []
        left: list[_Waiting] = []
        size = 0
        for each in self._queue:
            size += each.due.size
            (left if each.again or (size > FULL and batch) else batch).append(each)
        self._queue = left
        return batch


def _to_the_end(_: object) -> trio.lowlevel.Abort:
    """What was handed over is waited for, cancelled or not."""
    return trio.lowlevel.Abort.FAILED
