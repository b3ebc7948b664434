"""Checks of ``check_store`` for stores of which long sessions need not be held: reading back, and checkpoints (S11)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from attrs import define, field

from treadle import Event, SessionCorrupt, SessionHeader
from treadle.session import ArchivingStore, SessionStore, Taken, encode_event

from .store_bench import Bench, Check, extend, refused, sample, stored_as


@define
class Tally:
    """An intake that derives the types of all events: enough to tell whether each came once and in order.

    Attributes:
        read: the events that a store handed over since it began.
        header: the header of the session.
    """

    types: list[str] = field(factory=list[str])
    read: list[Event] = field(factory=list[Event])
    header: SessionHeader | None = None

    @property
    def count(self) -> int:
        """See ``Intake``."""
        return len(self.types)

    @property
    def sound(self) -> bool:
        """See ``Intake``."""
        return True

    def begin(self, header: SessionHeader) -> None:
        """See ``Intake``."""
        self.header, self.types, self.read = header, [], []

    def restore(self, header: SessionHeader, state: Sequence[bytes]) -> bool:
        """See ``Intake``."""
        self.begin(header)
        self.types = [msgspec.json.decode(line) for line in state]
        return True

    def take(self, events: Sequence[Event]) -> None:
        """See ``Intake``."""
        self.types += [entry.type for entry in events]
        self.read += events

    def state(self) -> list[bytes] | None:
        """See ``Intake``."""
        return [msgspec.json.encode(tag) for tag in self.types]


async def _taken(store: SessionStore, tally: Tally) -> Taken | None:
    return await store.open_intake("s", tally) if isinstance(store, ArchivingStore) else None


async def what_is_stored_is_read_back(bench: Bench) -> None:
    """S11: every event that was stored can be had again, whoever stored it, by any bounds."""
    session = sample("s", turns=40)
    await (await stored_as(bench.store(), session)).close()
    tally = Tally()
    taken = await _taken(bench.store(), tally)
    if taken is None:
        return
    assert tally.read == list(session.events), "opening did not hand over each event once, in order"
    assert taken.count == len(session)
    for _ in range(3):
        await taken.writer.append(extend(session, 20))
        events = list(session.events)
        if taken.archive is None:
            continue
        assert taken.archive.count == len(events)
        for first, stop in ((0, 1), (3, 9), (len(events) - 5, len(events)), (0, len(events)), (200, 300)):
            found = list(taken.archive.read(first, stop))
            assert list(map(encode_event, found)) == list(map(encode_event, events[first:stop])), f"{first} to {stop}"
    await taken.writer.close()


async def a_checkpoint_changes_nothing_but_the_way(bench: Bench) -> None:
    """S11: opening from a checkpoint hands over what follows it, and gives what opening without gives."""
    session = sample("s", turns=40)
    await (await stored_as(bench.store(), session)).close()
    tally = Tally()
    taken = await _taken(bench.store(), tally)
    if taken is None or taken.archive is None:
        return
    assert await taken.archive.keep(tally), "there is no checkpoint"
    kept = len(session)
    assert (taken.archive.covered, taken.archive.weight > 0) == (kept, True)
    await taken.writer.append(extend(session, 5))
    further = len(session)
    assert not await taken.archive.keep(tally), "a checkpoint of an intake that lacks events"
    await taken.writer.close()

    again = Tally()
    taken = await _taken(bench.store(), again)
    assert taken is not None
    assert taken.archive is not None
    assert again.types == [entry.type for entry in session.events]
    assert again.read == list(session.events)[kept:], "what the checkpoint stands for was read again"
    await taken.writer.append(extend(session, 5))
    assert await taken.archive.advance(Tally(), further), "no checkpoint of what is stored since"
    assert taken.archive.covered == further
    await taken.writer.append(extend(session, 5))
    await taken.writer.close()

    last = Tally()
    taken = await _taken(bench.store(), last)
    assert taken is not None
    assert last.types == [entry.type for entry in session.events]
    assert last.read == list(session.events)[further:]
    await taken.writer.close()


async def a_deleted_session_leaves_no_checkpoint(bench: Bench) -> None:
    """S11: another session of the same id is not taken for it."""
    session = sample("s", turns=10)
    await (await stored_as(bench.store(), session)).close()
    tally = Tally()
    taken = await _taken(bench.store(), tally)
    if taken is None or taken.archive is None:
        return
    assert await taken.archive.keep(tally)
    await taken.writer.close()
    await bench.store().delete("s")
    other = sample("s", turns=12, text="something else")
    await (await stored_as(bench.store(), other)).close()
    fresh = Tally()
    taken = await _taken(bench.store(), fresh)
    assert taken is not None
    assert fresh.read == list(other.events)
    await taken.writer.close()


async def a_changed_log_makes_its_checkpoint_useless(bench: Bench) -> None:
    """S11, P3: damage before the tail is found, though a checkpoint stands for what is damaged."""
    assert bench.faults.spoil is not None
    session = sample("s", turns=10)
    await (await stored_as(bench.store(), session)).close()
    tally = Tally()
    taken = await _taken(bench.store(), tally)
    if taken is None or taken.archive is None:
        return
    assert await taken.archive.keep(tally)
    await taken.writer.close()
    bench.faults.spoil(bench.directory, "s")
    await refused(SessionCorrupt, lambda: _taken(bench.store(), Tally()))


ARCHIVE_CHECKS: tuple[Check, ...] = (
    what_is_stored_is_read_back,
    a_checkpoint_changes_nothing_but_the_way,
    a_deleted_session_leaves_no_checkpoint,
    a_changed_log_makes_its_checkpoint_useless,
)
"""Checks that are made of every store; one that reads nothing back, or keeps no checkpoints, has nothing to keep."""
ARCHIVE_NEEDS: dict[Check, str] = {a_changed_log_makes_its_checkpoint_useless: "spoil"}
