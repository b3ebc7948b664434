"""Small changes of a session log: what a checker of logs has to notice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from attrs import frozen

from treadle import Event
from treadle.session import Replace
from treadle.testing import LogMonitor


@frozen
class Change:
    """A changed log: ``what`` says what was done to it."""

    what: str
    events: list[Event]


def changes(events: Sequence[Event]) -> Iterator[Change]:
    """Every log that lacks one event, has one twice, or has two in each other's place; numbers stay as they were."""
    log = list(events)
    for at, entry in enumerate(log):
        yield Change(f"without {at} {entry.type}", log[:at] + log[at + 1 :])
        yield Change(f"twice {at} {entry.type}", log[: at + 1] + log[at:])
    for first, one in enumerate(log):
        for second in range(first + 1, len(log)):
            changed = list(log)
            changed[first], changed[second] = log[second], one
            yield Change(f"swapped {first} {one.type} and {second} {log[second].type}", changed)


def renumbered(events: Sequence[Event]) -> list[Event]:
    """The events as if they had been written in this order, references and all."""
    places: dict[int, int] = {}
    for at, entry in enumerate(events):
        places.setdefault(entry.seq, at)
    out: list[Event] = []
    for at, entry in enumerate(events):
        op, cites = entry.surface_op, entry.source_event_seqs
        if isinstance(op, Replace):
            op = Replace(places.get(op.first, op.first), places.get(op.last, op.last))
        if cites is not None:
            cites = tuple([places.get(seq, seq) for seq in cites])
        out.append(msgspec.structs.replace(entry, seq=at, surface_op=op, source_event_seqs=cites))
    return out


def says_the_same(one: Sequence[Event], other: Sequence[Event]) -> bool:
    """Whether two logs say the same, but for numbers and times: then a change was none."""

    def said(events: Sequence[Event]) -> list[Event]:
        return [msgspec.structs.replace(entry, time=0) for entry in renumbered(events)]

    return said(one) == said(other)


def complaints(events: Sequence[Event]) -> list[str]:
    """What the monitor says of a log that should be finished."""
    monitor = LogMonitor()
    for entry in events:
        monitor.take(entry)
    said = [str(breach) for breach in monitor.breaches]
    return said if monitor.unfinished is None else [*said, f"the log ends inside {monitor.unfinished}"]


@frozen
class Tally:
    """How many changes of logs were tried, and which were not noticed."""

    tried: int
    unnoticed: tuple[str, ...]


def tally(logs: Sequence[Sequence[Event]], *, renumber: bool) -> Tally:
    """Try every change of every log; with ``renumber`` the changed log is numbered anew, which hides the change."""
    tried, unnoticed = 0, list[str]()
    for events in logs:
        for change in changes(events):
            if says_the_same(change.events, events):
                continue
            tried += 1
            if not complaints(renumbered(change.events) if renumber else change.events):
                unnoticed.append(change.what)
    return Tally(tried, tuple(unnoticed))
