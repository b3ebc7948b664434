"""What only a database can suffer: other processes' transactions, races, rows that are missing (P1–P3, N7)."""

import stat
import threading
from pathlib import Path

import pytest
import trio

from tests.session.sweeping import furnish
from treadle import Host, MisuseError, SessionCorrupt, StoreFailure
from treadle.errors import SessionFormatUnsupported
from treadle.hooks import AGENT_ERROR, AgentError
from treadle_adapters.stores import open_store
from treadle_adapters.stores.sqlite import SqliteStore
from treadle_specs.kits.store_bench import extend, refused, sample, stored_as
from treadle_specs.rig.scripts import OPTIONS

from .makers import database, sqlite


@pytest.mark.rule("P1", "K8")
async def test_a_transaction_of_another_process_is_waited_out_and_blocks_no_loop(tmp_path: Path) -> None:
    session = sample("s")
    async with sqlite(tmp_path) as store:
        writer = await stored_as(store, session)
        beats: list[float] = []
        stored = trio.Event()

        async def append() -> None:
            await writer.append(extend(session))
            stored.set()

        with database(tmp_path) as other:
            other.execute("BEGIN IMMEDIATE")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(append)
                for _ in range(200):
                    await trio.lowlevel.checkpoint()
                    beats.append(trio.current_time())
                await trio.to_thread.run_sync(threading.Event().wait, 0)
                assert not stored.is_set()
                other.execute("COMMIT")
        assert len(beats) == 200
        assert list((await store.open_read("s")).events) == list(session.events)
        await writer.close()


@pytest.mark.rule("P1", "N8", "N6")
async def test_a_transaction_that_outlasts_the_patience_is_told_and_leaves_no_gap(tmp_path: Path) -> None:
    errors: list[AgentError] = []
    async with SqliteStore(tmp_path / "sessions.sqlite", busy=0.01) as store, Host(store=store) as host:
        furnish(host)
        host.on(AGENT_ERROR, errors.append)
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        with database(tmp_path) as other:
            other.execute("BEGIN IMMEDIATE")
            agent.followup("one")
            await agent.when_idle()
            other.execute("COMMIT")
        assert errors
        assert isinstance(errors[0].error, StoreFailure)
        assert "locked" in str(errors[0].error)
        agent.followup("two")
        await agent.when_idle()
        assert list((await store.open_read("s")).events) == list(agent.session.events)


@pytest.mark.rule("P1")
async def test_eight_agents_share_one_database(tmp_path: Path) -> None:
    async with sqlite(tmp_path) as store, Host(store=store) as host:
        furnish(host)
        agents = [(await host.agents.create(session_id=f"s{n}", agent_options=OPTIONS)).agent for n in range(8)]
        for turn in range(3):
            for agent in agents:
                agent.followup(f"turn {turn}")
        for agent in agents:
            await agent.when_idle()
        for agent in agents:
            assert list((await store.open_read(agent.id)).events) == list(agent.session.events)


@pytest.mark.rule("P1")
async def test_a_new_database_is_opened_by_eight_at_once(tmp_path: Path) -> None:
    stores = [sqlite(tmp_path) for _ in range(8)]

    async def create(number: int) -> None:
        writer = await stored_as(stores[number], sample(f"s{number}"))
        await writer.close()

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(create, number)
    assert len((await stores[0].list()).sessions) == 8
    for store in stores:
        await store.close()


@pytest.mark.rule("P2")
async def test_the_epoch_fences_off_a_writer_whose_lock_file_is_still_there(tmp_path: Path) -> None:
    from treadle import SessionLocked

    session = sample("s")
    async with sqlite(tmp_path) as store:
        writer = await stored_as(store, session)
        with database(tmp_path) as other:
            other.execute("UPDATE sessions SET epoch = epoch + 1")
        await refused(SessionLocked, lambda: writer.append(extend(session)))
        await refused(SessionLocked, writer.close)
        assert len((await store.open_read("s")).events) == 12


@pytest.mark.rule("P3", "N6")
@pytest.mark.parametrize(
    ("damage", "line", "numbers"),
    [
        ("DELETE FROM events WHERE seq = 4", 6, (5, 4)),
        ("DELETE FROM events WHERE seq = 0", 2, (1, 0)),
        ("UPDATE events SET record = replace(record, '\"seq\":7', '\"seq\":9') WHERE seq = 7", 9, (9, 7)),
        ("UPDATE events SET record = 'null' WHERE seq = 2", 4, None),
        ("UPDATE events SET record = CAST(x'ff' AS TEXT) WHERE seq = 2", 4, None),
    ],
)
async def test_missing_or_wrong_rows_are_corruption_with_their_place(
    damage: str, line: int, numbers: tuple[int, int] | None, tmp_path: Path
) -> None:
    async with sqlite(tmp_path) as store:
        await (await stored_as(store, sample("s"))).close()
        await (await stored_as(store, sample("t"))).close()
        with database(tmp_path) as other:
            other.execute(damage.replace("WHERE", "WHERE session = 's' AND"))
        for call in (store.open_read, store.open_write):
            error = await refused(SessionCorrupt, lambda call=call: call("s"))
            assert isinstance(error, SessionCorrupt)
            assert error.line == line
            if numbers is not None:
                assert (error.found, error.expected) == numbers
        assert len((await store.inspect("s")).events) == line - 2
        assert len((await store.open_read("t")).events) == 12


@pytest.mark.rule("P3", "P5", "P6")
async def test_what_is_no_database_or_a_newer_one_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "sessions.sqlite").write_bytes(b"certainly no database, but long enough" * 40)
    async with sqlite(tmp_path) as store:
        await refused(SessionCorrupt, store.list)
        await refused(SessionCorrupt, lambda: stored_as(store, sample("s")))
    (tmp_path / "sessions.sqlite").unlink()
    with database(tmp_path) as other:
        other.pragma("user_version", 99)
    async with sqlite(tmp_path) as store:
        await refused(SessionFormatUnsupported, store.list)


@pytest.mark.rule("N7", "X1")
async def test_a_closed_store_leaves_no_thread_and_its_files_are_private(tmp_path: Path) -> None:
    before = threading.active_count()
    store = open_store("sqlite", tmp_path / "deep" / "er")
    assert isinstance(store, SqliteStore)
    await (await stored_as(store, sample("s"))).close()
    await store.list()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.path.parent.iterdir() if path.is_file()}
    await store.close()
    assert set(modes.values()) == {0o600}, modes
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert not [thread for thread in threading.enumerate() if "apsw" in thread.name]
    assert threading.active_count() <= before + 2
    await refused(MisuseError, store.list)


@pytest.mark.rule("P5")
async def test_an_older_format_is_rewritten_in_the_database_when_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from treadle.session import upgrade

    step = upgrade.Step(lambda raw: {**raw, "origin": "older"}, lambda raw: raw)
    session = sample("s")
    async with sqlite(tmp_path) as store:
        await (await stored_as(store, session)).close()
        with database(tmp_path) as other:
            other.execute("UPDATE sessions SET header = replace(header, '\"formatVersion\":1', '\"formatVersion\":0')")
        await refused(SessionFormatUnsupported, lambda: store.open_write("s"))
        with monkeypatch.context() as older:
            older.setitem(upgrade.STEPS, 0, step)
            opened = await store.open_write("s")
            await opened.writer.append(extend(session))
            await opened.writer.close()
        stored = await store.open_read("s")
        assert stored.header.origin == "older"
        assert list(stored.events) == list(session.events)
