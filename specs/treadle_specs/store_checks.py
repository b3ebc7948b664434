"""The checks of ``check_store``: each holds a store to one promise of §13. Use them through ``store_kit``."""

from __future__ import annotations

import os

import trio
from msgspec.structs import replace

from treadle.errors import (
    DuplicateSession,
    MisuseError,
    SessionCorrupt,
    SessionFormatUnsupported,
    SessionLocked,
    SessionNotFound,
    StoreFailure,
)
from treadle.session.events import EndSeed, Event, TurnStart
from treadle.session.log import Session

from .store_kit import Bench, Check, extend, refused, sample, stored_as

SEPARATORS = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1dh\x1ei\rj\r\nk\x00l\u6c49\U0001f600"
"""Everything that some reader takes for the end of a line, and what takes more than one byte."""
HOSTILE = ("", "..", "../x", "a/b", "a\\b", ".hidden", "a" * 129, "nul\0", "line\nfeed", "a..b", "é", "-dash")
"""Ids that must not get near a path or a statement (X2)."""


# --- creating and reading ---------------------------------------------------------------------------------------------


async def created_is_durable_at_return(bench: Bench) -> None:
    """P1: header and events of a new session are there for others when ``create`` returns."""
    session = sample("s")
    await stored_as(bench.store(), session)
    stored = await bench.store().open_read("s")
    assert stored.header == session.header, (stored.header, session.header)
    assert list(stored.events) == list(session.events)
    assert stored.torn is None


async def header_alone_is_an_empty_session(bench: Bench) -> None:
    """P1: a session without events opens, for reading and writing."""
    writer = await stored_as(bench.store(), sample("s", 0))
    await writer.close()
    store = bench.store()
    assert len((await store.open_read("s")).events) == 0
    opened = await store.open_write("s")
    assert opened.writer.accepted == 0
    await opened.writer.close()


async def every_text_comes_back(bench: Bench) -> None:
    """S1, N6: text with every kind of separator comes back exactly, one record per event."""
    session = sample("s", 1, SEPARATORS)
    writer = await stored_as(bench.store(), session)
    await writer.append(extend(session, 1, SEPARATORS))
    await writer.close()
    assert list((await bench.store().open_read("s")).events) == list(session.events)


async def an_id_is_stored_once(bench: Bench) -> None:
    """O2: a second session of an id is refused, and the first is unchanged."""
    store, session = bench.store(), sample("s")
    writer = await stored_as(store, session)
    await refused(DuplicateSession, lambda: stored_as(store, sample("s", 1)))
    await writer.close()
    await refused(DuplicateSession, lambda: stored_as(bench.store(), sample("s", 1)))
    assert len((await store.open_read("s")).events) == len(session)


async def what_is_not_there_is_said_to_be_missing(bench: Bench) -> None:
    """O13: an unknown id raises ``SessionNotFound`` everywhere."""
    store = bench.store()
    await (await stored_as(store, sample("other"))).close()
    for call in (store.open_read, store.open_write, store.inspect, store.revision, store.delete):
        await refused(SessionNotFound, lambda call=call: call("s"))
    await refused(SessionNotFound, lambda: store.fork("s", "t"))


async def hostile_ids_are_refused_first(bench: Bench) -> None:
    """X2: an id that could leave its directory is refused by every method, and nothing is touched."""
    store = bench.store()
    await (await stored_as(store, sample("s"))).close()
    for name in HOSTILE:
        for call in (store.open_read, store.open_write, store.inspect, store.revision, store.delete):
            await refused(MisuseError, lambda call=call, name=name: call(name))
        header = replace(sample("x").header, id=name)
        await refused(MisuseError, lambda header=header: store.create(header))
        await refused(MisuseError, lambda name=name: store.fork("s", name))
    assert [one.header.id for one in (await store.list()).sessions] == ["s"]
    beside = {path.name for path in bench.directory.parent.iterdir()}
    assert beside <= {bench.directory.name}, f"something was written beside the directory: {beside}"


async def reading_goes_on_beside_a_writer(bench: Bench) -> None:
    """P3: reading neither needs the lock nor disturbs who has it."""
    session = sample("s")
    writer = await stored_as(bench.store(), session)
    await bench.store().open_read("s")
    await writer.append(extend(session))
    assert len((await bench.store().inspect("s")).events) == len(session)
    await writer.close()


# --- appending --------------------------------------------------------------------------------------------------------


async def append_returns_after_durability(bench: Bench) -> None:
    """P1: what ``append`` has returned for is there for others."""
    session = sample("s")
    writer = await stored_as(bench.store(), session)
    for _ in range(3):
        await writer.append(extend(session))
        assert writer.pending == 0
        assert list((await bench.store().open_read("s")).events) == list(session.events)
    await writer.close()


async def live_events_wait_for_a_window_only(bench: Bench) -> None:
    """P1: a live event is written in the background when the fixed window is over, and not at once."""
    session = sample("s")
    writer = await stored_as(bench.store(), session)
    async with trio.open_nursery() as nursery:
        writer.start(nursery.start_soon, _unexpected)
        for entry in extend(session, 3):
            writer.add(entry)
        reader = bench.store()
        assert len((await reader.open_read("s")).events) < len(session), "nothing is batched"
        await bench.let_pass(5, lambda: not nursery.child_tasks)
        assert list((await reader.open_read("s")).events) == list(session.events)
    await writer.close()


async def flush_is_the_barrier(bench: Bench) -> None:
    """P1: when ``flush`` returns, everything given before it is durable, without a background as well."""
    session = sample("s")
    writer = await stored_as(bench.store(), session)
    for entry in extend(session, 3):
        writer.add(entry)
    assert writer.pending == 18
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(writer.flush)
    assert writer.pending == 0
    assert list((await bench.store().open_read("s")).events) == list(session.events)
    await writer.close()


async def numbers_follow_each_other(bench: Bench) -> None:
    """N6: an event whose number is not the one due is refused, and nothing changes."""
    session = sample("s")
    writer = await stored_as(bench.store(), session)
    due = len(session)
    for wrong in (due - 1, due + 1):
        await refused(MisuseError, lambda wrong=wrong: writer.append([Event("turn/start", wrong, 1, TurnStart(3))]))
    assert (writer.accepted, writer.pending) == (due, 0)
    await writer.append(extend(session))
    await writer.close()
    assert list((await bench.store().open_read("s")).events) == list(session.events)


async def many_sessions_are_written_at_once(bench: Bench) -> None:
    """P1: sessions of one store do not get into each other's way."""
    store = bench.store()
    sessions = [sample(f"s{number}") for number in range(8)]

    async def drive(session: Session) -> None:
        writer = await stored_as(store, session)
        for _ in range(5):
            await writer.append(extend(session))
        await writer.close()

    async with trio.open_nursery() as nursery:
        for session in sessions:
            nursery.start_soon(drive, session)
    for session in sessions:
        assert list((await bench.store().open_read(session.id)).events) == list(session.events)


async def a_failed_write_keeps_its_events(bench: Bench) -> None:
    """P1, N8: a failed background write is reported once, keeps its events, and blocks no other session."""
    assert bench.faults.jam is not None
    store, session, other = bench.store(), sample("s"), sample("other")
    writer, free = await stored_as(store, session), await stored_as(store, other)
    told: list[Exception] = []
    async with trio.open_nursery() as nursery:
        writer.start(nursery.start_soon, told.append)
        with bench.faults.jam(bench.directory, "s"):
            for entry in extend(session):
                writer.add(entry)
            await bench.let_pass(5, lambda: bool(told))
            assert isinstance(told[0], StoreFailure), told
            await free.append(extend(other))
            await refused(StoreFailure, writer.flush)
            assert writer.pending == 6
            writer.add(extend(session)[0])
            await bench.let_pass(5, lambda: not nursery.child_tasks)
            assert len(told) == 1, told
        assert len((await bench.store().open_read("s")).events) == 12, "a failed write left something behind"
        for entry in list(session.events)[writer.accepted :]:
            writer.add(entry)
        await writer.flush()
    assert list((await bench.store().open_read("s")).events) == list(session.events)
    await writer.close()
    await free.close()


# --- one writer -------------------------------------------------------------------------------------------------------


async def a_second_writer_is_refused(bench: Bench) -> None:
    """P2: a second writer is refused and told who the first is; closing lets the next one in at once."""
    writer = await stored_as(bench.store(), sample("s"))
    for store in (bench.store(), bench.store()):
        error = await refused(SessionLocked, lambda store=store: store.open_write("s"))
        assert str(os.getpid()) in str(error), f"the owner is not named: {error}"
    await writer.close()
    await writer.close()
    for _ in range(3):
        opened = await bench.store().open_write("s")
        await opened.writer.close()


async def a_closed_writer_takes_nothing(bench: Bench) -> None:
    """O4: after ``close`` nothing more is taken."""
    session = sample("s")
    writer = await stored_as(bench.store(), session)
    await writer.close()
    await refused(MisuseError, lambda: writer.append(extend(session)))
    assert len((await bench.store().open_read("s")).events) == 12


async def close_writes_what_is_left(bench: Bench) -> None:
    """O4: ``close`` flushes."""
    session = sample("s")
    writer = await stored_as(bench.store(), session)
    for entry in extend(session):
        writer.add(entry)
    await writer.close()
    assert list((await bench.store().open_read("s")).events) == list(session.events)


async def a_writer_that_lost_its_lock_stops(bench: Bench) -> None:
    """P2: it fails loudly at its next append and never writes again; the new owner is not disturbed."""
    assert bench.faults.steal is not None
    session = sample("s")
    old = await stored_as(bench.store(), session)
    bench.faults.steal(bench.directory, "s")
    new = await bench.store().open_write("s")
    await refused(SessionLocked, lambda: old.append(extend(sample("s"))))
    await new.writer.append(extend(session))
    await refused(SessionLocked, old.flush)
    await refused(SessionLocked, old.close)
    await new.writer.append(extend(session))
    await new.writer.close()
    assert list((await bench.store().open_read("s")).events) == list(session.events)


# --- damage -----------------------------------------------------------------------------------------------------------


async def a_torn_tail_is_repaired_at_writing(bench: Bench) -> None:
    """P3: reading tells of it and changes nothing; opening for writing repairs and tells; then it is gone."""
    assert bench.faults.tear is not None
    session = sample("s")
    await (await stored_as(bench.store(), session)).close()
    bench.faults.tear(bench.directory, "s")
    store = bench.store()
    before = await store.revision("s")
    for stored in (await store.open_read("s"), await store.inspect("s")):
        assert stored.torn is not None
        assert stored.torn.dropped > 0
        assert list(stored.events) == list(session.events)
    assert await store.revision("s") == before, "reading changed what is stored"
    opened = await store.open_write("s")
    assert opened.stored.torn is not None
    await opened.writer.append(extend(session))
    await opened.writer.close()
    again = await bench.store().open_read("s")
    assert again.torn is None
    assert list(again.events) == list(session.events)


async def damage_before_the_tail_is_corruption(bench: Bench) -> None:
    """P3: it is refused with its place and nothing is changed; the readable prefix can be had."""
    assert bench.faults.spoil is not None
    session = sample("s")
    await (await stored_as(bench.store(), session)).close()
    bench.faults.spoil(bench.directory, "s")
    store = bench.store()
    before = await store.revision("s")
    for call in (store.open_read, store.open_write, store.open_write):
        error = await refused(SessionCorrupt, lambda call=call: call("s"))
        assert isinstance(error, SessionCorrupt)
        assert error.path is not None
        assert error.line == 5, f"event 3 stands on line 5, not {error.line}"
    stored = await store.inspect("s")
    assert isinstance(stored.damage, SessionCorrupt)
    assert list(stored.events) == list(session.events)[:3]
    assert await store.revision("s") == before, "a refused session was changed"


async def other_formats_are_no_corruption(bench: Bench) -> None:
    """P5: a newer format is refused as such, by every way in, and named in the listing."""
    store = bench.store()
    newer = replace(sample("new").header, format_version=99)
    await (await store.create(newer)).close()
    await (await stored_as(store, sample("s"))).close()
    for call in (store.open_read, store.open_write, store.inspect):
        await refused(SessionFormatUnsupported, lambda call=call: call("new"))
    listing = await store.list()
    assert [one.header.id for one in listing.sessions] == ["s"]
    assert len(listing.unreadable) == 1
    assert "new" in listing.unreadable[0].name
    assert isinstance(listing.unreadable[0].error, SessionFormatUnsupported)


async def unknown_types_are_kept_or_refused(bench: Bench) -> None:
    """S2: an unknown ignorable event is kept as it was; without that mark the load is refused."""
    store, session = bench.store(), sample("s")
    seq = len(session)
    known = [*session.events, Event("check/unknown", seq, 5, {"deep": [1, {"x": None}]}, ignorable=True)]
    await (await store.create(session.header, known)).close()
    assert list((await store.open_read("s")).events) == known
    strange = [*session.events, Event("check/unknown", seq, 5, {})]
    await (await store.create(replace(session.header, id="t"), strange)).close()
    for call in (store.open_read, store.open_write):
        await refused(SessionFormatUnsupported, lambda call=call: call("t"))


# --- listing, revision, fork, delete ----------------------------------------------------------------------------------


async def listing_tells_what_there_is(bench: Bench) -> None:
    """P6: every session is listed, with header, count and the beginning of its first message."""
    store = bench.store()
    assert (await store.list()).sessions == ()
    for number in range(3):
        await (await stored_as(store, sample(f"s{number}", number, "What now?"))).close()
    listed = {one.header.id: one for one in (await bench.store().list()).sessions}
    assert sorted(listed) == ["s0", "s1", "s2"]
    assert [listed[f"s{number}"].events for number in range(3)] == [0, 6, 12]
    assert listed["s2"].title == "What now? 1"
    assert listed["s0"].header == sample("s0").header
    assert all(one.size > 0 and one.modified > 0 for one in listed.values())


async def the_revision_tells_of_every_change(bench: Bench) -> None:
    """P1: the revision is the same exactly as long as what is stored is."""
    session = sample("s")
    writer = await stored_as(bench.store(), session)
    store = bench.store()
    seen = {await store.revision("s")}
    for _ in range(3):
        await writer.append(extend(session))
        now = await store.revision("s")
        assert now not in seen
        assert now == await store.revision("s") == (await store.open_read("s")).revision
        seen.add(now)
    await writer.close()
    assert await store.revision("s") in seen
    await store.delete("s")
    await (await stored_as(store, sample("s", 5))).close()
    assert await store.revision("s") not in seen


async def opening_adds_nothing(bench: Bench) -> None:
    """S5: opening and closing an untouched session five times changes nothing."""
    await (await stored_as(bench.store(), sample("s"))).close()
    store = bench.store()
    before = await store.revision("s")
    for _ in range(5):
        opened = await store.open_write("s")
        assert opened.stored.revision == before
        await opened.writer.close()
    assert await store.revision("s") == before


async def a_fork_is_a_session_of_its_own(bench: Bench) -> None:
    """S5: it begins with copies of the first events, tells where from and how many, and has one mark behind them."""
    store, session = bench.store(), sample("s", 3)
    await (await stored_as(store, session)).close()
    before = await store.revision("s")
    for upto, count in ((None, 18), (6, 6), (0, 0)):
        header = await store.fork("s", f"f{count}", upto)
        stored = await bench.store().open_read(f"f{count}")
        assert stored.header == header
        assert (header.parent_session, header.seeded, header.inherited) == ("s", True, count)
        assert list(stored.events)[:count] == list(session.events)[:count]
        assert [entry.data for entry in list(stored.events)[count:]] == [EndSeed(count, "s")]
    await refused(MisuseError, lambda: store.fork("s", "inside", 3))
    await refused(MisuseError, lambda: store.fork("s", "beyond", 19))
    await refused(DuplicateSession, lambda: store.fork("s", "f6"))
    assert await store.revision("s") == before
    assert len((await store.list()).sessions) == 4


async def delete_takes_a_session_away(bench: Bench) -> None:
    """P2: a session that somebody writes is not deleted; a deleted one is gone, and its id is free again."""
    store = bench.store()
    writer = await stored_as(store, sample("s"))
    await refused(SessionLocked, lambda: bench.store().delete("s"))
    await writer.close()
    await store.delete("s")
    await refused(SessionNotFound, lambda: bench.store().open_read("s"))
    assert (await store.list()).sessions == ()
    await (await stored_as(store, sample("s", 1))).close()
    assert len((await store.open_read("s")).events) == 6


async def a_closed_store_loses_nothing(bench: Bench) -> None:
    """N7: closing twice is fine, and another store finds everything."""
    store = bench.store()
    await (await stored_as(store, sample("s"))).close()
    await store.close()
    await store.close()
    assert len((await bench.store().open_read("s")).events) == 12


def _unexpected(error: Exception) -> None:
    raise AssertionError(f"the background failed: {error!r}") from error


CHECKS: tuple[Check, ...] = (
    created_is_durable_at_return,
    header_alone_is_an_empty_session,
    every_text_comes_back,
    an_id_is_stored_once,
    what_is_not_there_is_said_to_be_missing,
    hostile_ids_are_refused_first,
    reading_goes_on_beside_a_writer,
    append_returns_after_durability,
    live_events_wait_for_a_window_only,
    flush_is_the_barrier,
    numbers_follow_each_other,
    many_sessions_are_written_at_once,
    a_failed_write_keeps_its_events,
    a_second_writer_is_refused,
    a_closed_writer_takes_nothing,
    close_writes_what_is_left,
    a_writer_that_lost_its_lock_stops,
    a_torn_tail_is_repaired_at_writing,
    damage_before_the_tail_is_corruption,
    other_formats_are_no_corruption,
    unknown_types_are_kept_or_refused,
    listing_tells_what_there_is,
    the_revision_tells_of_every_change,
    opening_adds_nothing,
    a_fork_is_a_session_of_its_own,
    delete_takes_a_session_away,
    a_closed_store_loses_nothing,
)
"""Every check, one per promise."""

NEEDS: dict[Check, str] = {
    a_failed_write_keeps_its_events: "jam",
    a_writer_that_lost_its_lock_stops: "steal",
    a_torn_tail_is_repaired_at_writing: "tear",
    damage_before_the_tail_is_corruption: "spoil",
}
"""The means of ``Faults`` that a check needs."""
