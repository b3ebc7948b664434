"""The write path that stores share: a queue, a fixed window, and group commit.

How it works. The log in memory is ahead of the disk: ``add`` encodes an event, queues it and returns, so that nobody who
records waits. Three counts say how far the events are: accepted, written (the operating system has them), durable (on
disk, as far as the store's policy goes).

One write is under way at a time, and whoever needs one makes it: a barrier (``flush``, ``written``) at once, the background
a window after the first event that waits, or sooner when much has come together. Everybody else parks until it is over
and looks again; what arrived meanwhile goes out together in the next one. That is the group commit: there is no leader
to choose, and nothing to schedule. A write is shielded, so a barrier that is cancelled leaves no part of a batch behind.

A write is all or nothing. What failed goes back to the front of the queue, and the next event or barrier tries again; the
background tells of a failing store once, not at every window. Two failures are final, since going on would leave a gap or
write beside somebody else: an event that cannot be encoded, and a lock that was lost. From then on events are counted
and not kept, and every barrier raises. ``close`` writes what is left and lets go of the lock, whether or not that
succeeded (P1, P7, N6, N8).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import trio

from ..errors import MisuseError, SessionLocked, StoreFailure
from ..words.events import Event, encode_event
from .store import Archive, Spawn

WINDOW = 0.02
"""Seconds that live events wait for company before they are written (P1)."""
FULL = 1 << 20
"""Bytes that are written without waiting for the window's end."""


class Sink(Protocol):
    """Where a ``BatchWriter`` writes. One call at a time; none is cancelled."""

    async def write(self, first: int, records: Sequence[bytes], durable: bool) -> bool:
        """Write encoded events from seq ``first`` on: all or nothing, also when called again after a failure.

        With ``durable`` they, and everything before, are on disk when it returns, as far as the store's policy goes.

        Returns:
            Whether they are, asked for or not.

        Raises:
            SessionLocked: the lock was lost; nothing was written.
        """
        ...

    async def release(self) -> None:
        """Let go of the lock and of what is open. Called once."""
        ...


class BatchWriter:
    """Implements ``SessionWriter`` over a sink.

    Writers of one process share nothing, so a failing one holds up no other. What arrives while a write is under way
    goes out together in the next one: a hundred waiters cost two syncs.

    Attributes:
        archive: reads back what was written, where the store can (S11).
    """

    def __init__(
        self,
        session_id: str,
        sink: Sink,
        count: int,
        *,
        window: float = WINDOW,
        full: int = FULL,
        archive: Archive | None = None,
    ) -> None:
        self.session_id = session_id
        self.window = window
        self.archive = archive
        self._sink = sink
        self._full = full
        self._queue: list[bytes] = []
        self._bytes = 0
        self._accepted = self._written = self._durable = count
        self._busy = False
        self._turn = trio.lowlevel.ParkingLot()
        self._spawn: Spawn | None = None
        self._report: Callable[[Exception], None] | None = None
        self._ticking = False
        self._hurry = trio.Event()
        self._failing = False
        self._stopped: Exception | None = None
        self._closed = False
        self._closing = trio.Lock()
        self._released = False
        self._process = os.getpid()

    @property
    def accepted(self) -> int:
        """See ``SessionWriter``."""
        return self._accepted

    @property
    def pending(self) -> int:
        """See ``SessionWriter``."""
        return self._accepted - self._durable

    # --- taking events ------------------------------------------------------------------------------------------------

    def start(self, spawn: Spawn, report: Callable[[Exception], None]) -> None:
        """See ``SessionWriter``."""
        self._spawn, self._report = spawn, report
        self._tick_soon()

    @trio.lowlevel.enable_ki_protection
    def add(self, entry: Event) -> None:
        """See ``SessionWriter``."""
        self._check_process()
        if self._closed:
            raise MisuseError(f"the write path of session {self.session_id!r} is closed; open the session again (O4)")
        if entry.seq != self._accepted:
            raise MisuseError(f"event {entry.seq} was given where {self._accepted} is due (N6)")
        self._accepted += 1
        if self._stopped is None:
            try:
                record = encode_event(entry)
            except (TypeError, ValueError, RecursionError) as error:
                self._stop(StoreFailure(f"event {entry.seq} of session {self.session_id!r} cannot be stored: {error}"))
            else:
                self._queue.append(record)
                self._bytes += len(record)
        if self._ticking:
            if self._bytes >= self._full:
                self._hurry.set()
        else:
            self._tick_soon()

    def _check_process(self) -> None:
        """A forked child has neither the lock nor the tasks: only the process that opened a session writes it (P2)."""
        if os.getpid() != self._process:
            raise MisuseError(
                f"session {self.session_id!r} is written by process {self._process}, of which this one was forked; "
                "nothing is written here (P2): open another session, or begin processes afresh instead of forking"
            )

    @trio.lowlevel.enable_ki_protection
    async def append(self, entries: Iterable[Event]) -> None:
        """See ``SessionWriter``."""
        for entry in entries:
            self.add(entry)
        await self.flush()

    # --- barriers -----------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """See ``SessionWriter``."""
        await self._barrier(durable=True)

    async def written(self) -> None:
        """See ``SessionWriter``."""
        await self._barrier(durable=False)

    @trio.lowlevel.enable_ki_protection
    async def _barrier(self, *, durable: bool) -> None:
        self._check_process()
        if (self._durable if durable else self._written) < self._accepted:
            await trio.lowlevel.checkpoint_if_cancelled()
            await self._reach(self._accepted, durable=durable)
        else:
            await trio.lowlevel.checkpoint()

    async def _reach(self, target: int, *, durable: bool) -> None:
        while (self._durable if durable else self._written) < target:
            if self._busy:
                await self._turn.park()
            else:
                await self._write(durable=durable)

    async def _write(self, *, durable: bool) -> None:
        """Write what is queued, and sync if asked; on failure everything is queued again."""
        if self._stopped is not None:
            raise type(self._stopped)(str(self._stopped)) from self._stopped
        queue, self._queue = self._queue, []
        size, self._bytes = self._bytes, 0
        self._busy = True
        try:
            with trio.CancelScope(shield=True):
                durable = await self._sink.write(self._written, queue, durable)
        except BaseException as error:
            self._queue[:0] = queue
            self._bytes += size
            if isinstance(error, Exception):
                raise self._failed(error) from error
            raise
        finally:
            self._busy = False
            self._turn.unpark_all()
        self._written += len(queue)
        if durable:
            self._durable = self._written
        self._failing = self._stopped is not None
        if not self._queue:
            self._hurry.set()

    def _failed(self, error: Exception) -> Exception:
        if isinstance(error, SessionLocked):
            self._stopped = error
            return type(error)(str(error))
        waiting = self._accepted - self._written
        return StoreFailure(
            f"{waiting} events of session {self.session_id!r} could not be written: {type(error).__name__}: {error}. "
            "They are kept in memory and the next flush tries again; make room or permit writing before the end (P1)"
        )

    def _stop(self, error: Exception) -> None:
        """Nothing will be written any more: a gap would follow (N6)."""
        self._stopped = error
        if self._report is not None:
            self._failing = True  # so the background does not tell of it again
            self._report(error)

    # --- the background -----------------------------------------------------------------------------------------------

    def _tick_soon(self) -> None:
        if self._queue and self._spawn is not None:
            self._ticking = True
            self._hurry = trio.Event()
            if self._bytes >= self._full:
                self._hurry.set()
            self._spawn(self._tick)

    @trio.lowlevel.enable_ki_protection
    async def _tick(self) -> None:
        """Write after each window for as long as there is something to write.

        What comes just after a barrier has written everything begins a window of its own.
        """
        try:
            while self._queue and not self._closed:
                with trio.move_on_after(self.window) as window:
                    await self._hurry.wait()
                self._hurry = trio.Event()
                if not window.cancelled_caught and self._bytes < self._full:
                    continue
                await self._reach(self._accepted, durable=False)
        except (StoreFailure, SessionLocked) as error:
            if not self._failing and self._report is not None:
                self._report(error)
            self._failing = True
        finally:
            self._ticking = False

    @trio.lowlevel.enable_ki_protection
    async def close(self) -> None:
        """See ``SessionWriter``."""
        self._check_process()
        self._closed = True
        self._hurry.set()
        with trio.CancelScope(shield=True):
            async with self._closing:
                if self._released:
                    await self._reach(self._accepted, durable=True)  # raises what the first close did
                    return
                self._released = True
                try:
                    await self._reach(self._accepted, durable=True)
                finally:
                    self._stopped = self._stopped or StoreFailure(f"session {self.session_id!r} is closed")
                    await self._sink.release()

    def __repr__(self) -> str:
        return f"<BatchWriter of {self.session_id}: {self._accepted} taken, {self._durable} durable>"
