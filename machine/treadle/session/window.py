"""A session's events as a sequence of which only the newest are held; older ones are read back from the store (S11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, overload

if TYPE_CHECKING:
    from ..words.events import Event

PIECE = 1_000
"""How many events are read back at a time when a log is walked through."""


class Past(Protocol):
    """Reads stored events of one session back."""

    def read(self, first: int, stop: int) -> Sequence[Event]:
        """The events from ``first`` up to ``stop``; all of them are stored. Blocks; callable from any thread.

        Raises:
            StoreFailure: what keeps the session cannot be read.
            SessionCorrupt: other events stand there than were written.
            SessionNotFound: the session is stored no more.
        """
        ...


class Windowed(Protocol):
    """What holds a window of events: ``held`` begins with event ``base``; what lies before is in ``past``."""

    held: list[Event]
    base: int
    past: Past | None


class EventView(Sequence["Event"]):
    """A read-only view of a session's events as they are at the time of each look.

    The newest events of a session that is stored are held, all of one that is not. A look at an older one reads it from
    the store, and blocks for as long: from ``Session.read`` the loop goes on meanwhile.
    """

    __slots__ = ("_of",)

    def __init__(self, of: Windowed) -> None:
        self._of = of

    def __len__(self) -> int:
        base, held = _window(self._of)
        return base + len(held)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._of.held) if self._of.past is None else self._forwards()

    def _forwards(self) -> Iterator[Event]:
        seq = 0
        while seq < len(self):
            base, held = _window(self._of)
            if seq < base:
                piece = recalled(self._of, seq, min(seq + PIECE, base))
                yield from piece
                seq += len(piece)
            else:
                yield held[seq - base]
                seq += 1

    def __reversed__(self) -> Iterator[Event]:
        of, stop = self._of, len(self)
        while stop > 0:
            first = max(0, stop - PIECE)
            yield from reversed(recalled(of, first, stop))
            stop = first

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        of = self._of
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return [self[at] for at in range(start, stop, step)]
            return recalled(of, start, stop) if start < stop else []
        if index < 0:
            index += len(self)
        base, held = _window(of)
        if index >= base:
            return held[index - base]
        if index < 0:
            raise IndexError(f"index out of the {len(self)} events of this session")
        return recalled(of, index, index + 1)[0]

    def __repr__(self) -> str:
        base = self._of.base
        return f"Live({self._of.held!r})" if not base else f"<{len(self)} events, held from event {base} on>"


def recalled(of: Windowed, first: int, stop: int) -> list[Event]:
    """Events by their numbers: from the window, and what lies before it from the store."""
    base, held = _window(of)
    if first >= base:
        return held[first - base : stop - base]
    assert of.past is not None
    old = list(of.past.read(first, min(stop, base)))
    return old + held[: stop - base] if stop > base else old


def _window(of: Windowed) -> tuple[int, list[Event]]:
    """Both as of one moment: another thread may look while the window moves, and the list itself tells where it begins."""
    held = of.held
    return (held[0].seq if held else of.base), held
