"""Letters when sessions, answers, notices and connections are lost: taken once, or waiting (A1, A2, A4)."""

from typing import Any

import pytest
import trio

from tests.cluster.conftest import eventually
from tests.postgres import Server
from tests.proxy import Proxy
from treadle import Admitted, message
from treadle.errors import StoreFailure
from treadle_adapters.cluster import Post
from treadle_adapters.cluster.mailbox import carrier, wires
from treadle_adapters.stores.postgres import PostgresStore, append

from .conftest import OPTIONS, Enter, log, replica_of, texts

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
