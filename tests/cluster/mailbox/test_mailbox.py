"""What is asked of a session anywhere reaches it once, wherever its owner is (A1–A3)."""

from collections.abc import Callable
from typing import Any

import pytest
import trio

from tests.cluster.conftest import eventually
from tests.postgres import Server
from treadle import Admitted, Answer, Call, Completed, DuplicateMessage, Host, Rejected, SessionNotFound, message, tool
from treadle.errors import InvalidMessage, LeaseLost, MessageRejected, MisuseError
from treadle.session import Aborted, ByHook
from treadle_adapters.cluster import AgentRef, Post
from treadle_adapters.stores.postgres import PostgresStore
from treadle_specs.logs.checker import check_events

from .conftest import OPTIONS, Enter, log, replica_of, texts

# --- wherever the owner is --------------------------------------------------------------------------------------------


@pytest.mark.rule("A1", "A3", "A5")
async def test_a_message_is_answered_wherever_it_is_sent_and_whoever_owns_the_session(
    enter: Enter, store: PostgresStore, post: Post
) -> None:
    async with enter() as first, enter() as second:
        doors = [post.agent("s"), replica_of(first).agent("s"), replica_of(second).agent("s")]
        for turn, door in enumerate(doors, 1):
            answer = await door.ask(f"to {turn}")
            assert (answer.turn, answer.reason) == (turn, Completed())
            assert answer.text
        assert sum(host.agents.get("s") is not None for host in (first, second)) == 1, "two replicas drive one session"
    events = await log(store)
    assert texts(events) == ["to 1", "to 2", "to 3"]
    assert check_events(events).findings == []


@pytest.mark.rule("A1")
async def test_the_same_message_is_delivered_once_also_after_it_is_gone(
    enter: Enter, store: PostgresStore, post: Post
) -> None:
    agent, given = post.agent("s"), message("once", id="m")
    assert (await agent.followup(given)).fresh
    assert not (await agent.followup(given)).fresh
    with pytest.raises(DuplicateMessage):
        await agent.followup(message("other", id="m"))
    async with enter():
        posted = await agent.followup(given)
        assert isinstance(await posted.outcome(), Admitted)
        later = await agent.inject(message("drop me", id="d"))
        await later.recorded()
        assert await agent.update_inbox("d", "remove") == "applied"
        assert await later.outcome() == Rejected("discarded")
        again = await agent.inject(message("drop me", id="d"))
        assert not again.fresh
        assert await again.outcome() == Rejected("discarded"), "what was taken back came again"
        await agent.ask("last")
    assert texts(await log(store)) == ["once", "last"]


MALFORMED: dict[str, tuple[Callable[[AgentRef], Any], type[Exception]]] = {
    "target": (lambda agent: agent.send("x", "next-week", True), MisuseError),  # type: ignore[arg-type]
    "message": (lambda agent: agent.followup(message("x", id="\ud800")), InvalidMessage),
    "cause": (lambda agent: agent.cancel("whim"), MisuseError),  # type: ignore[arg-type]
    "reason": (lambda agent: agent.cancel(ByHook("\ud800")), MisuseError),
    "action": (lambda agent: agent.update_inbox("m", "burn"), MisuseError),  # type: ignore[arg-type]
    "no content": (lambda agent: agent.update_inbox("m", "edit"), MisuseError),
    "content": (lambda agent: agent.update_inbox("m", "edit", "\ud800"), InvalidMessage),
    "id": (lambda agent: agent.cancel(id="\ud800"), InvalidMessage),
}


@pytest.mark.rule("A1", "D3", "X2")
@pytest.mark.parametrize("what", MALFORMED)
async def test_what_is_malformed_is_refused_where_it_is_asked(
    what: str, post: Post, schema: str, postgres: Server
) -> None:
    ask, error = MALFORMED[what]
    with pytest.raises(error):
        await ask(post.agent("s"))
    with pytest.raises(MisuseError):
        post.agent("../s")
    with pytest.raises(SessionNotFound):
        await post.agent("absent").cancel()
    with postgres.connect(schema) as conn:
        assert conn.execute("select count(*) from mailbox").fetchone() == (0,)


@pytest.mark.rule("A1", "A2")
async def test_everything_that_is_asked_is_done_by_the_owner_and_recorded(
    enter: Enter, store: PostgresStore, post: Post
) -> None:
    began, go_on = trio.Event(), trio.Event()

    @tool
    async def wait() -> str:
        """Wait for the test."""
        began.set()
        await go_on.wait()
        return "waited"

    answers = [Answer(calls=(Call("wait", {}),)), *["done"] * 20]
    async with enter(answers) as host, enter():
        host.tools.register(wait)
        handle = await host.agents.resume("s", agent_options=OPTIONS)
        replica_of(host).hold(handle)
        agent = post.agent("s")
        await (await agent.followup("first")).outcome()
        await began.wait()
        for name in ("a", "b", "c", "d"):
            await agent.followup(message(name, id=name))
        assert await agent.update_inbox("a", "edit", "edited") == "applied"
        assert await agent.update_inbox("b", "remove") == "applied"
        assert await agent.update_inbox("b", "remove") == "not-found"
        assert await agent.update_inbox("c", "steer") == "applied"
        assert not await agent.reorder(["a", "c"])
        assert await agent.reorder(["d", "a"])
        assert await agent.update_inbox("nobody", "steer") == "not-found"
        assert not await agent.approve("nothing", True)
        assert [one.text for one in handle.agent.inbox.next_turn] == ["d", "edited"]
        go_on.set()
        await handle.agent.when_idle()
        await (await agent.steer("again")).outcome()
        await agent.dispose(keep_inbox=True)
        assert await eventually(lambda: host.agents.get("s") is None)
    events = await log(store)
    assert texts(events) == ["first", "c", "d", "edited", "again"]
    taken = [(entry.data.answer, type(entry.data.asked).__name__) for entry in events if entry.type == "mailbox/taken"]
    assert len(taken) == 9
    assert taken[-1] == ("applied", "Dispose")
    assert check_events(events).findings == []


@pytest.mark.rule("A1", "C1")
async def test_a_turn_is_stopped_from_elsewhere_once(enter: Enter, store: PostgresStore, post: Post) -> None:
    began = trio.Event()

    @tool
    async def hang() -> str:
        """Never return."""
        began.set()
        await trio.sleep_forever()
        return ""

    async with enter([Answer(calls=(Call("hang", {}),)), "well"]) as host, enter() as other:
        host.tools.register(hang)
        await host.agents.resume("s", agent_options=OPTIONS)
        agent = replica_of(other).agent("s")
        await agent.followup("go")
        await began.wait()
        pending = await agent.followup(message("kept", id="kept"))
        await agent.cancel(ByHook("enough"), keep_inbox=True, id="stop")
        await agent.cancel(ByHook("enough"), keep_inbox=True, id="stop")
        assert (await agent.ask("go on")).turn == 3
        assert await pending.outcome() == Admitted(2, 1)
    ends = [entry.data.reason for entry in await log(store) if entry.type == "turn/end"]
    assert ends[0] == Aborted(ByHook("enough"))
    assert [entry.data.id for entry in await log(store) if entry.type == "mailbox/taken"] == ["stop"]


@pytest.mark.rule("A1", "O3")
async def test_an_agent_whose_handle_somebody_keeps_is_not_ended_by_a_letter(enter: Enter, post: Post) -> None:
    async with enter() as host:
        await host.agents.resume("s", agent_options=OPTIONS)
        with pytest.raises(MisuseError, match="keeps its handle"):
            await post.agent("s").dispose()
        assert host.agents.get("s") is not None


@pytest.mark.rule("A2")
async def test_a_message_that_was_delivered_otherwise_is_told_as_refused(enter: Enter, post: Post) -> None:
    async with enter() as host:
        handle = await host.agents.resume("s", agent_options=OPTIONS)
        handle.agent.followup(message("here", id="m"))
        posted = await post.agent("s").followup(message("here", id="m"))
        with pytest.raises(MessageRejected):
            await posted.outcome()


@pytest.mark.rule("A3")
async def test_a_session_that_cannot_be_resumed_is_left_alone_and_its_letters_wait(
    enter: Enter, store: PostgresStore, post: Post, postgres: Server, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with enter() as host:
        await host.unload_loop()
        await post.agent("s").followup("x")
        assert await eventually(lambda: "could not be resumed" in caplog.text)
    with postgres.connect(schema) as conn:
        assert conn.execute("select letter is not null from mailbox").fetchall() == [(True,)]
        conn.execute('update mailbox set letter = \'{"ask":"fly"}\'')
    async with enter() as host:
        await host.agents.resume("s", agent_options=OPTIONS)
        assert await eventually(lambda: "is not understood here" in caplog.text)
        await store_delete(host)
    with postgres.connect(schema) as conn:
        assert conn.execute("select count(*) from mailbox").fetchone() == (0,), "letters outlive their session"


async def store_delete(host: Host) -> None:
    assert host.store is not None
    for agent in host.agents.list():
        del agent
    await host.unload_loop()
    await host.store.delete("s")


@pytest.mark.rule("A3", "P4")
async def test_what_waits_for_a_turn_goes_on_where_its_replica_died(
    enter: Enter, store: PostgresStore, post: Post, postgres: Server, schema: str
) -> None:
    began = trio.Event()

    @tool
    async def hang() -> str:
        """Never return."""
        began.set()
        await trio.sleep_forever()
        return ""

    async def lose() -> None:
        async with enter([Answer(calls=(Call("hang", {}),))]) as host:
            host.tools.register(hang)
            await host.agents.resume("s", agent_options=OPTIONS)
            await post.agent("s").followup("cut off")
            await began.wait()
            posted.append(await post.agent("s").followup("goes on"))
            await posted[0].recorded()
            with postgres.connect(schema) as conn:
                conn.execute("update replicas set dead = true")
            await replica_of(host).beat()

    posted: list[Any] = []
    with pytest.raises(LeaseLost):
        await lose()
    async with enter() as host:
        await replica_of(host).look()
        assert await posted[0].outcome() == Admitted(2, 1)
        await host.agents.list()[0].when_idle()
    events = await log(store)
    assert texts(events) == ["cut off", "goes on"]
    assert check_events(events).findings == []
