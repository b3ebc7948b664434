"""A connection that one thread uses at a time, is made again when it was lost, and that no forked child keeps (P2).

Everything here runs in worker threads, waits included: what is asked is asked to its end, on any clock of trio's.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakSet

import psycopg
import trio
from attrs import define, field

from treadle import MisuseError, StoreFailure

from ..files import in_thread
from .place import Place

T = TypeVar("T")
Row = tuple[Any, ...]
PAUSES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Seconds between attempts to connect again; the last one repeats."""


class Connection(psycopg.Connection[Row]):
    """A connection on which no answer is waited for longer than its patience: a frozen server says nothing."""

    patience: float = 10.0

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """As the library's, bounded.

        Raises:
            OperationalError: there was no answer in time; the connection is closed.
        """
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        began = time.monotonic()
        try:
            return super().wait(gen, interval, self.patience)
        except psycopg.Error as error:
            if error.sqlstate is None and time.monotonic() - began >= self.patience:
                self.close()
                raise psycopg.OperationalError(f"no answer within {self.patience:g} s") from error
            raise


@define(eq=False)
class Reach:
    """What the connections of a store have in common.

    Attributes:
        place: the database.
        patience: seconds that an answer is waited for, and that a lost connection is made again.
        durable: whether each commit is to be on disk.
        met: whether the server was there. One that was not, or stayed away, is asked once a call and not waited for.
    """

    place: Place
    patience: float
    durable: bool = True
    met: bool = False


@define(eq=False)
class Link:
    """One connection, opened at first use. It belongs to no trio run.

    Attributes:
        reach: where it leads.
        prepare: called with each new connection.
    """

    reach: Reach
    prepare: Callable[[Connection], None]
    _conn: Connection | None = None
    _closed: bool = False
    _process: int = 0
    _using: threading.Lock = field(factory=threading.Lock)

    def __attrs_post_init__(self) -> None:
        _LINKS.add(self)

    @property
    def place(self) -> Place:
        """The database."""
        return self.reach.place

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function with the connection, and again when that was lost meanwhile: it has to bear this.

        Raises:
            MisuseError: the connection is another process's: this one is its forked child.
            StoreFailure: the database cannot be reached, or refuses what was asked.
        """
        self._check_process()
        return await in_thread(lambda: self.call(function, *args))

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """As ``run``, in this thread."""
        self._check_process()
        with self._using:
            if self._closed:
                raise StoreFailure(f"{self.place.shown}: the store is closed; open another")
            return self._call(function, *args)

    def _check_process(self) -> None:
        if self._process not in (0, os.getpid()):
            raise MisuseError(
                f"{self.place.shown} was opened by process {self._process}, of which this one was forked: "
                "a connection cannot be shared; make another store here"
            )
        self._process = os.getpid()

    def _call(self, function: Callable[..., T], *args: Any) -> T:
        deadline = time.monotonic() + (self.reach.patience if self.reach.met else 0.0)
        attempts = 0
        while True:
            try:
                conn = self._conn
                if conn is None or conn.closed:
                    conn = self._conn = self._open()
                self.reach.met = True
                return function(conn, *args)
            except psycopg.Error as error:
                conn = self._conn
                if conn is not None and not conn.closed and not conn.broken:
                    raise StoreFailure(f"{self.place.shown}: {_said(error)}") from error
                self._let_go()
                if time.monotonic() >= deadline:
                    self.reach.met = False
                    raise StoreFailure(
                        f"{self.place.shown} cannot be reached: {_said(error)}; what was not written is kept"
                    ) from error
            time.sleep(PAUSES[min(attempts, len(PAUSES) - 1)])
            attempts += 1

    def _open(self) -> Connection:
        reach = self.reach
        conn = Connection.connect(self.place.url, **self.place.options(reach.patience, durable=reach.durable))
        conn.patience = reach.patience + 1  # the server gives up first, and says why
        conn.prepare_threshold = 1
        try:
            self.prepare(conn)
        except BaseException as error:
            lost = conn.closed or conn.broken or isinstance(error, psycopg.errors.LockNotAvailable)
            conn.close()
            if isinstance(error, psycopg.Error) and not lost:
                raise StoreFailure(f"{self.place.shown}: {_said(error)}") from error
            raise
        return conn

    def _let_go(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.close()

    async def wait_readable(self) -> None:
        """Wait until the server says something unasked, or the connection ends; at once when there is none."""
        conn = self._conn
        if conn is None or conn.closed:
            await trio.lowlevel.checkpoint()
            return
        await trio.lowlevel.wait_readable(conn.fileno())

    def notices(self) -> list[str] | None:
        """What the server has said unasked, without waiting; ``None`` when the connection is lost, so make it again.

        For who alone uses the connection, in his own loop: a thread for each notice would cost more than the notice.
        """
        conn = self._conn
        if conn is None or conn.closed:
            return None
        told: list[str] = []
        try:
            conn.pgconn.consume_input()
            while (notice := conn.pgconn.notifies()) is not None:
                told.append(notice.extra.decode())
        except psycopg.Error:
            self._let_go()
            return None
        return told

    async def close(self) -> None:
        """Close the connection, in the process that opened it. Idempotent."""
        if self._process == os.getpid():
            await in_thread(self._close)

    def _close(self) -> None:
        with self._using:
            self._closed = True
            self._let_go()

    def abandon(self) -> None:
        """In a forked child: close the socket, since the server holds locks for as long as anybody has its other end."""
        conn, self._conn = self._conn, None
        if conn is not None and not conn.closed:
            _INHERITED.append(conn)
            with contextlib.suppress(OSError, psycopg.Error):
                os.close(conn.fileno())


def _said(error: psycopg.Error) -> str:
    """What a server or the library said, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"


# --- forks ------------------------------------------------------------------------------------------------------------

_LINKS: WeakSet[Link] = WeakSet()
_INHERITED: list[Connection] = []
"""What a child cannot use: never closed by the library, which would end the parent's session with the server."""


def _begin_as_child() -> None:
    for link in list(_LINKS):
        link.abandon()


os.register_at_fork(after_in_child=_begin_as_child)
