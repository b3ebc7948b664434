"""What the checks of ``check_store`` work with: means of harm, a bench of stores, sample sessions."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import trio
from attrs import define, field, frozen
from trio.testing import MockClock, wait_all_tasks_blocked

from treadle import AssistantMessage, Completed, Event, Session, Text
from treadle.session import (
    AssistantMessageAdded,
    SessionStore,
    SessionWriter,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
    UserMessageAdded,
    new_header,
)
from treadle.words.messages import user_message

StoreMaker = Callable[[Path], SessionStore]
"""Makes a store that keeps its sessions in a directory; two of one directory see the same sessions."""
PATIENCE = 20.0
"""Seconds of real time that a check waits for a store's threads."""


@frozen
class Faults:
    """Means to harm what is stored; each is given the directory and a session's id.

    Attributes:
        tear: leaves half a record at the end of a session that nobody has open.
        spoil: damages the record of event 3 of a session that nobody has open.
        steal: takes the lock of a session away from its writer, so that another can open it.
        jam: a context within which writing that session fails, and no other.
        delete: deletes what holds an open session.
        rename: renames what holds an open session; returns what renames it back.
        copy: copies what holds an open session; returns what puts the copy in its place, as a rename does.
        cut: cuts off the second half of what holds an open session.
        revoke: a context within which nothing may be made or opened for writing.
    """

    tear: Callable[[Path, str], None] | None = None
    spoil: Callable[[Path, str], None] | None = None
    steal: Callable[[Path, str], None] | None = None
    jam: Callable[[Path, str], AbstractContextManager[Any]] | None = None
    delete: Callable[[Path, str], None] | None = None
    rename: Callable[[Path, str], Callable[[], None]] | None = None
    copy: Callable[[Path, str], Callable[[], None]] | None = None
    cut: Callable[[Path, str], None] | None = None
    revoke: Callable[[Path, str], AbstractContextManager[Any]] | None = None


@define
class Bench:
    """What a check works with: a directory, the maker, the means, and a clock that it moves itself."""

    directory: Path
    make: StoreMaker
    faults: Faults
    clock: MockClock = field(factory=MockClock)
    opened: list[SessionStore] = field(factory=list[SessionStore])

    def store(self) -> SessionStore:
        """Another store on the same directory."""
        made = self.make(self.directory)
        self.opened.append(made)
        return made

    async def let_pass(self, seconds: float, until: Callable[[], bool]) -> None:
        """Let time pass on trio's clock, then wait for the store's threads, within ``PATIENCE``."""
        await wait_all_tasks_blocked()
        self.clock.jump(seconds)
        deadline = time.monotonic() + PATIENCE
        while not until():
            assert time.monotonic() < deadline, f"nothing happened {seconds} s after the event was given"
            await trio.lowlevel.checkpoint()

    async def close(self) -> None:
        """Close what was opened."""
        for store in self.opened:
            await store.close()


Check = Callable[[Bench], Any]


def sample(id: str, turns: int = 2, text: str = "question") -> Session:
    """A session of whole turns, five events and a half each, in memory."""
    session = Session(new_header(id, "/work/project", 1_700_000_000_000, origin="check"))
    extend(session, turns, text)
    return session


def extend(session: Session, turns: int = 1, text: str = "question") -> list[Event]:
    """Add whole turns; returns the new events."""
    before = len(session)
    first = 1 + sum(1 for entry in session.events if type(entry.data) is TurnStart)
    for turn in range(first, first + turns):
        message = user_message(f"{text} {turn}", f"{session.id}-{turn}-{before}")
        answer = AssistantMessage((Text(f"answer {turn}"),), "check")
        for data in (
            TurnStart(turn),
            StepStart(turn, 1, (message.id,)),
            UserMessageAdded(message),
            AssistantMessageAdded(answer, f"attempt-{turn}"),
            StepEnd(turn, 1),
            TurnEnd(turn, Completed()),
        ):
            session.commit(data)
    return list(session.events)[before:]


async def stored_as(store: SessionStore, session: Session) -> SessionWriter:
    """Store a session made by ``sample``."""
    return await store.create(session.header, list(session.events))


async def refused(kind: type[Exception] | tuple[type[Exception], ...], call: Callable[[], Any]) -> Exception:
    """Await a call that has to raise; returns what it raised."""
    try:
        await call()
    except kind as error:
        return error
    raise AssertionError(f"{kind} was due, and nothing was raised")
