"""Projections: one pure fold of the log, the same for live sessions and cold ones (S9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, Generic, TypeVar

import trio
from attrs import define

from ..errors import MisuseError, SessionCorrupt
from ..kernel.pending import Inbox
from ..words.events import Event, InboxSpliced
from .log import Session
from .window import PIECE

S = TypeVar("S")


@define(eq=False)
class Cell(Generic[S]):
    """The state of one projection of one live session, up to the events it has seen."""

    state: S
    seen: int = 0


class Projection(Generic[S]):
    """A named fold.

    Attributes:
        name: its identity in a registry.
    """

    __slots__ = ("_fold", "_initial", "name")

    def __init__(self, name: str, initial: S | Callable[[], S], fold: Callable[[S, Event], S]) -> None:
        self.name = name
        self._initial = initial
        self._fold = fold

    def of(self, session: Session) -> S:
        """The state of a live session as of now. Costs the events that came since it was last asked for.

        Those that the session does not hold are read from its store, and the loop waits: ``follow`` comes first where
        that may be a long log.

        Raises:
            SessionCorrupt: the fold failed; its seq is named. The state before it is kept.
            StoreFailure, SessionNotFound: older events cannot be read back (S11).
        """
        cell = self._cell(session)
        while cell.seen < len(session):
            self._forward(cell, session.events[cell.seen : cell.seen + PIECE])
        return cell.state

    async def follow(self, session: Session) -> S:
        """As ``of``, but the loop goes on while a long log is read and folded (S11). Raises as ``of`` does."""
        cell = self._cell(session)
        while cell.seen < session.base:
            first = cell.seen
            piece = await session.read(first, min(first + PIECE, session.base))
            if cell.seen == first:  # nobody else has folded it meanwhile
                self._forward(cell, piece)
        await trio.lowlevel.checkpoint()
        return self.of(session)

    def _cell(self, session: Session) -> Cell[S]:
        cells = session.cells
        if cells is None:
            cells = session.cells = {}
        cell: Cell[S] | None = cells.get(self)
        if cell is None:
            cell = cells[self] = Cell(self._begin())
        return cell

    def _forward(self, cell: Cell[S], events: Iterable[Event]) -> None:
        for entry in events:
            cell.state = self._step(cell.state, entry)
            cell.seen = entry.seq + 1

    def over(self, events: Iterable[Event]) -> S:
        """The state at the end of a cold log, without an agent.

        Raises:
            SessionCorrupt: the fold failed; its seq is named.
        """
        state = self._begin()
        for entry in events:
            state = self._step(state, entry)
        return state

    def _begin(self) -> S:
        return self._initial() if callable(self._initial) else deepcopy(self._initial)  # type: ignore[return-value]

    def _step(self, state: S, entry: Event) -> S:
        try:
            return self._fold(state, entry)
        except SessionCorrupt:
            raise
        except Exception as error:
            raise SessionCorrupt(
                f"projection {self.name!r} cannot take event {entry.seq} of type {entry.type!r} (S9): "
                f"{error or type(error).__name__}",
                entry.seq,
            ) from error

    def __repr__(self) -> str:
        return f"<Projection {self.name}>"


def fold_inbox(inbox: Inbox, entry: Event) -> Inbox:
    """The pending lists after one more event (I6)."""
    if type(entry.data) is InboxSpliced:
        inbox.fold(entry.data, entry.seq)
    return inbox


class Projections:
    """The projections of a host, by name. The inbox is one (S9)."""

    def __init__(self) -> None:
        self._by_name: dict[str, Projection[Any]] = {}
        self.inbox = self.register_projection("inbox", Inbox, fold_inbox)

    def register_projection(
        self, name: str, initial: S | Callable[[], S], fold: Callable[[S, Event], S]
    ) -> Projection[S]:
        """Register a fold of session events (S9).

        Args:
            name: its identity.
            initial: the state of an empty log, or a function that makes one.
            fold: ``fold(state, event)`` gives the next state. Pure: it depends on nothing else and has no effects; it
                may change and return the state it was given, which nobody else holds.

        Returns:
            The projection: ``of(session)`` is its state live, ``over(events)`` over a cold log.

        Raises:
            MisuseError: the name is taken.
        """
        if name in self._by_name:
            raise MisuseError(f"a projection named {name!r} is registered already (S9)")
        if not callable(fold):
            raise MisuseError(f"projection {name!r} needs a fold: a function of state and event (S9)")
        projection = Projection(name, initial, fold)
        self._by_name[name] = projection
        return projection

    def unregister_projection(self, projection: Projection[Any]) -> None:
        """Forget a projection; its name is free again."""
        if self._by_name.get(projection.name) is projection:
            del self._by_name[projection.name]

    def project(self, name: str, source: Session | Iterable[Event]) -> Any:
        """The state of a projection by name: of a live session, or over the events of a cold one.

        Raises:
            MisuseError: no projection has that name.
            SessionCorrupt: the fold failed; its seq is named.
        """
        projection = self._by_name.get(name)
        if projection is None:
            known = ", ".join(self._by_name)
            raise MisuseError(f"no projection is named {name!r} (S9; known: {known})")
        if isinstance(source, Session):
            return projection.of(source)
        return projection.over(source)
