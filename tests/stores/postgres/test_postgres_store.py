"""What only a database shared by machines can do and suffer (P1–P3, P5, P6, X1)."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.postgres import Server
from tests.proxy import Proxy
from tests.session.sweeping import furnish
from treadle import Event, Host, MisuseError, Session, SessionLocked, SessionNotFound, StoreFailure
from treadle.errors import SessionFormatUnsupported
from treadle_adapters.stores import open_store
from treadle_adapters.stores.postgres import PostgresStore, follow, tables
from treadle_adapters.stores.postgres.notices import Notices
from treadle_specs.kits.store_bench import extend, refused, sample, stored_as
from treadle_specs.rig.scripts import OPTIONS

from .conftest import Stores

ROOT = Path(__file__).parent.parent.parent.parent
FOLDERS = ("machine", "adapters", "specs", "diagrams", ".")


# --- one writer -------------------------------------------------------------------------------------------------------


@pytest.fixture
def children() -> Iterator[list["subprocess.Popen[str]"]]:
    """Processes that are gone when the test is over."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for child in started:
        child.kill()
        child.communicate()


def start(children: list["subprocess.Popen[str]"], *words: str) -> "subprocess.Popen[str]":
    children.append(
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("child.py")), *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in FOLDERS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    return children[-1]


@pytest.mark.rule("P2")
@pytest.mark.parametrize("what", ["hold", "forked"])
async def test_a_killed_owner_lets_go_whatever_it_had_forked(
    what: str, postgres: Server, schema: str, stores: Stores, children: list["subprocess.Popen[str]"]
) -> None:
    store = stores()
    await (await stored_as(store, sample("s"))).close()
    child = start(children, what, postgres.url, schema, "s")
    assert child.stdout is not None
    said = await trio.to_thread.run_sync(child.stdout.readline)
    for call in (lambda: store.open_write("s"), lambda: store.delete("s")):
        assert f"process {child.pid} on" in str(await refused(SessionLocked, call))
    child.kill()
    child.wait()
    try:
        with trio.fail_after(20):
            while True:
                try:
                    opened = await store.open_write("s")
                    break
                except SessionLocked:
                    await trio.sleep(0.02)  # the server has not noticed yet
    finally:
        if what == "forked":
            os.kill(int(said), signal.SIGKILL)
    assert len(opened.stored.events) == 12
    await opened.writer.close()


@pytest.mark.rule("P2")
async def test_one_of_two_tasks_that_open_a_session_of_one_store_is_refused(stores: Stores) -> None:
    store = stores()
    await (await stored_as(store, sample("s"))).close()
    ends: list[object] = []

    async def take() -> None:
        try:
            ends.append((await store.open_write("s")).writer)
        except SessionLocked as error:
            ends.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(take)
    assert sum(isinstance(end, SessionLocked) for end in ends) == 2


@pytest.mark.rule("P2", "N8")
async def test_a_session_that_could_not_be_let_go_is_free_to_the_same_store_at_once(
    postgres: Server, stores: Stores
) -> None:
    with Proxy(postgres.port) as proxy:
        store = stores(proxy.port, patience=0.2)
        writer = await stored_as(store, sample("s"))
        proxy.refuse(True)
        proxy.cut()
        await writer.close()
        proxy.refuse(False)
        opened = await store.open_write("s")
        await refused(SessionLocked, lambda: stores().open_write("s"))
        await opened.writer.close()
        await (await stores().open_write("s")).writer.close()


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("P5")
async def test_stores_that_come_together_make_the_tables_once_and_migrate_them_once(
    postgres: Server, schema: str, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sample("s")

    async def create(number: int) -> None:
        await (await stored_as(stores(), sample(f"s{number}"))).close()

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(create, number)
    old = stores()
    writer = await stored_as(old, session)
    added = (
        *tables.MIGRATIONS,
        "alter table sessions add column colour text; alter table events add column size int4;",
    )
    monkeypatch.setattr(tables, "MIGRATIONS", added)
    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(stores().open_read, f"s{number}")
    with postgres.connect(schema) as conn:
        count = len(added)
        assert conn.execute("select array_agg(version order by version) from versions").fetchone() == (
            list(range(1, count + 1)),
        )
    await writer.append(extend(session))  # prepared statements of those who were there go on
    assert list((await old.open_read("s")).events) == list(session.events)
    await writer.close()
    monkeypatch.setattr(tables, "MIGRATIONS", added[:-1])
    error = await refused(SessionFormatUnsupported, lambda: stores().list())
    assert f"version {count}" in str(error)


@pytest.mark.rule("P5")
async def test_a_migration_that_fails_leaves_the_tables_as_they_were(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await stored_as(stores(), sample("s"))).close()
    with monkeypatch.context() as broken:
        broken.setattr(tables, "MIGRATIONS", (*tables.MIGRATIONS, "drop table events; select 1 / 0"))
        await refused(StoreFailure, lambda: stores().list())
    assert len((await stores().open_read("s")).events) == 12


@pytest.mark.rule("S1", "P1")
async def test_a_database_that_cannot_hold_every_text_is_refused(postgres: Server) -> None:
    with postgres.connect() as conn:
        conn.execute("drop database if exists latin")
        conn.execute("create database latin encoding 'LATIN1' locale 'C' template template0")
    async with PostgresStore(postgres.url.replace("/postgres", "/latin")) as store:
        error = await refused(StoreFailure, lambda: stored_as(store, sample("s")))
        assert "make one of UTF8" in str(error)


# --- reaching the server ----------------------------------------------------------------------------------------------


@pytest.mark.rule("X1", "X2")
@pytest.mark.parametrize(
    "url", ["postgres://u:geheim@127.0.0.1:1/db", "postgres://u:geheim@127.0.0.1/db?no=1", "postgres://u:ge%heim@h/db"]
)
async def test_a_password_is_never_shown(url: str) -> None:
    began = time.monotonic()
    try:
        store = open_store("postgres", url)
    except MisuseError as error:
        told = error
    else:
        told = await refused(StoreFailure, lambda: store.list())
        assert "127.0.0.1:1/db cannot be reached" in str(told)
        assert "geheim" not in repr(store) + repr(vars(store))
        await store.close()
    assert time.monotonic() - began < 5, "a server that never was there is not waited for"
    whole: BaseException | None = told
    while whole is not None:
        assert "geheim" not in f"{whole} {whole!r}"
        whole = whole.__cause__


@pytest.mark.rule("X2")
@pytest.mark.parametrize("schema", ["", "a b", "a;drop", "A", "a" * 60, 'a"'])
def test_a_schema_that_is_no_plain_name_is_refused(schema: str) -> None:
    with pytest.raises(MisuseError, match="small letters"):
        PostgresStore("postgres://localhost/db", schema=schema)
    with pytest.raises(MisuseError, match="postgres://user@host/database"):
        PostgresStore("mysql://localhost/db")


# --- listing, searching, forgetting -----------------------------------------------------------------------------------


@pytest.mark.rule("P6")
async def test_sessions_are_searched_in_the_database_newest_first(stores: Stores) -> None:
    store = stores()
    for name, text in (("a", "the blue Whale"), ("b", "a whale"), ("c", "nothing")):
        await (await stored_as(store, sample(name, 1, text))).close()
    assert [one.header.id for one in (await store.search("WHALE")).sessions] == ["b", "a"]
    assert [one.header.id for one in (await store.search("whale", limit=1)).sessions] == ["b"]
    assert [one.title for one in (await store.search("answer 1")).sessions] == [
        "nothing 1",
        "a whale 1",
        "the blue Whale 1",
    ]
    assert (await store.search("turn/start")).sessions == (), "only messages are searched"
    assert (await store.search("%")).sessions == ()


@pytest.mark.rule("P2")
async def test_old_sessions_are_forgotten_but_for_those_that_somebody_writes(
    postgres: Server, schema: str, stores: Stores
) -> None:
    store = stores()
    for name in ("a", "b", "c", "ghost"):
        await (await stored_as(store, sample(name))).close()
    writer = await stored_as(store, sample("open"))
    with postgres.connect(schema) as conn:
        conn.execute("update sessions set modified = case id when 'a' then 1000 when 'b' then 500 else modified end")
        conn.execute("update sessions set modified = 100 where id = 'open'")
        conn.execute("update sessions set modified = 1500, owner = 'x 1 a machine that crashed' where id = 'ghost'")
        theirs = await stored_as(other := stores(), sample("theirs"))
        conn.execute("update sessions set modified = 100 where id = 'theirs'")
        assert await store.expire(2_000, limit=1) == ["b"]
        assert sorted(await store.expire(2_000)) == ["a", "ghost"]
        assert await store.expire(2_000) == []
        assert conn.execute("select distinct session from events order by 1").fetchall() == [
            ("c",),
            ("open",),
            ("theirs",),
        ]
    await writer.close()
    await theirs.close()
    assert sorted(await other.expire(2_000)) == ["open", "theirs"], "once their writers are closed"


# --- followers --------------------------------------------------------------------------------------------------------


async def seen_by_a_follower(stores: Stores, reader: PostgresStore) -> None:
    """A follower sees the whole log, in order, while another process writes it."""
    session, store = sample("s"), stores()
    writer = await stored_as(store, session)
    seen: list[Event] = []

    async def write() -> None:
        for _ in range(4):
            await wait_all_tasks_blocked(0.02)  # the follower has looked, and waits
            await writer.append(extend(session))

    async with reader.follow("s") as coming, trio.open_nursery() as nursery:
        nursery.start_soon(write)
        async for events in coming:
            seen += events
            if len(seen) == 36:
                break
    assert seen == list(session.events)
    await writer.close()


@pytest.mark.rule("P3")
async def test_a_follower_is_told_of_what_is_written(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LOOK", 1_000)
    await seen_by_a_follower(stores, stores())


@pytest.mark.rule("P3")
async def test_a_follower_looks_by_itself_where_no_notice_comes(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Notices, "tell", lambda *_: None)
    monkeypatch.setattr(follow, "LOOK", 0.05)
    await seen_by_a_follower(stores, stores())


@pytest.mark.rule("P3")
async def test_a_follower_that_only_listens_is_found(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Notices, "tell", lambda *_: None)
    monkeypatch.setattr(follow, "LOOK", 1_000)
    with pytest.raises(trio.TooSlowError), trio.fail_after(0.5):
        await seen_by_a_follower(stores, stores())


@pytest.mark.rule("P3", "O13")
async def test_a_follower_outlives_its_connection_and_ends_with_the_session(postgres: Server, stores: Stores) -> None:
    session = sample("s")
    writer = await stored_as(stores(), session)
    with Proxy(postgres.port) as proxy:
        async with stores(proxy.port).follow("s", first=12) as coming:
            for _ in range(3):
                fresh = extend(session)
                await writer.append(fresh)
                proxy.cut()
                with trio.fail_after(20):
                    assert await anext(coming) == fresh
            await writer.close()
            await stores().delete("s")
            with trio.fail_after(20):
                await refused(SessionNotFound, lambda: anext(coming))


# --- agents -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("P1", "P4", "P8")
async def test_an_agent_goes_on_where_another_process_left_it(stores: Stores) -> None:
    store = stores()
    async with Host(store=store) as host:
        furnish(host)
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        agent.followup("one")
        await agent.when_idle()
        recorded = list(agent.session.events)
    async with Host(store=stores()) as host:
        furnish(host)
        agent = (await host.agents.resume("s", agent_options=OPTIONS)).agent
        assert list(agent.session.events)[: len(recorded)] == recorded
        agent.followup("two")
        await agent.when_idle()
        whole = Session(agent.session.header, agent.session.events)
    assert list((await store.open_read("s")).events) == list(whole.events)


def test_the_server_of_the_tests_is_its_own(postgres: Server) -> None:
    with psycopg.connect(postgres.url) as conn:
        row = conn.execute("show data_directory").fetchone()
        assert row is not None
        assert row[0] == str(postgres.directory / "data")
