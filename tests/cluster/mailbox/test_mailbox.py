"""What is asked of a session anywhere reaches it once, wherever its owner is (A1–A5)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import trio

from tests.cluster.conftest import eventually
from tests.postgres import Server
from tests.proxy import Proxy
from treadle import Admitted, Answer, Call, Completed, DuplicateMessage, Host, Rejected, SessionNotFound, message, tool
from treadle.errors import InvalidMessage, LeaseLost, MessageRejected, MisuseError, StoreFailure
from treadle.hooks import LLM_STREAM, TOOLS_PRE_EXECUTE, AskCall, StreamProposal
from treadle.models import Chunk, TextDelta
from treadle.session import Aborted, ByHook, UserMessageAdded
from treadle_adapters.cluster import AgentRef, Post, Replica
from treadle_adapters.cluster.mailbox import carrier, wires
from treadle_adapters.stores.postgres import PostgresStore, append
from treadle_specs.logs.checker import check_events

from .conftest import OPTIONS, Enter, replica_of, texts

Plant = Callable[[pytest.MonkeyPatch], None]


async def log(store: PostgresStore, session: str = "s") -> list[Any]:
    return list((await store.open_read(session)).events)


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


# --- one commit -------------------------------------------------------------------------------------------------------


async def taken_by_one_who_lost_it(enter: Enter, store: PostgresStore, post: Post, server: Server, schema: str) -> None:
    """An owner takes a letter into its memory and loses the session before the commit: the next one takes it."""
    async with enter() as old:
        await old.agents.resume("s", agent_options=OPTIONS)
        await post.agent("s").ask("before")
        with server.connect(schema) as conn:
            send = append._send

            def fenced(link: Any, batch: Any) -> Any:
                if any(due.letters for due in batch):
                    append._send = send
                    conn.execute("update sessions set owner = null, epoch = nextval('epochs')")
                return send(link, batch)

            append._send = fenced
            try:
                posted = await post.agent("s").followup("kept")
                assert await eventually(lambda: append._send is send)
            finally:
                append._send = send
    with server.connect(schema) as conn:
        waits = conn.execute("select letter is not null from mailbox where id = %s", (posted.message_id,)).fetchone()
    assert waits == (True,), "a letter is neither in a log nor waiting"
    async with enter():
        assert isinstance(await posted.outcome(), Admitted)
    assert texts(await log(store)) == ["before", "kept"]


def no_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The letter is taken by a statement of its own, before the commit that writes its event."""
    send = append._send

    def apart(conn: Any, batch: Any) -> Any:
        for due in batch:
            for letter in due.letters:
                conn.execute(
                    "update mailbox set letter = null, seq = %s, answer = '' where session = %s and id = %s",
                    (letter.seq, due.session, letter.id),
                )
        return send(conn, batch)

    monkeypatch.setattr(append, "TAKING", append.MANY)
    monkeypatch.setattr(append, "_send", apart)


@pytest.mark.rule("A2", "P2")
async def test_a_letter_is_in_a_log_or_waits_whoever_loses_the_session(
    enter: Enter, store: PostgresStore, post: Post, postgres: Server, schema: str
) -> None:
    await taken_by_one_who_lost_it(enter, store, post, postgres, schema)


@pytest.mark.rule("A2", "P2")
async def test_a_mailbox_without_transaction_is_found(
    enter: Enter, store: PostgresStore, post: Post, postgres: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_transaction(monkeypatch)
    with pytest.raises(AssertionError, match="neither in a log nor waiting"):
        await taken_by_one_who_lost_it(enter, store, post, postgres, schema)


@pytest.mark.rule("A2", "P1")
async def test_a_taking_whose_answer_was_lost_happened_once(
    enter: Enter, store: PostgresStore, post: Post, postgres: Server
) -> None:
    with Proxy(postgres.port) as proxy:
        async with enter(port=proxy.port) as host:
            await host.agents.resume("s", agent_options=OPTIONS)
            await post.agent("s").ask("before")
            proxy.lose_answer_to(b"marked letter")
            assert (await post.agent("s").ask("marked letter")).turn == 2
            assert proxy.lost == 1
            assert (await post.agent("s").ask("after")).turn == 3
    assert texts(await log(store)) == ["before", "marked letter", "after"]


@pytest.mark.rule("A1", "P1")
async def test_an_acceptance_whose_answer_was_lost_happened_once(
    enter: Enter, store: PostgresStore, postgres: Server, schema: str
) -> None:
    with Proxy(postgres.port) as proxy:
        url = postgres.url.replace(str(postgres.port), str(proxy.port))
        async with PostgresStore(url, schema=schema) as far, Post(far) as post, enter():
            await post.agent("s").ask("before")
            proxy.lose_answer_to(b"marked letter")
            await post.agent("s").ask("marked letter")
            assert proxy.lost == 1
            proxy.refuse(True)
            proxy.cut()
            post._link.reach.patience = 0.1
            with pytest.raises(StoreFailure):
                await post.agent("s").followup(message("kept", id="k"))
            proxy.refuse(False)
            await (await post.agent("s").followup(message("kept", id="k"))).outcome()
    assert texts(await log(store)) == ["before", "marked letter", "kept"]


# --- notices ----------------------------------------------------------------------------------------------------------


async def without_notices(enter: Enter, post: Post, monkeypatch: pytest.MonkeyPatch, within: float = 20) -> None:
    """No notice arrives anywhere: everybody has to look."""
    heard = wires.Ears.heard
    monkeypatch.setattr(wires.Ears, "heard", lambda ears: None if heard(ears) is None else [])
    async with enter() as host:
        await host.agents.resume("s", agent_options=OPTIONS)
        with trio.move_on_after(within) as patience:
            await post.agent("s").ask("unheard")
        assert not patience.cancelled_caught, "a letter waits for a notice that was lost"


def notice_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "LOOK", 1_000.0)
    monkeypatch.setattr(wires, "LOOK", 1_000.0)


@pytest.mark.rule("A4")
async def test_a_letter_is_taken_although_its_notice_was_lost(
    enter: Enter, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    await without_notices(enter, post, monkeypatch)


@pytest.mark.rule("A4")
async def test_a_mailbox_with_notices_only_is_found(enter: Enter, post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    notice_only(monkeypatch)
    with pytest.raises(AssertionError, match="a notice that was lost"):
        await without_notices(enter, post, monkeypatch, within=1.5)


@pytest.mark.rule("A4")
async def test_who_was_cut_off_hears_again(
    enter: Enter, store: PostgresStore, post: Post, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(postgres.port) as proxy:
        async with enter(port=proxy.port) as host:
            await host.agents.resume("s", agent_options=OPTIONS)
            await post.agent("s").ask("before")
            link = replica_of(host).post._ears._link
            before = link._conn
            proxy.cut()
            assert await eventually(lambda: link._conn not in (None, before)), "it is not listened on again"
            notice_only(monkeypatch)  # from now on nobody looks by himself
            await post.agent("s").ask("after")
    assert texts(await log(store)) == ["before", "after"]


# --- following --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("A5")
async def test_a_live_attempt_is_followed_from_elsewhere_whole_whenever_one_joins(
    enter: Enter, store: PostgresStore, post: Post
) -> None:
    answer = "".join(f"{number:04} " for number in range(3_000))  # more than one notice holds
    seen: list[Any] = []
    heard = trio.Event()

    async def halfway(_: StreamProposal, proceed: Callable[[], Awaitable[AsyncIterator[Chunk]]]) -> Any:
        stream = await proceed()

        async def chunks() -> AsyncIterator[Chunk]:
            number = 0
            async for chunk in stream:
                yield chunk
                number += 1
                if number == 2_000:
                    await heard.wait()

        return chunks()

    async def follow(agent: AgentRef) -> None:
        async with agent.live() as coming:
            async for live in coming:
                seen.append(live)
                heard.set()
                if live.attempt is None:
                    return

    async with enter([answer]) as host, enter() as other:
        host.on(LLM_STREAM, halfway)
        handle = await host.agents.resume("s", agent_options=OPTIONS)
        handle.agent.followup("speak")
        await trio.testing.wait_all_tasks_blocked(0.05)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, replica_of(other).agent("s"))
        await handle.agent.when_idle()
    said = [chunk for live in seen for chunk in live.chunks]
    numbers = [live.start for live in seen if live.chunks]
    assert numbers[0] == 0
    assert numbers == sorted(set(numbers))
    text = "".join([chunk.text for chunk in said if isinstance(chunk, TextDelta)])
    assert answer.startswith(text), "something was lost or told twice"
    assert len(text) > 9_000, "who joined late was not told the beginning; the end may be told by the log alone"
    [recorded] = [entry.data for entry in await log(store) if entry.type == "assistant/message"]
    assert seen[0].attempt == recorded.attempt_id


@pytest.mark.rule("A1", "A5", "K2")
async def test_a_call_is_approved_from_elsewhere(enter: Enter, store: PostgresStore, post: Post) -> None:
    @tool
    def act() -> str:
        """Act on the world."""
        return "acted"

    async with enter([Answer(calls=(Call("act", {}),)), "done"] * 2) as host, enter() as other:
        host.tools.register(act)
        host.on(TOOLS_PRE_EXECUTE, lambda *_: AskCall("may it?"))
        await host.agents.resume("s", agent_options=OPTIONS)
        agent = replica_of(other).agent("s")
        for approved in (True, False):
            async with agent.live() as coming:
                await agent.followup("go")
                async for live in coming:
                    if live.approvals:
                        [approval] = live.approvals
                        assert (approval.tool, approval.question) == ("act", "may it?")
                        assert await agent.approve(approval.id, approved)
                        assert not await agent.approve(approval.id, not approved)
                        break
            asked = host.agents.get("s")
            assert asked is not None
            await asked.when_idle()
    results = [entry.data.is_error for entry in await log(store) if entry.type == "tool/result"]
    assert results == [False, True]


@pytest.mark.rule("A5")
async def test_events_are_followed_from_any_place_and_end_with_the_session(
    enter: Enter, store: PostgresStore, post: Post
) -> None:
    async with enter() as host:
        await post.agent("s").ask("one")
        seen: list[Any] = []
        async with post.agent("s").events(2) as coming:
            async for entry in coming:
                seen.append(entry)
                if entry.type == "turn/end" and entry.data.turn == 1:
                    await post.agent("s").followup("two")
                if entry.type == "turn/end" and entry.data.turn == 2:
                    break
        assert seen == (await log(store))[2 : len(seen) + 2]
        assert isinstance(seen[2].data, UserMessageAdded)
        await post.agent("s").dispose()
        assert await eventually(lambda: not host.agents.list())
    await store.delete("s")
    async with post.agent("s").events() as coming:
        with pytest.raises(SessionNotFound):
            await anext(coming)


@pytest.mark.rule("A6")
async def test_a_replica_says_what_it_is(postgres: Server, schema: str) -> None:
    replica = Replica(postgres.url, schema=schema)
    with pytest.raises(MisuseError, match="brings its store"):
        Host(replica=replica, store=replica.store)
    assert repr(replica.agent("s")) == "<AgentRef s>"
