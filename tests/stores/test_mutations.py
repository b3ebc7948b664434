"""Every byte-level damage of the table, on every log of the scripts' kind: never a part of a log without a word."""

from pathlib import Path

import pytest

from tests.session.sweeping import furnish, resumed
from treadle import Event, Host, Session, SessionCorrupt, SessionHeader
from treadle.session import StoredSession, encode_event, encode_header
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_specs.kits.store_bench import extend, refused
from treadle_specs.logs.mutations import EMPTY, KEPT, LOUD, MIDDLE, MUTATIONS, TAIL, UNREADABLE, mutate
from treadle_specs.rig.scripts import SCRIPTS, record

HEADER, EVENTS = record(SCRIPTS["cancel-in-a-tool"])
HEALTHY = b"".join([line + b"\n" for line in (encode_header(HEADER), *map(encode_event, EVENTS))])
DAMAGED = mutate(HEALTHY)


def placed(directory: Path, data: bytes, header: SessionHeader = HEADER) -> JsonlStore:
    store = JsonlStore(directory)
    store.path_of(header.id).write_bytes(data)
    return store


def by_expectation(*expected: str) -> list[str]:
    return [name for name, one in MUTATIONS.items() if one.expected in expected]


@pytest.mark.rule("P3")
@pytest.mark.parametrize("name", by_expectation(TAIL, KEPT))
async def test_a_torn_tail_is_told_when_reading_and_repaired_when_writing(name: str, tmp_path: Path) -> None:
    store = placed(tmp_path, DAMAGED[name])
    kept = EVENTS if name in ("no_final_newline", "nul_tail") else EVENTS[:-1]
    stored = await store.open_read(HEADER.id)
    assert list(stored.events) == kept
    assert stored.torn is not None
    assert (stored.torn.dropped == 0) == (name == "no_final_newline")
    assert stored.torn.line == len(kept) + (1 if name == "no_final_newline" else 2)
    assert store.path_of(HEADER.id).read_bytes() == DAMAGED[name], "inspection changed bytes"
    async with Host(store=store) as host:
        session = await resumed(host, furnish(host), HEADER.id, kept)
    again = await store.open_read(HEADER.id)
    assert again.torn is None
    assert list(again.events) == list(session.events)
    data = store.path_of(HEADER.id).read_bytes()
    assert data.count(b"\n") == len(session) + 1
    assert b"\0" not in data


@pytest.mark.rule("P3", "N6")
@pytest.mark.parametrize("name", by_expectation(MIDDLE))
async def test_damage_before_the_tail_is_refused_with_its_place_and_nothing_is_rewritten(
    name: str, tmp_path: Path
) -> None:
    store = placed(tmp_path, DAMAGED[name])
    for call in (store.open_read, store.open_write):
        error = await refused(SessionCorrupt, lambda call=call: call(HEADER.id))
        assert isinstance(error, SessionCorrupt)
        assert error.path == str(store.path_of(HEADER.id))
        assert error.line is not None
        assert f"line {error.line}" in str(error)
        if MUTATIONS[name].fault == "numbers that do not follow":
            assert f"{error.found} stands where {error.expected} is due" in str(error)
    async with Host(store=store) as host:
        await refused(SessionCorrupt, lambda: host.agents.resume(HEADER.id))
    prefix = await store.inspect(HEADER.id)
    assert isinstance(prefix.damage, SessionCorrupt)
    assert list(prefix.events) == EVENTS[: len(prefix.events)]
    assert prefix.damage.line == len(prefix.events) + 2
    assert store.path_of(HEADER.id).read_bytes() == DAMAGED[name]
    opened = (tmp_path / f"{HEADER.id}.lock").exists()
    assert not opened, "a refused session is not left locked"


@pytest.mark.rule("P3")
@pytest.mark.parametrize("name", by_expectation(LOUD, "accepted", EMPTY))
async def test_the_rest_is_read_whole_or_refused(name: str, tmp_path: Path) -> None:
    store = placed(tmp_path, DAMAGED[name])
    try:
        stored: StoredSession | None = await store.open_read(HEADER.id)
    except SessionCorrupt:
        stored = None
    if stored is None:
        assert MUTATIONS[name].expected == LOUD
        await refused(SessionCorrupt, lambda: store.open_write(HEADER.id))
        return
    assert list(stored.events) == ([] if name == "header_only" else EVENTS)
    opened = await store.open_write(HEADER.id)
    fresh: list[Event] = []
    if name != "header_only":
        fresh = extend(Session(HEADER, EVENTS))
        await opened.writer.append(fresh)
    await opened.writer.close()
    assert list((await store.open_read(HEADER.id)).events) == [*stored.events, *fresh]


@pytest.mark.rule("P6")
@pytest.mark.parametrize("name", by_expectation(UNREADABLE))
async def test_an_unreadable_header_is_named_in_the_listing_beside_the_others(name: str, tmp_path: Path) -> None:
    store = placed(tmp_path, DAMAGED[name])
    await store.create(SessionHeader("good", 1, "/work"))
    for call in (store.open_read, store.open_write, store.inspect):
        await refused(SessionCorrupt, lambda call=call: call(HEADER.id))
    listing = await store.list()
    assert [one.header.id for one in listing.sessions] == ["good"]
    assert [one.name for one in listing.unreadable] == [f"{HEADER.id}.jsonl"]


@pytest.mark.rule("P3")
def test_the_table_has_every_mutation() -> None:
    assert len(MUTATIONS) == 25
    assert len({DAMAGED[name] for name in MUTATIONS} | {HEALTHY}) == 26
