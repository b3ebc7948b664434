"""The store interface: what keeps sessions promises (§13), and the shapes it answers with.

``check_store`` of ``treadle_specs.kits`` holds a store to every promise made here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from attrs import frozen

from ..errors import TreadleError
from ..words.events import Event
from .log import SessionHeader
from .window import Past

Spawn = Callable[[Callable[[], Awaitable[Any]]], None]
"""Starts a background task; ``Host.spawn`` is one."""


@frozen
class TornTail:
    """What an interrupted write left at the end of a session (P3).

    Attributes:
        where: the file, or what holds the session.
        line: the line it stands on, from 1.
        dropped: bytes that hold no whole record.
        what: ``half line``, ``NUL run`` or ``missing newline`` (then nothing is dropped).
    """

    where: str
    line: int
    dropped: int
    what: str

    def __str__(self) -> str:
        lost = f"{self.dropped} bytes are no whole record" if self.dropped else "nothing is lost"
        return f"{self.where}, line {self.line}: torn tail ({self.what}); {lost} (P3)"


@frozen
class StoredSession:
    """A session as a store holds it.

    Attributes:
        header: identity and origin.
        events: every event that can be read, in order.
        revision: differs whenever what is stored differs.
        torn: the torn tail, if there is one. ``open_write`` has repaired it; reading leaves it alone.
        damage: what ``inspect`` found before the tail; ``events`` ends before it.
    """

    header: SessionHeader
    events: Sequence[Event]
    revision: str
    torn: TornTail | None = None
    damage: TreadleError | None = None


@frozen
class Listed:
    """A session in a listing, from a bounded part of what is stored (P6).

    Attributes:
        header: identity and origin.
        size: bytes stored.
        modified: milliseconds since the epoch of the last write.
        events: how many events there are; ``None`` when that part did not tell.
        title: the beginning of the first user message; empty when that part held none.
    """

    header: SessionHeader
    size: int
    modified: int
    events: int | None = None
    title: str = ""


@frozen
class Unreadable:
    """Something in the store that looks like a session and cannot be read (P6)."""

    name: str
    error: Exception


@frozen
class Listing:
    """All sessions, newest first, and beside them what is bad (P6)."""

    sessions: tuple[Listed, ...]
    unreadable: tuple[Unreadable, ...] = ()


class SessionWriter(Protocol):
    """The one write path of an open session (P1, P2)."""

    @property
    def accepted(self) -> int:
        """How many events it has taken: the seq that is due next."""
        ...

    @property
    def pending(self) -> int:
        """How many of them are not durable yet."""
        ...

    def start(self, spawn: Spawn, report: Callable[[Exception], None]) -> None:
        """Write live events in the background from now on.

        Args:
            spawn: starts a task; one lives while something is pending, no longer than the window or the write.
            report: told once when background writing begins to fail (N8).
        """
        ...

    def add(self, entry: Event) -> None:
        """Take one live event. It is encoded at once and written within the fixed window, or by the next barrier.

        Raises:
            MisuseError: its seq is not the one due (N6), or the writer is closed. Nothing is changed.
        """
        ...

    async def append(self, entries: Iterable[Event]) -> None:
        """Take events and return once they are durable (P1).

        Raises:
            StoreFailure: they could not be written; they are kept, and the next barrier tries again.
            SessionLocked: the lock was lost; nothing will be written any more (P2).
        """
        ...

    async def flush(self) -> None:
        """The barrier: return once everything taken so far is durable (P1). Raises as ``append`` does."""
        ...

    async def written(self) -> None:
        """Return once everything taken so far would survive the end of this process (P7). Raises as ``append`` does."""
        ...

    async def close(self) -> None:
        """Flush, then let go of the lock, in any case. Idempotent. Raises as ``append`` does, each time it is called."""
        ...


@frozen
class OpenSession:
    """A session opened for writing: what it held, repaired, and the write path."""

    stored: StoredSession
    writer: SessionWriter


class Intake(Protocol):
    """Takes in the events of a session while a store reads them, in a worker thread; holds what is derived of them (S11)."""

    @property
    def count(self) -> int:
        """How many events it stands for."""
        ...

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong with what was taken."""
        ...

    def begin(self, header: SessionHeader) -> None:
        """Begin with an empty log, whatever was taken before."""
        ...

    def restore(self, header: SessionHeader, state: Sequence[bytes]) -> bool:
        """Begin with what ``state`` gave once; returns whether it is of any use here. If not, ``begin`` comes next."""
        ...

    def take(self, events: Sequence[Event]) -> None:
        """Take the events that come next. Raises nothing: what is wrong is told when everything is read."""
        ...

    def state(self) -> list[bytes] | None:
        """What was derived, as short lines of JSON without line ends; ``None`` where no checkpoint may stand."""
        ...


class Archive(Past, Protocol):
    """What a store offers of a session that is being written, beside the appending: reading back, and checkpoints (S11).

    A checkpoint is what an intake made of the first events. It stands beside the log and is never the truth: it is used
    only where the bytes of those events are the ones that it was made from, and thrown away when in doubt.
    """

    @property
    def count(self) -> int:
        """How many events are stored."""
        ...

    @property
    def size(self) -> int:
        """How many bytes have the records that were stored since the session was opened."""
        ...

    @property
    def covered(self) -> int:
        """How many events the last checkpoint stands for."""
        ...

    @property
    def weight(self) -> int:
        """How many bytes the last checkpoint has."""
        ...

    async def keep(self, intake: Intake) -> bool:
        """Keep a checkpoint of an intake that took every event that is stored; returns whether there is one now.

        Raises:
            StoreFailure: it cannot be written; the session is as it was.
        """
        ...

    async def advance(self, intake: Intake, upto: int) -> bool:
        """Make a checkpoint of the first ``upto`` events, from the last one and what is stored since. Raises as ``keep``."""
        ...

    def stop(self) -> None:
        """Have ``advance`` give up soon, from now on: the session is being closed."""
        ...


@frozen
class Taken:
    """A session that an intake has taken in, opened for writing.

    Attributes:
        count: how many events are stored.
        torn: the torn tail that was repaired, if there was one.
        writer: the write path.
        archive: reads back, and keeps checkpoints; ``None`` where the store does neither.
    """

    count: int
    torn: TornTail | None
    writer: SessionWriter
    archive: Archive | None


class SessionStore(Protocol):
    """Keeps sessions. All methods may be called from any task of one trio run.

    Every method that takes an id from outside validates it first, and raises ``SessionNotFound`` for an id that is not
    there (§13, X2).
    """

    async def create(self, header: SessionHeader, events: Sequence[Event] = ()) -> SessionWriter:
        """Store a new session; header and events are durable when it returns, and nothing is there if it raises.

        Raises:
            DuplicateSession: the id is stored already, or being stored.
        """
        ...

    async def open_write(self, session_id: str) -> OpenSession:
        """Open for writing, as the only writer; a torn tail is repaired and reported (P2, P3).

        Raises:
            SessionLocked: another writer has it; the text names who.
            SessionCorrupt: damage before the tail; nothing is changed.
            SessionFormatUnsupported: another format, or unknown types (P5, S2).
        """
        ...

    async def open_read(self, session_id: str) -> StoredSession:
        """Read a session without changing a byte, locked or not (P3). Raises as ``open_write`` does, but for the lock."""
        ...

    async def inspect(self, session_id: str) -> StoredSession:
        """As ``open_read``, but damage is told in ``damage`` beside the readable prefix (P3).

        Raises:
            SessionCorrupt: not even the header can be read.
        """
        ...

    async def revision(self, session_id: str) -> str:
        """The present ``StoredSession.revision``, without reading the events."""
        ...

    async def list(self) -> Listing:
        """All sessions, from a bounded part of each; bad ones are named beside the good ones (P6)."""
        ...

    async def fork(self, session_id: str, new_id: str, upto: int | None = None) -> SessionHeader:
        """Store a new session that begins with the first ``upto`` events of another, all unless given (S5).

        Raises:
            MisuseError: that point lies inside a turn.
            DuplicateSession: the new id is taken.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Remove a session.

        Raises:
            SessionLocked: somebody writes it.
        """
        ...

    async def close(self) -> None:
        """Let go of everything the store holds itself; writers are closed by who opened them. Idempotent."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class ArchivingStore(Protocol):
    """A store of which long sessions need not be held, nor read from their beginning at each resume (S11)."""

    async def open_intake(self, session_id: str, intake: Intake) -> Taken:
        """As ``open_write``, but for the events: they are handed to the intake, in a worker thread and piece by piece.

        Where a checkpoint stands for the first ones and nothing is doubtful, those after it only. Raises as
        ``open_write`` does.
        """
        ...


def readable(stored: StoredSession) -> StoredSession:
    """What ``open_read`` makes of an inspection: damage is raised.

    Raises:
        TreadleError: the damage.
    """
    if stored.damage is not None:
        raise stored.damage
    return stored
