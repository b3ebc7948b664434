"""A replica that goes out of service, and a host that is one by an option (A6)."""

from typing import Any

import pytest
import trio

from tests.postgres import Server
from treadle import Answer, Call, Host, StoreFailure, message, tool
from treadle.errors import LeaseLost
from treadle_adapters.cluster import Post, Replica
from treadle_adapters.stores.postgres import PostgresStore

from .conftest import OPTIONS, Enter, replica_of, texts


def owners(server: Server, schema: str) -> list[Any]:
    with server.connect(schema) as conn:
        return [row[0] for row in conn.execute("select owner from sessions order by id").fetchall()]


@pytest.mark.rule("A6")
async def test_a_drained_replica_ends_its_turns_and_another_goes_on_with_the_next_that_is_asked(
    enter: Enter, store: PostgresStore, post: Post, postgres: Server, schema: str
) -> None:
    began, go_on = trio.Event(), trio.Event()

    @tool
    async def wait() -> str:
        """Wait for the test."""
        began.set()
        await go_on.wait()
        return "waited"

    async with enter() as new:
        async with enter([Answer(calls=(Call("wait", {}),)), "ended"]) as old:
            old.tools.register(wait)
            replica_of(old).hold(await old.agents.resume("s", agent_options=OPTIONS))
            first = await post.agent("s").followup("first")
            await began.wait()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(replica_of(old).drain, 60)
                await trio.testing.wait_all_tasks_blocked(0.05)
                go_on.set()
            assert owners(postgres, schema) == [None], "a session at rest is let go of"
            assert old.agents.list() == []
            answer = await post.agent("s").ask("second")
            assert answer.turn == 2
            assert new.agents.get("s") is not None, "who is drained takes no session"
        await first.outcome()
    assert texts((await store.open_read("s")).events) == ["first", "second"]


@pytest.mark.rule("A6", "A3")
async def test_what_runs_too_long_is_stopped_and_what_waits_behind_it_goes_on_elsewhere(
    enter: Enter, store: PostgresStore, post: Post
) -> None:
    began = trio.Event()

    @tool
    async def hang() -> str:
        """Never return."""
        began.set()
        await trio.sleep_forever()
        return ""

    async with enter() as new:
        async with enter([Answer(calls=(Call("hang", {}),))]) as old:
            old.tools.register(hang)
            replica_of(old).hold(await old.agents.resume("s", agent_options=OPTIONS))
            await post.agent("s").followup("too long")
            await began.wait()
            posted = await post.agent("s").followup(message("waits", id="w"))
            await posted.recorded()
            await replica_of(old).drain(0)
        await replica_of(new).look()
        assert (await posted.outcome()).turn == 2  # type: ignore[union-attr]
    events = (await store.open_read("s")).events
    assert texts(events) == ["too long", "waits"]
    ends = [entry.data.reason for entry in events if entry.type == "turn/end"]
    assert [type(end).__name__ for end in ends] == ["Aborted", "Completed"]


@pytest.mark.rule("A6", "P2")
async def test_a_lease_that_is_lost_is_raised_by_the_host_that_had_it(
    enter: Enter, store: PostgresStore, postgres: Server, schema: str
) -> None:
    after: list[str] = []

    async def lose() -> None:
        async with enter() as host:
            await host.agents.resume("s", agent_options=OPTIONS)
            with postgres.connect(schema) as conn:
                conn.execute("update replicas set dead = true")
            nursery = replica_of(host)._nursery
            assert nursery is not None
            nursery.start_soon(replica_of(host).beat)
            await trio.sleep_forever()
            after.append("the body went on")

    with pytest.raises(LeaseLost, match="taken it for dead"):
        await lose()
    assert after == []
    with postgres.connect(schema) as conn:
        [(owner,)] = conn.execute("select owner from sessions").fetchall()
        assert owner is not None, "a session of a lost lease is claimed, and gone on with"


@pytest.mark.rule("A6")
async def test_a_host_whose_replica_cannot_begin_is_not_entered(store: PostgresStore) -> None:
    del store
    with pytest.raises(StoreFailure):
        async with Host(replica=Replica("postgres://nobody@127.0.0.1:9/none", lease=1)):
            raise AssertionError("it was entered")
