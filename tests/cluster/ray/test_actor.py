"""What runs in each process, without Ray."""

from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import pytest
import trio

from tests.postgres import Server
from treadle import DuplicateSession, StoreFailure
from treadle.errors import LeaseLost
from treadle_adapters.cluster import Post
from treadle_adapters.cluster.ray import Spec
from treadle_adapters.cluster.ray.actor import HostActor, Standing, _to_begin_again
from treadle_adapters.stores.postgres import PostgresStore

from .agents import OPTIONS, prepare, prepare_slow

Begin = Callable[..., HostActor]


@pytest.fixture
def begin(postgres: Server, schema: str) -> Iterator[Begin]:
    """Begins actors in this process; their threads sleep when they have left."""
    begun: list[HostActor] = []

    def one(**options: Any) -> HostActor:
        chosen = {"prepare": prepare, "agent_options": OPTIONS, "lease": 1_000.0, "schema": schema} | options
        begun.append(HostActor(Spec(postgres.url, **chosen), "here"))
        return begun[-1]

    yield one
    for each in begun:
        each.leave(0.0)


@pytest.fixture
async def post(postgres: Server, schema: str) -> AsyncGenerator[Post]:
    async with PostgresStore(postgres.url, schema=schema) as store, Post(store) as made:
        yield made


async def called(function: Callable[..., Any], *args: Any) -> Any:
    """As Ray calls it: from another thread."""
    with trio.fail_after(60):
        return await trio.to_thread.run_sync(function, *args)


async def until(actor: HostActor, holds: Callable[[Standing], bool]) -> Standing:
    """How it stands, once something holds of that."""
    while True:
        found = await called(actor.standing)
        if holds(found):
            return found
        await trio.sleep(0.01)


async def standing(actor: HostActor) -> Standing:
    """How it stands, once it does."""
    return await until(actor, lambda now: now.replica is not None)


async def test_sessions_are_made_taken_and_given_and_spoken_to_from_elsewhere(begin: Begin, post: Post) -> None:
    first, second = begin(), begin()
    await standing(first)
    assert (await standing(second)).replica != (await standing(first)).replica
    assert await called(first.create, "s") == "s"
    with pytest.raises(DuplicateSession):
        await called(second.create, "s")
    with trio.fail_after(60):
        assert (await post.agent("s").ask("hello")).text == "answer 0"
    assert await called(second.give, ["s", "none"], 1.0) == []
    assert await called(first.give, ["s"], 5.0) == ["s"]
    assert await called(second.take, ["s"]) == ["s"]
    assert (await standing(first)).sessions == ()
    assert (await standing(second)).sessions == ("s",)
    with trio.fail_after(60):
        assert (await post.agent("s").ask("again")).text == "answer 0"


@pytest.mark.rule("P2")
async def test_an_actor_that_runs_twice_is_harmless(begin: Begin) -> None:
    """Who drives a session is said by the lease: a double takes nothing that somebody has."""
    one, double = begin(), begin()
    await standing(one)
    await standing(double)
    for number in range(5):
        await called(one.create, f"s{number}")
    assert await called(double.take, [f"s{number}" for number in range(5)]) == []
    assert await called(one.take, ["s0", "s1"]) == ["s0", "s1"]
    assert len((await standing(one)).sessions) == 5


@pytest.mark.rule("P2")
async def test_a_replica_that_was_buried_begins_again_under_another_id(
    begin: Begin, postgres: Server, schema: str, post: Post
) -> None:
    actor = begin(lease=1.0)
    before = await standing(actor)
    await called(actor.create, "s")
    with postgres.connect(schema) as conn:
        conn.execute("update replicas set dead = true")
    with trio.fail_after(60):
        await until(actor, lambda now: now.replica not in (None, before.replica))
        assert (await post.agent("s").ask("hello")).text.startswith("answer")


async def test_who_leaves_lets_go_of_everything_and_takes_nothing_more(begin: Begin) -> None:
    leaving, staying = begin(), begin()
    await standing(leaving)
    await standing(staying)
    for number in range(3):
        await called(leaving.create, f"s{number}")
    assert sorted(await called(leaving.leave, 1.0)) == ["s0", "s1", "s2"]
    assert (await called(leaving.standing)).replica is None
    assert await called(leaving.take, ["s0"]) == []
    assert await called(leaving.create, "t") is None
    assert sorted(await called(staying.take, ["s0", "s1", "s2"])) == ["s0", "s1", "s2"]


async def test_a_session_whose_turn_takes_longer_stays(begin: Begin, post: Post) -> None:
    actor = begin(prepare=prepare_slow)
    await standing(actor)
    await called(actor.create, "s")
    with trio.fail_after(60):
        await (await post.agent("s").followup("take your time")).recorded()
    await until(actor, lambda now: now.running == ("s",))
    assert await called(actor.give, ["s"], 0.0) == []
    assert (await called(actor.standing)).sessions == ("s",)


def test_what_ends_the_process_and_what_does_not() -> None:
    assert _to_begin_again(LeaseLost("lost"))
    assert _to_begin_again(ExceptionGroup("", [LeaseLost("lost"), StoreFailure("away")]))
    assert not _to_begin_again(ExceptionGroup("", [LeaseLost("lost"), ValueError("a fault")]))
    assert not _to_begin_again(KeyError("a fault"))
