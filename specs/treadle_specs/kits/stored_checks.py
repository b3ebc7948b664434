"""More checks of ``check_store``: damage, formats, listing, revisions, forks."""

from __future__ import annotations

from msgspec.structs import replace

from treadle import DuplicateSession, Event, MisuseError, SessionCorrupt, SessionLocked, SessionNotFound
from treadle.errors import SessionFormatUnsupported
from treadle.session import EndSeed

from .store_bench import Bench, Check, extend, refused, sample, stored_as

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


STORED_CHECKS: tuple[Check, ...] = (
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
"""Every check of this module."""

STORED_NEEDS: dict[Check, str] = {
    a_torn_tail_is_repaired_at_writing: "tear",
    damage_before_the_tail_is_corruption: "spoil",
}
"""The means of ``Faults`` that they need."""
