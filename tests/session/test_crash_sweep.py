"""Every prefix of the logs of twenty sessions is resumed, on every store; every byte cut of their last records as well."""

from pathlib import Path

import msgspec
import pytest

from tests.session.sweeping import check_reloaded, furnish, resumed
from treadle import Event, Host, MemoryStore, SessionHeader
from treadle.session import SessionStore, encode_event, encode_header
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_adapters.stores.sqlite import SqliteStore
from treadle_specs.rig.scripts import SCRIPTS, record

pytestmark = pytest.mark.slow

Logs = dict[str, tuple[SessionHeader, list[Event]]]
KINDS = ("memory", "jsonl", "sqlite")


@pytest.fixture(scope="module")
def logs() -> Logs:
    return {name: record(script) for name, script in SCRIPTS.items()}


def store_of(kind: str, directory: Path) -> SessionStore:
    if kind == "jsonl":
        return JsonlStore(directory, fsync="never")
    return SqliteStore(directory / "all.sqlite", fsync="never") if kind == "sqlite" else MemoryStore()


def test_there_are_twenty_scripts() -> None:
    assert len(SCRIPTS) == 20


@pytest.mark.rule("P4", "N1", "N2", "N3", "N4", "N5", "N6", "I8", "L4")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SCRIPTS)
async def test_every_prefix_of_a_log_is_repaired_resumed_and_loses_nothing(
    name: str, kind: str, logs: Logs, tmp_path: Path
) -> None:
    header, events = logs[name]
    async with store_of(kind, tmp_path) as store:
        async with Host(store=store) as host:
            model = furnish(host)
            sessions = []
            for count in range(len(events) + 1):
                child = msgspec.structs.replace(header, id=f"cut-{count}")
                await (await store.create(child, events[:count])).close()
                sessions.append(await resumed(host, model, child.id, events[:count]))
        for session in sessions:
            await check_reloaded(store, session)


@pytest.mark.rule("P3", "P4", "N6")
@pytest.mark.parametrize("name", SCRIPTS)
async def test_every_byte_cut_of_the_last_two_records_leaves_whole_lines_that_are_resumed(
    name: str, logs: Logs, tmp_path: Path
) -> None:
    """Wherever the cut is, opening for writing leaves the bytes of one of three logs; each of those is resumed."""
    header, events = logs[name]
    store = JsonlStore(tmp_path, fsync="never")
    lines = [encode_header(header) + b"\n", *[encode_event(entry) + b"\n" for entry in events]]
    whole, path = b"".join(lines), store.path_of(header.id)
    ends = [len(whole) - sum(map(len, lines[len(lines) - left :])) for left in (0, 1, 2)]
    for end in range(ends[2], ends[0] + 1):
        path.write_bytes(whole[:end])
        left = 0 if end >= ends[0] - 1 else 1 if end >= ends[1] - 1 else 2
        reading = await store.open_read(header.id)
        assert path.read_bytes() == whole[:end], "reading changed the file"
        opened = await store.open_write(header.id)
        await opened.writer.close()
        assert opened.stored.torn == reading.torn
        assert (reading.torn is None) == (end in ends), end
        assert path.read_bytes() == whole[: ends[left]], f"cut at {end}"
    for left in (0, 1, 2):
        path.write_bytes(whole[: ends[left]])
        async with Host(store=store) as host:
            session = await resumed(host, furnish(host), header.id, events[: len(events) - left])
        await check_reloaded(store, session)
        data = path.read_bytes()
        assert data.endswith(b"}\n")
        assert data.count(b"\n") == len(session) + 1
