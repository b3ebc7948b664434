"""What must hold of all logs and of everything that was acknowledged, whatever befell replicas, server and network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from treadle import Event
from treadle.session import InboxSpliced, UserMessageAdded, encode_event, read_header
from treadle_adapters.cluster.mailbox import LetterTaken
from treadle_specs.logs.checker import check_events

Row = tuple[int, int, str]
"""Seq, epoch and record of an event."""


@frozen
class Kept:
    """A session as the database has it."""

    session: str
    header: str
    next_seq: int
    rows: tuple[Row, ...]


@frozen
class Acknowledged:
    """A message of which a replica was told that it is on record."""

    session: str
    text: str


@frozen
class Letter:
    """A letter of the mailbox as the database has it. ``seq`` is that of the event which records it, once it is taken."""

    session: str
    id: str
    seq: int | None


def letters_in(conn: Any) -> list[Letter]:
    """All letters of a database."""
    found = conn.execute("select session, id, seq, letter is null from mailbox").fetchall()
    assert all((seq is not None) == taken for _, _, seq, taken in found), "half taken"
    return [Letter(session, name, seq) for session, name, seq, _ in found]


def logs_in(conn: Any) -> list[Kept]:
    """All sessions of a database."""
    kept: list[Kept] = []
    for session, header, next_seq in conn.execute("select id, header, next_seq from sessions").fetchall():
        found = conn.execute("select seq, epoch, record from events where session = %s order by seq", (session,))
        kept.append(Kept(session, header, next_seq, tuple(found.fetchall())))
    return kept


def letter_faults(logs: Iterable[Kept], letters: Iterable[Letter], accepted: Iterable[tuple[str, str]]) -> list[str]:
    """What is wrong with letters, in words: each that was accepted waits, or is recorded once, where it says."""
    recorded: dict[tuple[str, str], list[int]] = {}
    for kept in logs:
        reader = read_header(kept.header.encode())
        for seq, _, record in kept.rows:
            data = reader.event(record.encode()).data
            if isinstance(data, InboxSpliced):
                for message in data.inserted:
                    recorded.setdefault((kept.session, message.id), []).append(seq)
            elif isinstance(data, LetterTaken):
                recorded.setdefault((kept.session, data.id), []).append(seq)
    known = {(letter.session, letter.id): letter.seq for letter in letters}
    found = [f"{place}: was accepted, and is gone" for place in accepted if place not in known]
    for place, seq in known.items():
        places = recorded.get(place, [])
        if places != ([] if seq is None else [seq]):
            found.append(f"{place}: says that it is recorded at {seq}, and is at {places}")
    return found


def faults_in(
    logs: Iterable[Kept], acknowledged: Iterable[Acknowledged], followed: Mapping[str, Sequence[Event]]
) -> list[str]:
    """Everything that is wrong, in words. Texts are ``REPLICA/…``, so who wrote them can be seen, or came by letter."""
    found: list[str] = []
    places: Counter[tuple[str, str]] = Counter()
    anywhere: Counter[str] = Counter()
    for kept in logs:
        reader = read_header(kept.header.encode())
        events = [reader.event(record.encode()) for _, _, record in kept.rows]
        seqs = [seq for seq, _, _ in kept.rows]
        if seqs != list(range(len(seqs))) or kept.next_seq != len(seqs):
            found.append(f"{kept.session}: a gap: {len(seqs)} events, {kept.next_seq} counted, the last {seqs[-1:]}")
        epochs = [epoch for _, epoch, _ in kept.rows]
        if epochs != sorted(epochs):
            found.append(f"{kept.session}: an epoch goes back")
        for event in events:
            if type(event.data) is UserMessageAdded:
                places[kept.session, event.data.message.text] += 1
                anywhere[event.data.message.text] += 1
        found += _two_owners(kept, events)
        found += [
            f"{kept.session}: {each.rule}: {each.message}"
            for each in check_events(events, header=reader.header).findings
        ]
        if kept.session in followed:
            seen = [encode_event(event) for event in followed[kept.session]]
            if seen != [encode_event(event) for event in events[: len(seen)]]:
                found.append(f"{kept.session}: a follower saw something else")
    found += [f"{text!r} is there {count} times" for text, count in anywhere.items() if count > 1]
    for each in acknowledged:
        if places[each.session, each.text] != 1:
            found.append(
                f"{each.session}: {each.text!r} was acknowledged and is there {places[each.session, each.text]} times"
            )
    return found


def _two_owners(kept: Kept, events: Sequence[Event]) -> Iterator[str]:
    """Epochs under which messages of two replicas were put into the inbox; what came by letter has no ``/``."""
    writers: dict[int, str] = {}
    for (_, epoch, _), event in zip(kept.rows, events, strict=True):
        texts = [message.text for message in event.data.inserted] if isinstance(event.data, InboxSpliced) else []
        for writer in [text.partition("/")[0] for text in texts if "/" in text]:
            if writers.setdefault(epoch, writer) != writer:
                yield f"{kept.session}: two owners wrote under epoch {epoch}"
