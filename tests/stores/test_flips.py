"""One flipped bit anywhere in a log: it is repaired, refused, or sound; never driven on from what the checker refuses."""

import logging
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.session.sweeping import furnish
from treadle import Event, Host, SessionCorrupt, SessionHeader
from treadle.errors import SessionFormatUnsupported
from treadle.session import encode_event, encode_header
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_specs.kits.store_bench import refused
from treadle_specs.logs.checker import check_events, check_file
from treadle_specs.logs.mutations import MUTATIONS, mutate
from treadle_specs.rig.scripts import OPTIONS, SCRIPTS, record

FLIPS = int(os.environ.get("TREADLE_FLIPS", "150"))
"""How many bits are flipped, each in a log of its own."""


Log = tuple[SessionHeader, list[Event]]


@pytest.fixture(scope="module")
def logs() -> Iterator[dict[str, Log]]:
    logging.disable(logging.CRITICAL)
    yield {name: record(script) for name, script in SCRIPTS.items()}
    logging.disable(logging.NOTSET)


def bytes_of(header: SessionHeader, events: list[Event]) -> bytes:
    return b"".join([line + b"\n" for line in (encode_header(header), *map(encode_event, events))])


async def fate(directory: Path, name: str, data: bytes) -> str:
    """Resume a log, and hold what comes of it to what the checker says; returns what came of it."""
    store = JsonlStore(directory)
    path = store.path_of(name)
    path.write_bytes(data)
    objected = not check_file(path).sound
    async with Host(store=store) as host:
        furnish(host)
        try:
            handle = await host.agents.resume(name, agent_options=OPTIONS)
        except (SessionCorrupt, SessionFormatUnsupported):
            assert path.read_bytes() in (data, data + b"\n") or not objected
            return "refused"
        assert not objected, f"resumed, and the checker objects: {check_file(path).findings}"
        session = handle.agent.session
        found = check_events(list(session.events), header=session.header, finished=True)
        assert found.sound, found.findings
        await handle.dispose(keep_inbox=True)
    assert check_file(path, finished=True).sound
    return "sound" if handle.recovery is None or handle.recovery.torn is None else "repaired"


@pytest.mark.rule("P3", "P4", "N6")
async def test_no_flipped_bit_is_resumed_to_what_the_checker_objects_to(tmp_path: Path, logs: dict[str, Log]) -> None:
    healthy = [(header, bytes_of(header, events)) for header, events in logs.values()]
    chance, fates = random.Random(11), Counter[str]()
    for number in range(FLIPS):
        header, whole = chance.choice(healthy)
        data = bytearray(whole)
        place, bit = chance.randrange(len(data)), 1 << chance.randrange(8)
        data[place] ^= bit
        directory = tmp_path / str(number)
        directory.mkdir()
        try:
            fates[await fate(directory, header.id, bytes(data))] += 1
        except Exception as error:
            error.add_note(f"flip {number}: bit {bit:#x} of byte {place}: {bytes(data[place - 40 : place + 40])!r}")
            raise
    assert fates["refused"] > FLIPS / 4, fates
    assert fates["sound"] > FLIPS / 8, fates


@pytest.mark.rule("P3")
@pytest.mark.parametrize("name", MUTATIONS)
async def test_reader_and_checker_agree_on_every_mutation(name: str, tmp_path: Path, logs: dict[str, Log]) -> None:
    header, events = logs["cancel-in-a-tool"]
    await fate(tmp_path, header.id, mutate(bytes_of(header, events))[name])


@pytest.mark.rule("P3", "S5")
async def test_a_log_that_breaks_a_rule_is_refused_whole_and_says_where_a_fork_could_begin(
    tmp_path: Path, logs: dict[str, Log]
) -> None:
    header, events = logs["one-tool"]
    call = next(entry for entry in events if entry.type == "tool/call")
    strayed = msgspec.structs.replace(call, data=msgspec.structs.replace(call.data, call_id="another"))
    store = JsonlStore(tmp_path)
    broken = [strayed if entry is call else entry for entry in events]
    await (await store.create(header, broken)).close()
    before = store.path_of(header.id).read_bytes()
    async with Host(store=store) as host:
        furnish(host)
        error = await refused(SessionCorrupt, lambda: host.agents.resume(header.id))
        assert isinstance(error, SessionCorrupt)
        assert error.seq == call.seq
        assert "a fork after" in str(error)
    assert store.path_of(header.id).read_bytes() == before
    await (await store.open_write(header.id)).writer.close()
