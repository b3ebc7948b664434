"""One commit for many sessions: what befalls it, and what of it befalls whom (P1, P2, N6)."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import trio

from tests.postgres import Server
from tests.proxy import Proxy
from treadle import Session, SessionCorrupt, SessionLocked, StoreFailure
from treadle_adapters.stores.postgres import append
from treadle_adapters.stores.postgres.append import Due
from treadle_adapters.stores.postgres.link import Connection
from treadle_specs.kits.store_bench import extend, refused, sample, stored_as

from .conftest import Stores

MARK = "the record that the database stops at"
GATE = 4711


def no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "s.epoch = %(epoch)b::int8 and s.next_seq = %(first)b::int8", "true")


def fence_without_row_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fence is looked at before the row is locked, and not again."""
    stale = (
        "exists (select from sessions o where o.id = %(id)b and o.epoch = %(epoch)b::int8 and o.next_seq = %(first)b)"
    )
    plant(monkeypatch, "s.epoch = %(epoch)b::int8 and s.next_seq = %(first)b::int8", stale)


def plant(monkeypatch: pytest.MonkeyPatch, fence: str, instead: str) -> None:
    assert fence in append.ONE
    monkeypatch.setattr(append, "ONE", append.ONE.replace(fence, instead))


def retried_blindly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the session holds by now, what was sent is sent again behind it."""

    def look(conn: Connection, batch: list[Due]) -> list[Due]:
        for due in batch:
            row = conn.execute("select next_seq from sessions where id = %s", (due.session,)).fetchone()
            assert row is not None
            due.first = row[0]
        return batch

    monkeypatch.setattr(append, "_look", look)


def taken_for_stolen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused commit is never looked up."""

    def look(_: Connection, batch: list[Due]) -> list[Due]:
        for due in batch:
            due.settle(SessionLocked("taken over"))
        return []

    monkeypatch.setattr(append, "_look", look)


# --- the fence --------------------------------------------------------------------------------------------------------


async def stopped_inside_a_commit(server: Server, stores: Stores, schema: str) -> None:
    """A commit is stopped half way while another store takes the session over: it counts wholly before, or not at all."""
    session = sample("s")
    old, new = stores(), stores()
    writer = await stored_as(old, session)
    with server.connect(schema) as conn:
        conn.execute(
            f"""create function gate() returns trigger language plpgsql as
            $$ begin perform pg_advisory_xact_lock({GATE}); return new; end $$"""
        )
        conn.execute(
            f"create trigger gate before insert on events for each row when (new.record like '%{MARK}%') "
            "execute function gate()"
        )
        conn.execute("update sessions set owner = null")
        conn.execute("select pg_advisory_lock(%s)", (GATE,))
        opened: list[Any] = []

        async def take() -> None:
            opened.append(await new.open_write("s"))

        async def write() -> None:
            try:
                await writer.append(extend(session, 1, MARK))
            except SessionLocked:
                written.append(False)
            else:
                written.append(True)

        written: list[bool] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await until(conn, f"select count(*) > 0 from pg_locks where objid = {GATE} and not granted")
            nursery.start_soon(take)
            waits = (
                "select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock' "
                "and query like 'select s.owner%'"
            )
            await until(conn, waits, lambda: bool(opened))
            conn.execute("select pg_advisory_unlock(%s)", (GATE,))
    theirs = Session(opened[0].stored.header, opened[0].stored.events)
    assert len(theirs) == (18 if written[0] else 12), "the new owner does not see what the old one wrote"
    await opened[0].writer.append(extend(theirs))
    assert list((await new.open_read("s")).events) == list(theirs.events)
    await refused(SessionLocked, lambda: writer.append(extend(sample("s", 3))))
    await opened[0].writer.close()


async def until(conn: Any, question: str, or_else: Callable[[], bool] = lambda: False) -> None:
    """Wait until the server answers yes."""
    with trio.fail_after(20):
        while not or_else():
            row = conn.execute(question).fetchone()
            if row is not None and row[0]:
                return
            await trio.sleep(0.005)


@pytest.mark.rule("P2", "N6")
async def test_a_writer_stopped_inside_its_commit_corrupts_nothing(
    postgres: Server, stores: Stores, schema: str
) -> None:
    await stopped_inside_a_commit(postgres, stores, schema)


async def taken_while_a_commit_waits(
    server: Server, stores: Stores, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit begins while a take-over is not yet committed: it waits, and then finds that the session is another's."""
    monkeypatch.setattr(append, "PLANNED", append.PLANNED.replace("lock_timeout = 100;", "lock_timeout = 20000;"))
    session = sample("s")
    writer = await stored_as(stores(), session)
    told: list[Exception] = []

    async def write() -> None:
        told.append(await refused(SessionLocked, lambda: writer.append(extend(session))))

    with server.connect(schema) as conn:
        async with trio.open_nursery() as nursery:
            with conn.transaction():
                conn.execute("update sessions set owner = 'other', epoch = nextval('epochs')")
                nursery.start_soon(write)
                with server.connect() as beside:
                    waits = "select count(*) > 0 from pg_locks where not granted"
                    await until(beside, waits, lambda: bool(told))
        assert conn.execute("select count(*), max(epoch) from events").fetchone() == (12, 1)
    assert told
    await refused(SessionLocked, writer.close)


@pytest.mark.rule("P2", "N6")
async def test_a_commit_that_waits_for_a_take_over_is_refused(
    postgres: Server, stores: Stores, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await taken_while_a_commit_waits(postgres, stores, schema, monkeypatch)


@pytest.mark.rule("P2", "N6")
@pytest.mark.parametrize("fault", [no_fence, fence_without_row_lock])
async def test_a_fence_that_is_none_is_found(
    fault: Callable[[pytest.MonkeyPatch], None],
    postgres: Server,
    stores: Stores,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault(monkeypatch)
    with pytest.raises(ExceptionGroup, match="nursery") as told:
        await taken_while_a_commit_waits(postgres, stores, schema, monkeypatch)
    assert told.group_contains(AssertionError, match="nothing was raised", depth=1)


# --- lost answers -----------------------------------------------------------------------------------------------------


async def an_answer_is_lost(server: Server, stores: Stores, *, more: bool) -> None:
    """The server commits, and its answer is lost: the events are there once, and the writer goes on."""
    session = sample("s")
    with Proxy(server.port) as proxy:
        store = stores(proxy.port, patience=5)
        writer = await stored_as(store, session)
        await writer.append(extend(session))
        proxy.lose_answer_to(MARK.encode())
        await writer.append(extend(session, 1, MARK))
        assert proxy.lost == 1
        if more:
            await writer.append(extend(session))
        assert list((await stores().open_read("s")).events) == list(session.events)
        await writer.close()


@pytest.mark.rule("P1", "P2", "N6")
async def test_what_was_committed_is_looked_up_when_the_answer_is_lost(postgres: Server, stores: Stores) -> None:
    await an_answer_is_lost(postgres, stores, more=True)


@pytest.mark.rule("P1", "N6")
@pytest.mark.parametrize("fault", [retried_blindly, taken_for_stolen])
async def test_an_answer_that_is_not_looked_up_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], postgres: Server, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with pytest.raises((SessionCorrupt, SessionLocked)):
        await an_answer_is_lost(postgres, stores, more=False)


@pytest.mark.rule("P1", "N6", "N8")
async def test_an_answer_that_was_lost_for_longer_than_the_patience_is_looked_up_by_the_next_barrier(
    postgres: Server, stores: Stores
) -> None:
    session = sample("s")
    with Proxy(postgres.port) as proxy:
        store = stores(proxy.port, patience=0.3)
        writer = await stored_as(store, session)
        await writer.append(extend(session))
        proxy.lose_answer_to(MARK.encode())
        proxy.refuse(True)
        error = await refused(StoreFailure, lambda: writer.append(extend(session, 1, MARK)))
        assert "cannot be reached" in str(error)
        assert (writer.pending, proxy.lost) == (6, 1)
        assert len((await stores().open_read("s")).events) == 24, "the server has committed it"
        writer.add(extend(session, 1)[0])
        await refused(StoreFailure, writer.flush)
        proxy.refuse(False)
        for entry in list(session.events)[writer.accepted :]:
            writer.add(entry)
        await writer.flush()
        assert list((await stores().open_read("s")).events) == list(session.events)
        await writer.close()


@pytest.mark.rule("O2", "P1")
async def test_a_session_is_created_once_though_the_answer_is_lost(postgres: Server, stores: Stores) -> None:
    session = sample("s", 1, MARK)
    with Proxy(postgres.port) as proxy:
        store = stores(proxy.port, patience=5)
        await (await stored_as(store, sample("other"))).close()
        proxy.lose_answer_to(MARK.encode())
        writer = await stored_as(store, session)
        assert proxy.lost == 1
        await writer.append(extend(session))
        await writer.close()
        proxy.lose_answer_to(b"nextval('epochs') where")
        opened = await store.open_write("s")
        assert list(opened.stored.events) == list(session.events)
        await opened.writer.close()


# --- what befalls one befalls no other --------------------------------------------------------------------------------


async def many(stores: Stores, count: int) -> tuple[list[Session], list[Any]]:
    store = stores()
    sessions = [sample(f"s{number:02}", 1) for number in range(count)]
    return sessions, [await stored_as(store, session) for session in sessions]


@pytest.mark.rule("P1", "N8")
async def test_a_record_that_the_server_refuses_fails_its_session_only(
    postgres: Server, stores: Stores, schema: str
) -> None:
    sessions, writers = await many(stores, 9)
    failed: list[tuple[str, bool]] = []

    async def write(session: Session, writer: Any) -> None:
        try:
            await writer.append(extend(session, 1, MARK if session.id == "s05" else "fine"))
        except StoreFailure as error:
            failed.append((session.id, "no room for this" in str(error)))

    with postgres.connect(schema) as conn:
        conn.execute(
            "create function refuse() returns trigger language plpgsql as "
            "$$ begin raise disk_full using message = 'no room for this'; end $$"
        )
        conn.execute(
            f"create trigger refuse before insert on events for each row when (new.record like '%{MARK}%') "
            "execute function refuse()"
        )
        async with trio.open_nursery() as nursery:
            for session, writer in zip(sessions, writers, strict=True):
                nursery.start_soon(write, session, writer)
        assert failed == [("s05", True)]
        assert writers[5].pending == 6
        conn.execute("drop function refuse cascade")
    await writers[5].flush()
    reader = stores()
    for session, writer in zip(sessions, writers, strict=True):
        assert list((await reader.open_read(session.id)).events) == list(session.events)
        await writer.close()


@pytest.mark.rule("P1", "P2")
async def test_a_session_that_somebody_locks_or_has_taken_holds_up_no_other(
    postgres: Server, stores: Stores, schema: str
) -> None:
    await one_held_and_one_taken(postgres, stores, schema)


@pytest.mark.rule("P2", "N6")
async def test_a_batch_without_a_fence_is_found(
    postgres: Server, stores: Stores, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence = "and s.epoch = b.epoch and s.next_seq = b.first"
    for name in ("ONE", "MANY"):
        unfenced = getattr(append, name).replace(fence, "").replace("s.epoch = %(epoch)b::int8", "%(epoch)b::int8 > 0")
        assert unfenced != getattr(append, name)
        monkeypatch.setattr(append, name, unfenced)
    with pytest.raises(ExceptionGroup) as told:
        await one_held_and_one_taken(postgres, stores, schema)
    assert told.group_contains(AssertionError, match="fenced")


async def one_held_and_one_taken(postgres: Server, stores: Stores, schema: str) -> None:
    """Four sessions of one commit, of which another store has taken one and somebody holds the row of one."""
    sessions, writers = await many(stores, 4)
    with postgres.connect(schema) as conn:
        conn.execute("update sessions set owner = null where id = 's01'")
        opened = await stores().open_write("s01")
        done: list[str] = []

        async def write(number: int) -> None:
            try:
                await writers[number].append(extend(sessions[number]))
            except SessionLocked:
                done.append("fenced")
            else:
                done.append(sessions[number].id)

        async with trio.open_nursery() as nursery:
            with conn.transaction():
                conn.execute("select 1 from sessions where id = 's02' for update")
                for number in range(4):
                    nursery.start_soon(write, number)
                with postgres.connect() as beside:
                    await until(beside, "select false", lambda: len(done) == 3)
                assert sorted(done) == ["fenced", "s00", "s03"]
        assert done[3] == "s02"
    await opened.writer.close()
    await refused(SessionLocked, writers[1].close)


@pytest.mark.rule("P1")
async def test_the_sessions_of_a_store_share_their_commits(postgres: Server, stores: Stores, schema: str) -> None:
    sessions, writers = await many(stores, 40)

    def commits() -> int:
        with postgres.connect(schema) as conn:
            row = conn.execute("select count(distinct xmin::text) from events where seq = 6").fetchone()
            assert row is not None
            return row[0]

    async with trio.open_nursery() as nursery:
        for session, writer in zip(sessions, writers, strict=True):
            nursery.start_soon(writer.append, extend(session))
    assert commits() <= 5, "forty barriers of one moment took more than a few commits"
    for writer in writers:
        await writer.close()


# --- a server that goes away ------------------------------------------------------------------------------------------


@pytest.mark.rule("P1", "N8")
async def test_a_server_that_restarts_is_waited_for(stores: Stores, postgres: Server) -> None:
    session = sample("s")
    store = stores()
    writer = await stored_as(store, session)
    for mode in ("fast", "immediate"):
        postgres.stop(mode)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.append, extend(session))
            await trio.to_thread.run_sync(postgres.start)
        assert list((await store.open_read("s")).events) == list(session.events)
    await writer.close()


@pytest.mark.rule("P1", "N8")
async def test_a_server_that_stays_away_is_told_within_the_patience_and_nothing_is_lost(
    postgres: Server, stores: Stores
) -> None:
    session = sample("s")
    with Proxy(postgres.port) as proxy:
        store = stores(proxy.port, patience=0.2)
        writer = await stored_as(store, session)
        await writer.append(extend(session))
        for harm, mend in (
            (lambda: (proxy.refuse(True), proxy.cut()), lambda: proxy.refuse(False)),
            (proxy.freeze, lambda: (proxy.cut(), proxy.thaw())),
        ):
            harm()
            began = time.monotonic()
            await refused(StoreFailure, lambda: writer.append(extend(session)))
            assert time.monotonic() - began < 15, "no bound"
            assert writer.pending >= 6
            mend()
            await writer.flush()
        assert list((await stores().open_read("s")).events) == list(session.events)
        await writer.close()
