"""The sweep: each call of one writer, stopped at each of its lines, while another store works on the same session (P2, N6).

What has to hold, whoever comes first: what was acknowledged to anybody is there, in order, and nothing stands twice; a
writer that was refused stays refused; at most one writer is left; a later opening succeeds once all are closed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
from attrs import define, field

from treadle import DuplicateSession, Event, Session, SessionLocked, SessionNotFound, StoreFailure
from treadle.session import Completed, SessionStore, SessionWriter, TurnEnd, TurnStart, new_header, to_builtins

from ...exploration.violation import require
from .stops import Stop, stopped

REFUSALS = (SessionLocked, StoreFailure, DuplicateSession, SessionNotFound)
"""How a store may refuse where another one works on the session."""
Steal = Callable[[Path, str], None]


@define(eq=False)
class Party:
    """A store as another process would have it, and its writer while it has the session."""

    name: str
    store: SessionStore
    writer: SessionWriter | None = None
    taken: list[Event] = field(factory=list[Event])
    acknowledged: list[str] = field(factory=list[str])
    refused: bool = False

    async def open(self) -> None:
        """Open the session for writing."""
        opened = await self.store.open_write("s")
        self.writer, self.taken = opened.writer, list(opened.stored.events)

    async def append(self) -> None:
        """Add a turn; it counts once it is acknowledged."""
        if self.writer is None:
            return
        session = Session(new_header("s", "/work", 0), [])
        turn = 1 + sum(1 for entry in self.taken if isinstance(entry.data, TurnStart))
        fresh = [_at(session.commit(TurnStart(turn)), len(self.taken), self.name)]
        fresh.append(_at(session.commit(TurnEnd(turn, Completed())), len(self.taken) + 1, self.name))
        try:
            await self.writer.append(fresh)
        except SessionLocked:
            self.refused = True
            raise
        require(not self.refused, "P2", "{} lost its lock, and writes again", self.name)
        self.taken += fresh
        self.acknowledged += [_mark(entry) for entry in fresh]

    async def close(self) -> None:
        """Let go of it."""
        writer, self.writer = self.writer, None
        if writer is not None:
            await writer.close()


def _at(entry: Event, seq: int, who: str) -> Event:
    return Event(entry.type, seq, sum(map(ord, who)), entry.data)


def _mark(entry: Event) -> str:
    return f"{entry.seq} {entry.time} {to_builtins(entry.data)}"


def tolerant(call: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """A call that may be refused."""

    async def run() -> None:
        try:
            await call()
        except REFUSALS:
            return

    return run


@define(eq=False)
class Meeting:
    """Two parties on one session.

    Args:
        make: makes a store on a directory.
        modules: whose lines the first one may be stopped at.
        steal: takes the lock away, so that the second one can open; ``None`` leaves it.
        busy: says whether the store holds a lock that is this process's alone.
    """

    make: Callable[[Path], SessionStore]
    modules: tuple[str, ...]
    steal: Steal | None = None
    busy: Callable[[], bool] = bool

    def run(self, act: str, other: str, at: int) -> str:
        """Stop ``act`` of the first at a line, have the second do ``other``, and look; returns where, empty when nowhere.

        Raises:
            Violation: P2 or N6 does not hold.
        """
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder) / "sessions"
            one, two = Party("one", self.make(directory)), Party("two", self.make(directory))
            trio.run(self._begin, one, act)
            errors: list[BaseException] = []

            def meanwhile() -> None:
                try:
                    if self.steal is not None:
                        self.steal(directory, "s")
                    trio.run(tolerant(two.open))
                    if other == "append":
                        trio.run(tolerant(two.append))
                    elif other == "close":
                        trio.run(tolerant(two.close))
                except FileNotFoundError:
                    return
                except BaseException as error:
                    errors.append(error)

            stop = Stop(self.modules, at, meanwhile, self.busy)
            with stopped(stop):
                trio.run(tolerant(getattr(one, act)))
            if errors:
                raise errors[0]
            if stop.where:
                trio.run(self._look, one, two, stop.where)
            return stop.where

    async def _begin(self, one: Party, act: str) -> None:
        writer = await one.store.create(new_header("s", "/work", 0))
        one.writer = writer
        await one.append()
        if act == "open":
            await one.close()

    async def _look(self, one: Party, two: Party, where: str) -> None:
        """Both go on; then everything is closed and read."""
        for party in (one, two, one):
            await tolerant(party.append)()
        stored = await one.store.open_read("s")
        marks = [_mark(entry) for entry in stored.events]
        require(
            [entry.seq for entry in stored.events] == list(range(len(marks))), "N6", "numbers at {}: {}", where, marks
        )
        for party in (one, two):
            lost = [mark for mark in party.acknowledged if mark not in marks]
            require(not lost, "P2", "{} was acknowledged to {}, and is gone (stopped at {})", lost, party.name, where)
        both = [party.name for party in (one, two) if party.writer is not None and not party.refused]
        require(len(both) < 2, "P2", "{} both write (stopped at {})", both, where)
        for party in (one, two):
            await tolerant(party.close)()
        last = Party("last", one.store)
        await last.open()
        await last.append()
        await last.close()
        for party in (one, two):
            await party.store.close()


def sweep(meeting: Meeting, act: str, other: str, *, step: int = 1, start: int = 0) -> int:
    """Stop at every line, or at each ``step``th; returns at how many."""
    count, at = 0, start
    while meeting.run(act, other, at):
        count += 1
        at += step
    return count
