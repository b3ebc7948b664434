"""Replicas on one database: who owns a session, and what befalls who does not any more (P2)."""

from collections.abc import Callable
from typing import Any

import pytest
import trio

from tests.postgres import Server
from tests.proxy import Proxy
from treadle import AgentOptions, Answer, Call, Host, MisuseError, ScriptedModel, Session, SessionLocked, tool
from treadle.errors import LeaseLost
from treadle.hooks import AGENT_ERROR
from treadle_adapters.cluster import Replica, rows
from treadle_adapters.cluster.heir import BATCH, RESUMING
from treadle_adapters.cluster.lease import RunningLease
from treadle_adapters.stores.postgres import PostgresStore, append
from treadle_specs.kits.store_bench import extend, refused, sample, stored_as

from .conftest import LEASE, Clock, Make, eventually

OPTIONS = AgentOptions(provider="scripted", model="m")
Plant = Callable[[pytest.MonkeyPatch], None]


async def outlive(replica: Replica, clock: Clock) -> None:
    """Let a lease pass for one replica alone: it looks at the others, who do not beat meanwhile."""
    for _ in range(4):
        await replica.look()
        clock.ahead += LEASE / 3
        await replica.beat()
    await replica.look()


# --- taking over ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.rule("P2", "P4")
async def test_sessions_of_a_replica_that_does_not_beat_are_resumed_by_another(make: Make) -> None:
    resumed: list[str] = []
    all_of_them = trio.Event()

    async def resume(session_id: str) -> None:
        opened = await taker.store.open_write(session_id)
        assert len(opened.stored.events) == 12
        await opened.writer.append(extend(Session(opened.stored.header, opened.stored.events)))
        await opened.writer.close()
        resumed.append(session_id)
        if len(resumed) == 60:
            all_of_them.set()

    (dead, _), (taker, clock) = make(), make(resume=resume)

    async def lose() -> None:
        async with dead:
            writers = [await stored_as(dead.store, sample(f"s{number:02}")) for number in range(60)]
            async with taker:
                await refused(SessionLocked, lambda: taker.store.open_write("s00"))
                await outlive(taker, clock)
                with trio.fail_after(60):
                    await all_of_them.wait()
                assert sorted(resumed) == [f"s{number:02}" for number in range(60)]
                for writer in writers[:3]:  # its own clock says that its lease runs: the fence knows better
                    error = await refused(LeaseLost, lambda w=writer: w.append(extend(sample("s"))))
                    assert error.code == "LEASE_LOST"  # type: ignore[attr-defined]
                assert len((await taker.store.open_read("s00")).events) == 18
                await dead.beat()

    error = await refused(LeaseLost, lose)
    assert "taken it for dead" in str(error)


@pytest.mark.rule("P2")
async def test_a_replica_that_leaves_is_followed_at_once_and_one_that_beats_is_not(make: Make) -> None:
    resumed: list[str] = []
    done = trio.Event()

    async def resume(session_id: str) -> None:
        resumed.append(session_id)
        done.set()

    (living, _), (leaving, _), (taker, clock) = make(), make(), make(resume=resume)
    async with living, taker:
        await stored_as(living.store, sample("theirs"))
        for _ in range(9):
            await taker.look()
            await living.beat()
            clock.ahead += LEASE / 3
            await taker.beat()
        async with leaving:
            await stored_as(leaving.store, sample("left"))
        await taker.look()
        with trio.fail_after(30):
            await done.wait()
        assert resumed == ["left"]
        await refused(SessionLocked, lambda: taker.store.open_write("theirs"))


@pytest.mark.rule("P2")
async def test_a_replica_claims_no_more_than_it_resumes(make: Make, postgres: Server, schema: str) -> None:
    """What is slow here is left for others, and looking at them goes on."""
    begun: list[str] = []
    go_on = trio.Event()

    async def resume(session_id: str) -> None:
        begun.append(session_id)
        await go_on.wait()

    def owned(by: Replica) -> int:
        with postgres.connect(schema) as conn:
            return len(rows.owned(conn, by.id))

    (leaving, _), (slow, _), (other, _) = make(), make(resume=resume), make(resume=resume)
    async with slow, other:
        async with leaving:
            for number in range(2 * BATCH + 5):
                await stored_as(leaving.store, sample(f"s{number:02}"))
        await slow.look()
        assert await eventually(lambda: len(begun) == RESUMING)
        await slow.look()
        assert owned(slow) == BATCH
        await other.look()
        assert await eventually(lambda: owned(other) == BATCH)
        go_on.set()
        assert await eventually(lambda: len(begun) == 2 * BATCH + 5)
        assert owned(leaving) == 0


@pytest.mark.rule("P2")
async def test_a_replica_that_goes_out_of_service_claims_nothing_more(
    make: Make, postgres: Server, schema: str
) -> None:
    begun: list[str] = []
    go_on = trio.Event()

    async def resume(session_id: str) -> None:
        begun.append(session_id)
        await go_on.wait()

    (leaving, _), (draining, _) = make(), make(resume=resume)
    async with draining:
        async with leaving:
            for number in range(BATCH + 5):
                await stored_as(leaving.store, sample(f"s{number:02}"))
        await draining.look()
        assert await eventually(lambda: len(begun) == RESUMING)
        await draining.drain(0)
        go_on.set()
        assert await eventually(lambda: len(begun) == BATCH)
        await trio.testing.wait_all_tasks_blocked(0.05)
        with postgres.connect(schema) as conn:
            assert len(rows.owned(conn, leaving.id)) == 5


@pytest.mark.rule("P2")
async def test_who_owns_nothing_is_found_without_reading_all_sessions(
    make: Make, postgres: Server, schema: str
) -> None:
    replica, _ = make()
    async with replica:
        with postgres.connect(schema) as conn:
            conn.execute("set enable_hashjoin = off; set enable_mergejoin = off; set enable_seqscan = off")  # few rows
            plan = "\n".join(row[0] for row in conn.execute(f"explain {rows.FORGET}"))
    assert "sessions_owner" in plan
    assert "Index Cond: (owner =" in plan


@pytest.mark.rule("P2", "N8")
async def test_a_session_that_cannot_be_resumed_is_let_go_of(
    make: Make, caplog: pytest.LogCaptureFixture, postgres: Server, schema: str
) -> None:
    async def resume(_: str) -> None:
        raise MisuseError("not here")

    (leaving, _), (taker, _), (third, _) = make(), make(resume=resume), make()
    async with taker, third:
        async with leaving:
            await stored_as(leaving.store, sample("s"))
        await taker.look()
        with postgres.connect(schema) as conn:
            assert await eventually(lambda: conn.execute("select owner from sessions").fetchone() == (None,))
        assert "not here" in caplog.text
        await (await third.store.open_write("s")).writer.close()


@pytest.mark.rule("P2")
async def test_a_replica_and_a_store_without_a_lease_respect_each_other(
    make: Make, postgres: Server, schema: str
) -> None:
    replica, _ = make()
    async with PostgresStore(postgres.url, schema=schema) as store, replica:
        await stored_as(store, sample("theirs"))
        await stored_as(replica.store, sample("ours"))
        await refused(SessionLocked, lambda: replica.store.open_write("theirs"))
        await refused(SessionLocked, lambda: store.open_write("ours"))
    async with PostgresStore(postgres.url, schema=schema) as store:
        for name in ("theirs", "ours"):
            await (await store.open_write(name)).writer.close()


@pytest.mark.rule("P2")
async def test_a_buried_replica_opens_and_makes_no_session(make: Make, postgres: Server, schema: str) -> None:
    replica, _ = make()
    async with replica:
        await (await stored_as(replica.store, sample("s"))).close()
        with postgres.connect(schema) as conn:
            conn.execute("update replicas set dead = true")
        await refused(LeaseLost, lambda: replica.store.open_write("s"))
        await refused(LeaseLost, lambda: stored_as(replica.store, sample("t")))


@pytest.mark.rule("P2")
async def test_a_claim_whose_answer_was_lost_is_found_again(make: Make, postgres: Server) -> None:
    resumed: list[str] = []
    done = trio.Event()

    async def resume(session_id: str) -> None:
        resumed.append(session_id)
        if len(resumed) == 3:
            done.set()

    with Proxy(postgres.port) as proxy:
        (leaving, _), (taker, _) = make(), make(proxy.port, resume=resume)
        async with taker:
            async with leaving:
                for number in range(3):
                    await stored_as(leaving.store, sample(f"s{number}"))
            await taker.look()  # forgets nobody, and has the connection made
            with trio.fail_after(30):
                await done.wait()
            resumed.clear()
            again, _ = make()
            done = trio.Event()
            async with again:
                for number in range(3):
                    await stored_as(again.store, sample(f"t{number}"))
            proxy.lose_answer_to(again.id.encode())
            await taker.look()
            with trio.fail_after(30):
                await done.wait()
            assert proxy.lost == 1
    assert sorted(resumed)[-3:] == ["t0", "t1", "t2"]


# --- claims are compared ----------------------------------------------------------------------------------------------


async def claimed_under_ones_hand(make: Make, server: Server, schema: str) -> None:
    """One replica claims what another has just claimed of the same dead one: it gets nothing."""
    (dead, _), (second, _) = make(), make()
    async with second:
        async with dead:
            await stored_as(dead.store, sample("s"))
        with server.connect(schema) as first, server.connect(schema) as late:
            late.execute("set lock_timeout = '20s'")
            got: list[rows.Claimed] = []

            async def claim() -> None:
                got.append(await trio.to_thread.run_sync(rows.claim, late, second.id, dead.id, 25))

            async with trio.open_nursery() as nursery:
                with first.transaction():
                    first.execute("update sessions set owner = 'first', epoch = nextval('epochs')")
                    nursery.start_soon(claim)
                    with server.connect() as beside:
                        waits = "select count(*) > 0 from pg_locks where not granted"
                        assert await eventually(lambda: bool(got) or beside.execute(waits).fetchone() == (True,))
            assert got == [{}], "stolen from a replica that lives"
            assert first.execute("select owner from sessions").fetchone() == ("first",)


def claim_without_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = rows.CLAIM.replace("for no key update skip locked", "").replace("and owner = %(dead)s", "")
    assert blind.count("dead") < rows.CLAIM.count("dead")
    monkeypatch.setattr(rows, "CLAIM", blind)


@pytest.mark.rule("P2")
async def test_a_claim_takes_nothing_from_one_that_lives(make: Make, postgres: Server, schema: str) -> None:
    await claimed_under_ones_hand(make, postgres, schema)


@pytest.mark.rule("P2")
async def test_a_claim_without_a_comparison_is_found(
    make: Make, postgres: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_without_compare(monkeypatch)
    with pytest.raises(AssertionError, match="stolen"):
        await claimed_under_ones_hand(make, postgres, schema)


# --- the fence is in the database -------------------------------------------------------------------------------------


async def a_write_on_its_way(make: Make, server: Server) -> None:
    """A write leaves in time, is held up on its way, and arrives when another has taken over: it is refused."""
    session = sample("s")
    with Proxy(server.port) as proxy:
        (old, _), (new, clock) = make(proxy.port, patience=60), make()
        async with new, old:
            writer = await stored_as(old.store, session)
            await writer.append(extend(session))
            theirs = Session(session.header, session.events)
            told: list[Exception | None] = []

            async def write() -> None:
                try:
                    await writer.append(extend(session))
                except LeaseLost as error:
                    told.append(error)
                else:
                    told.append(None)

            async with trio.open_nursery() as nursery:
                proxy.freeze()
                old.check("s")
                nursery.start_soon(write)
                await trio.testing.wait_all_tasks_blocked(0.05)
                await outlive(new, clock)
                opened = await new.store.open_write("s")
                await opened.writer.append(extend(theirs))
                proxy.thaw()
            assert told[0] is not None, "a write of the former owner was taken"
            assert list((await new.store.open_read("s")).events) == list(theirs.events)
            await opened.writer.close()


def fence_by_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may write looks at its own clock, and the database at nothing but where the log ends."""
    fence = "s.epoch = %(epoch)b::int8 and s.next_seq = %(first)b::int8"
    assert fence in append.ONE
    by_time = append.ONE.replace(fence, "%(epoch)b::int8 > 0").replace(
        "%(first)b::int8 + r.number - 1, counted", "s_end + r.number - 1, counted"
    )
    by_time = by_time.replace(
        "returning s.id, s.epoch", "returning s.id, s.epoch, s.next_seq - %(count)b::int8 as s_end"
    )
    monkeypatch.setattr(append, "ONE", by_time)


@pytest.mark.rule("P2", "N6")
async def test_a_write_that_arrives_after_a_take_over_is_refused(make: Make, postgres: Server) -> None:
    await a_write_on_its_way(make, postgres)


@pytest.mark.rule("P2", "N6")
async def test_a_fence_by_time_only_is_found(make: Make, postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    fence_by_time_only(monkeypatch)
    with pytest.raises(AssertionError, match="former owner"):
        await a_write_on_its_way(make, postgres)


# --- beats ------------------------------------------------------------------------------------------------------------


async def beaten_under_load(
    make: Make, server: Server, schema: str, plant: Callable[[Replica], None], within: float
) -> bool:
    """Whether a beat gets through while every session waits for the database, and every thread for something."""
    replica, _ = make(patience=30)
    async with replica:
        writer = await stored_as(replica.store, sample("s"))
        heart = replica._heart
        plant(replica)
        let_go = trio.Event()
        beaten: list[bool] = []

        async def beat() -> None:
            await replica.beat()
            beaten.append(True)

        async with trio.open_nursery() as nursery:
            with server.connect(schema) as conn, conn.transaction():
                conn.execute("lock table sessions in access exclusive mode")
                session = sample("s")
                nursery.start_soon(writer.append, extend(session))
                nursery.start_soon(replica.store.list)
                for _ in range(60):
                    nursery.start_soon(_occupy, let_go)
                await trio.testing.wait_all_tasks_blocked(0.05)
                nursery.start_soon(beat)
                got_through = await eventually(lambda: bool(beaten), within)
            let_go.set()
        await writer.close()
        if replica._heart is not heart:
            await heart.close()
    return got_through


async def _occupy(let_go: trio.Event) -> None:
    await trio.to_thread.run_sync(trio.from_thread.run, let_go.wait)


@pytest.mark.rule("P2")
async def test_a_beat_gets_through_whatever_else_waits(make: Make, postgres: Server, schema: str) -> None:
    assert await beaten_under_load(make, postgres, schema, lambda _: None, 20)


@pytest.mark.rule("P2")
async def test_a_beat_among_the_other_statements_is_found(make: Make, postgres: Server, schema: str) -> None:
    def share(replica: Replica) -> None:
        replica._heart = replica.store._control

    assert not await beaten_under_load(make, postgres, schema, share, 0.5)


# --- effects outside the log ------------------------------------------------------------------------------------------


async def effects_after(make: Make, *, late_at: str) -> tuple[list[str], list[BaseException]]:
    """An agent whose lease passes unnoticed, inside the model or inside a tool: what it does, and what it says."""
    replica, clock = make()
    effects: list[str] = []
    errors: list[BaseException] = []

    def model_is_asked(_: Any) -> Answer:
        effects.append("model")
        if late_at == "model":
            clock.ahead += LEASE
        return Answer(calls=(Call("act", {}),)) if len(effects) < 3 else Answer("done")

    @tool
    async def act() -> str:
        """Act on the world."""
        effects.append("tool")
        if late_at == "tool":
            clock.ahead += LEASE
        return "acted"

    async def drive() -> None:
        async with replica, Host(store=replica.store) as host:
            replica.attach(host)
            host.on(AGENT_ERROR, lambda told: errors.append(told.error))
            host.models.register("scripted", ScriptedModel([model_is_asked, model_is_asked, model_is_asked]))
            host.tools.register(act)
            agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
            agent.followup("go")
            await agent.when_idle()
            replica.check()

    await refused(LeaseLost, drive)
    return effects, errors


def no_deadline_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replica, "attach", lambda *_: None)


@pytest.mark.rule("P2")
@pytest.mark.parametrize(("late_at", "done"), [("model", ["model"]), ("tool", ["model", "tool"])])
async def test_nothing_outside_the_log_begins_when_the_deadline_has_passed(
    late_at: str, done: list[str], make: Make
) -> None:
    effects, errors = await effects_after(make, late_at=late_at)
    assert effects == done
    assert any(getattr(error, "code", "") == "LEASE_LOST" for error in errors), errors


@pytest.mark.rule("P2")
async def test_an_agent_that_checks_no_deadline_is_found(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    no_deadline_check(monkeypatch)
    monkeypatch.setattr(RunningLease, "check", lambda *_: None)
    with pytest.raises(AssertionError, match="nothing was raised"):
        await effects_after(make, late_at="model")


@pytest.mark.rule("P2")
async def test_an_agent_whose_session_was_taken_over_stops_and_says_so(
    make: Make, postgres: Server, schema: str
) -> None:
    replica, _ = make()
    effects: list[str] = []
    errors: list[BaseException] = []

    @tool
    async def act() -> str:
        """Act on the world."""
        effects.append("tool")
        with postgres.connect(schema) as conn:
            conn.execute("update sessions set owner = 'other', epoch = nextval('epochs')")
        return "acted"

    async with replica, Host(store=replica.store) as host:
        replica.attach(host)
        host.on(AGENT_ERROR, lambda told: errors.append(told.error))
        model = ScriptedModel([Answer(calls=(Call("act", {}),)) for _ in range(9)])
        host.models.register("scripted", model)
        host.tools.register(act)
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        handle.agent.followup("go")
        with trio.fail_after(60):
            await handle.agent.when_idle()
        assert len(effects) <= 2, "it acts for a session that is another's"
        assert any(getattr(error, "code", "") == "LEASE_LOST" for error in errors), errors
        with pytest.raises(ExceptionGroup, match="clean-ups") as told:
            await handle.dispose()
        assert told.group_contains(SessionLocked)
        replica.check()
        await refused(LeaseLost, lambda: _checked(replica))


async def _checked(replica: Replica) -> None:
    await trio.lowlevel.checkpoint()
    replica.check("s")
