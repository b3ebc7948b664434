"""The checks of ``check_store``: each holds a store to one promise of §13."""

from __future__ import annotations

import os

import trio
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

from treadle import DuplicateSession, Event, MisuseError, Session, SessionLocked, SessionNotFound, StoreFailure
from treadle.session import TurnStart

from .archive_checks import ARCHIVE_CHECKS, ARCHIVE_NEEDS
from .store_bench import Bench, Check, extend, refused, sample, stored_as
from .stored_checks import STORED_CHECKS, STORED_NEEDS
from .sweep_checks import SWEEP_CHECKS, SWEEP_NEEDS

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
        await wait_all_tasks_blocked()
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
    *ARCHIVE_CHECKS,
    *STORED_CHECKS,
    *SWEEP_CHECKS,
)
"""Every check, one per promise."""

NEEDS: dict[Check, str] = {
    a_failed_write_keeps_its_events: "jam",
    a_writer_that_lost_its_lock_stops: "steal",
    **ARCHIVE_NEEDS,
    **STORED_NEEDS,
    **SWEEP_NEEDS,
}
"""The means of ``Faults`` that a check needs."""
