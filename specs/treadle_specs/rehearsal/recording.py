"""Recorded sessions as they are rehearsed: read from files, and cut into the lives that the process had."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from attrs import field, frozen

from treadle import Aborted, ByDisposal, Event, Interrupted, MisuseError, SessionCorrupt, SessionHeader, TreadleError
from treadle.session import (
    EndSeed,
    InboxSpliced,
    RequestHeader,
    TurnEnd,
    TurnStart,
    header_of,
    is_blank,
    lines_of,
    to_builtins,
)
from treadle.session import repair as closing_of

Opener = Callable[[Path], tuple[SessionHeader, Sequence[Event]] | None]
"""Reads a recording that is no plain JSONL file; ``None`` when it is not one of its kind either."""
ENDINGS = (".jsonl", ".jsonl.zst")
"""How files of sessions are named."""


@frozen
class Life:
    """What one process lived of a session: the events from ``start`` on, up to and without ``end``.

    Attributes:
        killed: it ended with the process, or nothing is known of what came next; what an agent does beyond is no
            difference.
    """

    start: int
    end: int
    killed: bool = False


@frozen(eq=False)
class Recording:
    """One recorded session.

    Attributes:
        path: where it lies.
        header: identity and origin.
        events: all of them, in order.
        lives: from the first event that was not inherited; never empty.
    """

    path: Path
    header: SessionHeader
    events: tuple[Event, ...]
    lives: tuple[Life, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "lives", lives_of(self.events))


def read_recording(path: Path, openers: Iterable[Opener] = ()) -> Recording:
    """Read one recorded session; a torn tail is left out.

    Raises:
        SessionCorrupt: it is no log, or damaged before its end.
        SessionFormatUnsupported: it is in another format, or holds events that are unknown here.
        OSError: the file cannot be read.
    """
    for opener in openers:
        opened = opener(path)
        if opened is not None:
            return Recording(path, opened[0], tuple(opened[1]))
    lines = lines_of(path.read_bytes())
    try:
        reader = header_of(lines)
    except TreadleError as error:
        raise _named(error, path, 1) from error
    events: list[Event] = []
    for number, line in enumerate(lines[1:], 2):
        if is_blank(line):
            continue
        try:
            entry = reader.event(line)
        except TreadleError as error:
            if number == len(lines):
                break
            raise _named(error, path, number) from error
        if entry.seq != len(events):
            raise SessionCorrupt(
                f"event {entry.seq} stands where {len(events)} is due (N6)", path=str(path), line=number
            )
        events.append(entry)
    return Recording(path, reader.header, tuple(events))


def _named(error: TreadleError, path: Path, line: int) -> TreadleError:
    """The error with the place of the file in it."""
    if type(error).__name__ == "SessionFormatUnsupported":
        return type(error)(f"{path}, line {line}: {error}")
    return SessionCorrupt(f"no session log: {error}", path=str(path), line=line)


def recorded_files(path: Path) -> list[Path]:
    """The recordings that a path names: itself, or those of the folder, by name.

    Raises:
        MisuseError: nothing is there, or the folder holds none.
    """
    if path.is_dir():
        found = sorted([one for one in path.iterdir() if one.name.endswith(ENDINGS)])
        if not found:
            raise MisuseError(f"{path} holds no recorded session: files end in {' or '.join(ENDINGS)}")
        return found
    if not path.exists():
        raise MisuseError(f"there is no file {path}: name a session's log, or a folder of them")
    return [path]


def job_of(recording: Recording) -> str | None:
    """What a sub-agent was asked to do."""
    for entry in recording.events:
        if type(entry.data) is InboxSpliced and entry.data.inserted:
            return entry.data.inserted[0].text
    return None


# --- the lives of a session ---------------------------------------------------------------------------------------------


def lives_of(events: Sequence[Event]) -> tuple[Life, ...]:
    """Cut a log where the process ended that wrote it: at a repair, behind a disposal, or before a resumed turn.

    Where a resumed process closed a turn that a crash had left open, the earliest cut is taken from which closing it
    gives just these events. The process may have lived a little longer: that can no longer be told.
    """
    cuts: set[int] = set()
    first = 0
    for entry in events:
        if type(entry.data) is EndSeed:
            first = entry.seq + 1
    for entry in events[first:]:
        data = entry.data
        if type(data) is TurnEnd and isinstance(data.reason, Interrupted):
            cuts.add(_crash(events, entry.seq, first))
        elif type(data) is TurnEnd and isinstance(data.reason, Aborted) and isinstance(data.reason.reason, ByDisposal):
            cuts.add(entry.seq + 1)
        elif type(data) is RequestHeader and data.reason == "resume" and not _explained(events, entry.seq, first, cuts):
            cuts.add(_resumed(events, entry.seq))
    bounds = [first, *sorted(cut for cut in cuts if first < cut < len(events)), len(events)]
    open_turn = bool(closing_of(events))
    return tuple([Life(start, end, killed=end < len(events) or open_turn) for start, end in pairwise(bounds)])


def _crash(events: Sequence[Event], end: int, first: int) -> int:
    """Where the log was cut off that a repair closed with the events up to ``end``."""
    cut = end
    while cut > first and _closes(events, cut - 1, end):
        cut -= 1
    return cut


def _closes(events: Sequence[Event], cut: int, end: int) -> bool:
    """Whether closing the log that ends before ``cut`` gives the events from there to ``end``."""
    closing = closing_of(events[:cut])
    recorded = [entry.data for entry in events[cut : end + 1]]
    return len(closing) == len(recorded) and to_builtins(closing) == to_builtins(recorded)


def _explained(events: Sequence[Event], seq: int, first: int, cuts: set[int]) -> bool:
    """Whether a cut, or the seed, lies between a resumed request and the request before it."""
    before = next((at for at in range(seq - 1, -1, -1) if type(events[at].data) is RequestHeader), -1)
    return any(before < cut <= seq for cut in cuts) or (before < first <= seq and first > 0)


def _resumed(events: Sequence[Event], seq: int) -> int:
    """Where the process began whose first request is ``seq``: before the messages that its turn answers."""
    cut = next(at for at in range(seq, -1, -1) if type(events[at].data) is TurnStart)
    while cut and type(spliced := events[cut - 1].data) is InboxSpliced and not spliced.removed_count:
        cut -= 1
    return cut
