"""Faults of session logs that users met elsewhere, through agents on real stores: each test is named after the fault."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.session.sweeping import check_reloaded, furnish, resumed
from tests.stores.makers import jam_file, jsonl
from treadle import Answer, Call, Event, Host, Session, SessionCorrupt, SessionHeader, SessionLocked, StoreFailure
from treadle.hooks import AGENT_ERROR, AgentError
from treadle.session import encode_event, encode_header
from treadle_adapters.stores.files import write_whole
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_adapters.stores.sqlite import SqliteStore
from treadle_specs.kits.store_bench import extend, refused
from treadle_specs.logs.mutations import MUTATIONS, mutate
from treadle_specs.rig.scripts import OPTIONS, SCRIPTS, record

HEADER, EVENTS = record(SCRIPTS["several-steps"])
HEALTHY = b"".join([line + b"\n" for line in (encode_header(HEADER), *map(encode_event, EVENTS))])
DAMAGED = mutate(HEALTHY)


def of(fault: str) -> list[str]:
    return [name for name, one in MUTATIONS.items() if one.fault == fault]


def placed(directory: Path, data: bytes) -> JsonlStore:
    store = JsonlStore(directory)
    store.path_of(HEADER.id).write_bytes(data)
    return store


async def goes_on(store: JsonlStore, kept: list[Event]) -> None:
    """The session is resumed, one turn is run, and all of it is there afterwards."""
    async with Host(store=store) as host:
        session = await resumed(host, furnish(host), HEADER.id, kept)
    await check_reloaded(store, session)
    assert store.path_of(HEADER.id).read_bytes().count(b"\n") == len(session) + 1


async def stops(store: JsonlStore, data: bytes) -> None:
    """The session is refused with its place, and not a byte of it changes."""
    async with Host(store=store) as host:
        error = await refused(SessionCorrupt, lambda: host.agents.resume(HEADER.id))
    assert isinstance(error, SessionCorrupt)
    assert f"{store.path_of(HEADER.id)}, line {error.line}" in str(error)
    assert store.path_of(HEADER.id).read_bytes() == data


@pytest.mark.rule("P3")
@pytest.mark.parametrize("name", of("torn last line"))
async def test_a_torn_last_line_does_not_swallow_the_next_record(name: str, tmp_path: Path) -> None:
    await goes_on(placed(tmp_path, DAMAGED[name]), EVENTS[:-1])


@pytest.mark.rule("P3")
async def test_a_last_record_that_lacks_its_newline_is_neither_dropped_nor_glued_to_the_next(tmp_path: Path) -> None:
    await goes_on(placed(tmp_path, DAMAGED["no_final_newline"]), EVENTS)


@pytest.mark.rule("P3")
@pytest.mark.parametrize("name", ["malformed_middle", "bad_utf8_in_string", "json_but_not_object"])
async def test_a_bad_line_in_the_middle_does_not_silently_end_the_history(name: str, tmp_path: Path) -> None:
    await stops(placed(tmp_path, DAMAGED[name]), DAMAGED[name])


@pytest.mark.rule("P3")
async def test_a_run_of_nul_bytes_is_a_torn_tail_at_the_end_and_corruption_before_it(tmp_path: Path) -> None:
    await stops(placed(tmp_path, DAMAGED["nul_middle"]), DAMAGED["nul_middle"])
    await goes_on(placed(tmp_path, DAMAGED["nul_tail_in_place"]), EVENTS[:-1])
    await goes_on(placed(tmp_path, DAMAGED["nul_tail"]), EVENTS)


@pytest.mark.rule("P3")
@pytest.mark.parametrize("name", of("two records on one line"))
async def test_two_records_on_one_line_are_not_read_as_one(name: str, tmp_path: Path) -> None:
    await stops(placed(tmp_path, DAMAGED[name]), DAMAGED[name])


@pytest.mark.rule("P2", "N6")
@pytest.mark.parametrize("make", [JsonlStore, lambda path: SqliteStore(path / "all.sqlite")], ids=["jsonl", "sqlite"])
async def test_two_hosts_on_one_session_do_not_write_the_same_numbers(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    async with (
        make(tmp_path) as first,
        make(tmp_path) as second,
        Host(store=first) as host,
        Host(store=second) as other,
    ):
        furnish(host)
        furnish(other)
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        handle.agent.followup("one")
        await refused(SessionLocked, lambda: other.agents.resume("s"))
        await handle.agent.when_idle()
        await refused(SessionLocked, lambda: other.agents.resume("s"))
        await handle.dispose()
        agent = (await other.agents.resume("s", agent_options=OPTIONS)).agent
        agent.followup("two")
        await agent.when_idle()
        stored = await first.open_read("s")
        assert [entry.seq for entry in stored.events] == list(range(len(agent.session)))


@pytest.mark.rule("P3", "N6")
@pytest.mark.parametrize("name", of("numbers that do not follow"))
async def test_a_log_whose_numbers_step_back_hides_no_later_turn(name: str, tmp_path: Path) -> None:
    store = placed(tmp_path, DAMAGED[name])
    await stops(store, DAMAGED[name])
    stored = await store.inspect(HEADER.id)
    assert isinstance(stored.damage, SessionCorrupt)
    assert (stored.damage.expected, stored.damage.found) == (len(stored.events), stored.damage.found)
    assert str(stored.damage.found) in str(stored.damage)
    assert list(stored.events) == EVENTS[: len(stored.events)]


@pytest.mark.rule("P6")
async def test_one_bad_file_does_not_break_the_listing(tmp_path: Path) -> None:
    for name, data in DAMAGED.items():
        (tmp_path / f"{name}.jsonl").write_bytes(data.replace(HEADER.id.encode(), name.encode()))
    listing = await JsonlStore(tmp_path).list()
    bad = {one.name.removesuffix(".jsonl") for one in listing.unreadable}
    assert bad == {"empty", "header_torn", "bom"}
    assert {one.header.id for one in listing.sessions} == set(DAMAGED) - bad


@pytest.mark.rule("P2", "N8")
async def test_a_stale_copy_in_memory_does_not_rewrite_newer_turns_nor_pretend_to_save(tmp_path: Path) -> None:
    store, errors = JsonlStore(tmp_path), list[AgentError]()
    async with Host(store=store) as host:
        furnish(host)
        host.on(AGENT_ERROR, errors.append)
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        agent.followup("mine")
        await agent.when_idle()
        foreign = Session(agent.session.header, agent.session.events)
        lines = b"".join([encode_event(entry) + b"\n" for entry in extend(foreign)])
        append_behind_its_back(store.path_of("s"), lines)
        for turn in (1, 2, 3):
            agent.followup("mine as well")
            await agent.when_idle()
            assert len(errors) >= turn, "a turn that is not saved says so"
        assert all(isinstance(error.error, SessionLocked) for error in errors)
        assert list((await store.open_read("s")).events) == list(foreign.events)


def append_behind_its_back(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.mark.rule("P1", "N8")
async def test_a_partial_write_is_rolled_back_and_does_not_fuse_with_the_next(tmp_path: Path) -> None:
    store, errors = jsonl(tmp_path), list[AgentError]()
    async with Host(store=store) as host:
        furnish(host)
        host.on(AGENT_ERROR, errors.append)
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        with jam_file(tmp_path, "s"):
            agent.followup("into a full disk")
            await agent.when_idle()
        assert isinstance(errors[0].error, StoreFailure)
        assert (await store.open_read("s")).torn is None
        agent.followup("and on")
        await agent.when_idle()
        assert list((await store.open_read("s")).events) == list(agent.session.events)


@pytest.mark.rule("P4", "S4")
async def test_a_crash_at_any_event_of_an_answer_leaves_no_answer_without_content(tmp_path: Path) -> None:
    for count in range(len(EVENTS)):
        await goes_on(placed(tmp_path, b"".join(HEALTHY.splitlines(keepends=True)[: count + 1])), EVENTS[:count])


@pytest.mark.rule("P4", "N1")
async def test_a_resume_in_the_middle_of_a_tool_call_keeps_the_call_and_says_what_is_not_known(tmp_path: Path) -> None:
    asked = next(entry.seq for entry in EVENTS if entry.type == "assistant/message")
    store = placed(tmp_path, b"".join(HEALTHY.splitlines(keepends=True)[: asked + 3]))
    async with Host(store=store) as host:
        model = furnish(host)
        handle = await host.agents.resume(HEADER.id, agent_options=OPTIONS)
        results = [entry.data for entry in handle.agent.session.events if entry.type == "tool/result"]
        assert [(one.call_id, one.code) for one in results] == [
            ("a", "TOOL_OUTCOME_UNKNOWN"),
            ("b", "TOOL_NOT_STARTED"),
        ]
        assert "may or may not have taken effect" in results[0].content[0].text
        handle.agent.followup("what now?")
        await handle.agent.when_idle()
        assert len(model.requests[0].messages) == 5


@pytest.mark.rule("S5")
async def test_a_resume_does_not_store_the_restored_messages_again(tmp_path: Path) -> None:
    store = placed(tmp_path, HEALTHY)
    for _ in range(5):
        async with Host(store=store) as host:
            handle = await host.agents.resume(HEADER.id)
            assert list(handle.agent.session.events) == EVENTS
    assert store.path_of(HEADER.id).read_bytes() == HEALTHY
    await goes_on(store, EVENTS)


@pytest.mark.rule("N6", "S1")
async def test_a_log_is_not_split_on_unicode_separators(tmp_path: Path) -> None:
    text = "\u2028 \u2029 \u0085 \x0b \x0c \x1c \x1d \x1e \r \r\n \n"
    store = JsonlStore(tmp_path)
    async with Host(store=store) as host:
        model = furnish(host)
        model.push(Answer(text, reasoning=text, calls=[Call("look", {"what": text})]), text)
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        handle.agent.followup(text)
        await handle.agent.when_idle()
        history = list(handle.agent.session.history())
    assert store.path_of("s").read_bytes().count(b"\n") == len(handle.agent.session) + 1
    stored = await store.open_read("s")
    assert list(Session(stored.header, stored.events).history()) == history


@pytest.mark.rule("P1", "N8")
async def test_a_locked_database_loses_no_write_and_holds_up_no_loop(tmp_path: Path) -> None:
    import apsw

    async with SqliteStore(tmp_path / "all.sqlite", busy=30) as store, Host(store=store) as host:
        furnish(host)
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        other = apsw.Connection(str(store.path))
        other.execute("BEGIN IMMEDIATE")
        agent.followup("while it is locked")
        for _ in range(300):
            await trio.lowlevel.checkpoint()
        assert agent.status == "idle", "the turn does not wait for the database"
        other.execute("COMMIT")
        other.close()
        await agent.when_idle()
        assert list((await store.open_read("s")).events) == list(agent.session.events)


@pytest.mark.rule("P1")
def test_two_rewrites_at_once_do_not_share_a_temporary(tmp_path: Path) -> None:
    path, whole = tmp_path / "s.jsonl", [letter * 200_000 for letter in (b"a", b"b", b"c", b"d")]
    threads = [threading.Thread(target=lambda data=data: write_whole(path, data, durable=False)) for data in whole]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in whole


@pytest.mark.rule("O4", "P8")
async def test_leaving_early_does_not_cut_off_the_store_of_the_last_records(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    async with Host(store=store) as host:
        furnish(host)
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        receipt = handle.agent.followup("answer me")
        await receipt.outcome()
    assert list((await store.open_read("s")).events) == list(handle.agent.session.events)


@pytest.mark.rule("P1", "X2")
async def test_a_session_of_another_id_in_the_file_is_not_taken_for_this_one(tmp_path: Path) -> None:
    placed(tmp_path, encode_header(SessionHeader("other", 1, "/")) + b"\n")
    async with Host(store=JsonlStore(tmp_path)) as host:
        await refused(SessionCorrupt, lambda: host.agents.resume(HEADER.id))
