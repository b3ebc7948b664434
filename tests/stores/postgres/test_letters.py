"""Letters of the mailbox are taken by the commits that write their events, or not at all (A2)."""

from typing import Any

import pytest
import trio

from tests.postgres import Server
from tests.proxy import Proxy
from treadle import MisuseError, Session, SessionLocked
from treadle.session import SessionWriter
from treadle_adapters.stores.postgres import Letter, PostgresStore
from treadle_specs.kits.store_bench import extend, refused, sample, stored_as

from .conftest import Stores


def put(server: Server, schema: str, *sessions: str) -> None:
    """A letter for each of these sessions."""
    with server.connect(schema) as conn:
        for session in sessions:
            conn.execute("insert into mailbox (session, id, digest, letter) values (%s, 'm', 'd', '{}')", (session,))


def waiting(server: Server, schema: str) -> list[str]:
    with server.connect(schema) as conn:
        found = conn.execute("select session from mailbox where letter is not null order by session").fetchall()
    return [row[0] for row in found]


async def opened(store: PostgresStore, name: str) -> tuple[Session, SessionWriter]:
    session = sample(name)
    return session, await stored_as(store, session)


@pytest.mark.rule("A2")
async def test_a_letter_is_taken_with_its_event_and_not_before(stores: Stores, postgres: Server, schema: str) -> None:
    store = stores()
    session, writer = await opened(store, "s")
    put(postgres, schema, "s")
    taken: list[str] = []
    first = len(session)
    store.take_letter("s", Letter("m", first + 6, "well", lambda: taken.append("m")))
    await writer.append(extend(session))
    assert (taken, waiting(postgres, schema)) == ([], ["s"]), "its event is not written yet"
    await writer.append(extend(session))
    assert (taken, waiting(postgres, schema)) == (["m"], [])
    await writer.append(extend(session))
    assert taken == ["m"]
    with postgres.connect(schema) as conn:
        assert conn.execute("select seq, answer from mailbox").fetchone() == (first + 6, "well")


@pytest.mark.rule("A2", "P1", "P2")
async def test_a_session_that_was_taken_over_takes_no_letter_and_the_others_of_its_commit_do(
    stores: Stores, postgres: Server, schema: str
) -> None:
    store = stores()
    sessions = [await opened(store, f"s{number}") for number in range(3)]
    put(postgres, schema, "s0", "s1", "s2")
    with postgres.connect(schema) as conn:
        conn.execute("update sessions set epoch = nextval('epochs') where id = 's1'")
    lost: list[str] = []

    async def write(session: Session, writer: SessionWriter) -> None:
        store.take_letter(session.id, Letter("m", len(session), "", lambda: None))
        try:
            await writer.append(extend(session))
        except SessionLocked:
            lost.append(session.id)

    async with trio.open_nursery() as nursery:
        for session, writer in sessions:
            nursery.start_soon(write, session, writer)
    assert (lost, waiting(postgres, schema)) == (["s1"], ["s1"])


@pytest.mark.rule("A2", "P1")
async def test_a_letter_whose_commit_lost_its_answer_is_not_taken_again(
    stores: Stores, postgres: Server, schema: str
) -> None:
    with Proxy(postgres.port) as proxy:
        store = stores(proxy.port)
        session, writer = await opened(store, "s")
        put(postgres, schema, "s")
        taken: list[Any] = []
        store.take_letter("s", Letter("m", len(session), "", lambda: taken.append(None)))
        proxy.lose_answer_to(b"marked event")
        await writer.append(extend(session, 1, "marked event"))
        assert (proxy.lost, len(taken), waiting(postgres, schema)) == (1, 1, [])
        assert list((await store.open_read("s")).events) == list(session.events)


@pytest.mark.rule("A2", "P2")
async def test_only_who_has_a_session_open_takes_its_letters(stores: Stores) -> None:
    store = stores()
    session, writer = await opened(store, "s")
    assert store.epoch("s") is not None
    await writer.close()
    assert store.epoch("s") is None
    with pytest.raises(MisuseError, match="not open here"):
        store.take_letter("s", Letter("m", len(session), "", lambda: None))
    await store.written("s")
    store.leave_owned("s")
    again = await stores().open_write("s")
    await again.writer.close()


@pytest.mark.rule("A6", "P2")
async def test_a_session_that_is_left_owned_is_nobodys_until_its_owner_is_gone(stores: Stores) -> None:
    old, new = stores(), stores()
    _, writer = await opened(old, "s")
    old.leave_owned("s")
    await writer.close()
    await refused(SessionLocked, lambda: new.open_write("s"))
    await old.close()
    await (await new.open_write("s")).writer.close()
