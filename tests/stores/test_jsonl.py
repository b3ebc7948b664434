"""What only files can suffer: half lines, full disks, foreign writers, odd things beside them (P1–P3, P6, X1, X2)."""

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.session.sweeping import furnish
from treadle import Answer, Call, Host, Session, SessionCorrupt, SessionLocked, StoreFailure, tool
from treadle.hooks import AGENT_ERROR, AgentError
from treadle.session import encode_event
from treadle.session.upgrade import Step
from treadle_adapters.stores import open_store
from treadle_adapters.stores.files import write_whole
from treadle_adapters.stores.frames import pack
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_specs.kits.store_bench import extend, refused, sample, stored_as
from treadle_specs.kits.store_checks import SEPARATORS
from treadle_specs.rig.scripts import OPTIONS

from .makers import COMPRESSED, JSONL, Kind, jam_file, jsonl

FILES = pytest.mark.parametrize("kind", [JSONL, COMPRESSED], ids=str)


@pytest.mark.rule("X1")
@FILES
async def test_files_and_directories_are_for_their_owner_only(kind: Kind, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        root = tmp_path / "a" / "b"
        writer = await stored_as(kind.make(root), sample("s"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (root.parent, root, *root.iterdir())}
        await writer.close()
    finally:
        os.umask(before)
    assert {name: mode for name, mode in modes.items() if name in "ab"} == {"a": 0o700, "b": 0o700}
    assert {mode for name, mode in modes.items() if name not in "ab"} == {0o600}
    assert len(modes) == 4


@pytest.mark.rule("N6", "S1")
async def test_text_with_unicode_separators_goes_through_an_agent_and_back(tmp_path: Path) -> None:
    @tool
    def echo() -> str:
        return SEPARATORS

    store = JsonlStore(tmp_path)
    async with Host(store=store) as host:
        model = furnish(host)
        host.tools.register(echo)
        model.push(Answer(SEPARATORS, calls=[Call("echo", {})]), SEPARATORS)
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        handle.agent.followup(SEPARATORS)
        await handle.agent.when_idle()
        await handle.dispose()
        history = list(handle.agent.session.history())
        again = await host.agents.resume("s")
        assert list(again.agent.session.history()) == history
    data = store.path_of("s").read_bytes()
    assert data.count(b"\n") == len(handle.agent.session) + 1
    assert data.count("\u2028".encode()) >= 4


@pytest.mark.rule("P1", "N8")
@FILES
async def test_a_disk_full_half_way_through_a_line_leaves_nothing_of_it(kind: Kind, tmp_path: Path) -> None:
    store = kind.make(tmp_path)
    errors: list[AgentError] = []
    async with Host(store=store) as host:
        furnish(host)
        host.on(AGENT_ERROR, errors.append)
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        agent.followup("before")
        await agent.when_idle()
        with jam_file(tmp_path, "s"):
            before = await store.revision("s")
            agent.followup("full")
            await agent.when_idle()
            stored = await store.open_read("s")
            assert stored.torn is None
            assert stored.revision.split(".")[:2] == before.split(".")[:2], "half a line was left"
            assert errors
            assert isinstance(errors[0].error, StoreFailure)
        agent.followup("after")
        await agent.when_idle()
        assert list((await store.open_read("s")).events) == list(agent.session.events)


@pytest.mark.rule("P1")
async def test_a_half_line_that_cannot_be_taken_back_is_cut_off_before_the_next_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sample("s")
    store = jsonl(tmp_path)
    writer = await stored_as(store, session)
    cut = os.ftruncate

    def refuse(descriptor: int, length: int) -> None:
        raise OSError(errno.EIO, "no way back")

    with jam_file(tmp_path, "s"):
        monkeypatch.setattr(os, "ftruncate", refuse)
        await refused(StoreFailure, lambda: writer.append(extend(session)))
        monkeypatch.setattr(os, "ftruncate", cut)
    torn = (await store.open_read("s")).torn
    assert torn is not None
    assert torn.dropped > 0
    await writer.flush()
    stored = await store.open_read("s")
    assert (stored.torn, list(stored.events)) == (None, list(session.events))
    await writer.close()


@pytest.mark.rule("P1", "P7")
async def test_a_failed_sync_of_earlier_records_is_never_papered_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sample("s")
    writer = await stored_as(JsonlStore(tmp_path), session)
    for entry in extend(session):
        writer.add(entry)
    await writer.written()
    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "bad disk")))
        await refused(StoreFailure, writer.flush)
    error = await refused(StoreFailure, writer.flush)
    assert "earlier sync failed" in str(error)
    await refused(StoreFailure, writer.close)
    opened = await JsonlStore(tmp_path).open_write("s")
    await opened.writer.close()
    assert list(opened.stored.events) == list(session.events)


@pytest.mark.rule("P7")
@pytest.mark.parametrize(("fsync", "background", "barrier"), [("always", 1, 1), ("flush", 0, 1), ("never", 0, 0)])
async def test_the_policy_says_when_records_go_to_disk(
    fsync: str, background: int, barrier: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs: list[int] = []
    session = sample("s")
    store = open_store("jsonl", tmp_path, fsync=fsync)  # type: ignore[arg-type]
    writer = await stored_as(store, session)
    monkeypatch.setattr(os, "fdatasync", syncs.append)
    for entry in extend(session):
        writer.add(entry)
    await writer.written()
    assert len(syncs) == background
    assert list((await store.open_read("s")).events) == list(session.events)
    await writer.flush()
    assert len(syncs) == max(background, barrier)
    await writer.flush()
    assert len(syncs) == max(background, barrier), "a barrier with nothing new costs nothing"
    await writer.close()


@pytest.mark.rule("P2", "N8")
@pytest.mark.parametrize("change", ["append", "replace", "remove"])
async def test_a_file_changed_behind_its_writers_back_is_not_written_again(change: str, tmp_path: Path) -> None:
    session = sample("s")
    foreign = Session(session.header, session.events)
    store = JsonlStore(tmp_path)
    writer = await stored_as(store, session)
    path = store.path_of("s")
    if change == "append":
        with path.open("ab") as file:
            file.writelines(encode_event(entry) + b"\n" for entry in extend(foreign))
    elif change == "replace":
        write_whole(path, path.read_bytes(), durable=False)
    else:
        path.unlink()
    before = path.read_bytes() if path.exists() else None
    for _ in range(2):
        await refused(SessionLocked, lambda: writer.append(extend(session)))
    await refused(SessionLocked, writer.close)
    assert (path.read_bytes() if path.exists() else None) == before
    if change == "append":
        assert list((await store.open_read("s")).events) == list(foreign.events)


@pytest.mark.rule("X3", "P1")
@FILES
async def test_a_line_of_twenty_megabytes_is_stored_loaded_and_listed(kind: Kind, tmp_path: Path) -> None:
    session = sample("s", 1, "long " * 4_000_000)
    store = kind.make(tmp_path)
    writer = await stored_as(store, session)
    await writer.append(extend(session))
    await writer.close()
    assert list((await kind.make(tmp_path).open_read("s")).events) == list(session.events)
    assert (await store.list()).sessions[0].header.id == "s"


@contextmanager
def somebody_else() -> Iterator[None]:
    """For root no directory is read-only; be nobody for a while then."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.rule("P1", "N8")
async def test_a_read_only_directory_is_said_to_be_one_and_can_be_read(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path / "sessions")
    await (await stored_as(store, sample("s"))).close()
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.geteuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    store.path_of("s").chmod(0o644)
    store.directory.chmod(0o555)
    try:
        with somebody_else():
            for call in (lambda: store.open_write("s"), lambda: stored_as(store, sample("t"))):
                error = await refused(StoreFailure, call)
                assert str(store.directory) in str(error)
            assert len((await store.open_read("s")).events) == 12
            assert len((await store.list()).sessions) == 1
    finally:
        store.directory.chmod(0o700)


@pytest.mark.rule("P1")
def test_rewrites_at_the_same_time_give_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    contents = [bytes([65 + number]) * 300_000 for number in range(8)]
    threads = [threading.Thread(target=write_whole, args=(path, data), kwargs={"durable": False}) for data in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path], "temporaries were left"


def temporaries(directory: Path) -> list[Path]:
    return list(directory.glob(".*.tmp"))


@pytest.mark.rule("P1", "P6")
async def test_a_rewrite_that_is_killed_before_its_rename_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JsonlStore(tmp_path)
    await (await stored_as(store, sample("s"))).close()
    before = store.path_of("s").read_bytes()

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(Path, "replace", die)
        killed.setattr(Path, "unlink", die)
        with pytest.raises(KeyboardInterrupt):
            write_whole(store.path_of("s"), b"other", durable=True)
    assert len(temporaries(tmp_path)) == 1
    assert store.path_of("s").read_bytes() == before
    listing = await store.list()
    assert (len(listing.sessions), listing.unreadable) == (1, ())


@pytest.mark.rule("P5")
@FILES
async def test_an_older_format_is_read_without_a_change_and_rewritten_when_it_is_written(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from treadle.session import upgrade

    def newer(raw: dict[str, object]) -> dict[str, object]:
        return {("type" if key == "tag" else key): value for key, value in raw.items()}

    monkeypatch.setitem(upgrade.STEPS, 0, Step(lambda raw: {**raw, "cwd": "/upgraded"}, newer))
    session = sample("s")
    old = [b'{"type":"session","formatVersion":0,"id":"s","createdAt":1700000000000,"origin":"check"}']
    old += [encode_event(entry).replace(b'"type"', b'"tag"', 1) for entry in session.events]
    data = b"\n".join(old) + b"\n"
    store = kind.make(tmp_path)
    path = store.path_of("s")  # type: ignore[attr-defined]
    path.write_bytes(pack(data) if kind is COMPRESSED else data)
    before = path.read_bytes()
    stored = await store.open_read("s")
    assert path.read_bytes() == before
    assert list(stored.events) == list(session.events)
    assert stored.header == msgspec.structs.replace(session.header, cwd="/upgraded")
    opened = await store.open_write("s")
    await opened.writer.append(extend(session))
    await opened.writer.close()
    again = await store.open_read("s")
    assert list(again.events) == list(session.events)
    assert again.header == stored.header
    monkeypatch.undo()
    assert list((await store.open_read("s")).events) == list(session.events), "it is in the current format now"


@pytest.mark.rule("P3")
async def test_a_damaged_frame_before_the_last_is_corruption(tmp_path: Path) -> None:
    session = sample("s")
    store = JsonlStore(tmp_path, compress=True)
    writer = await stored_as(store, session)
    middle = store.path_of("s").stat().st_size
    await writer.append(extend(session))
    await writer.append(extend(session))
    await writer.close()
    data = bytearray(store.path_of("s").read_bytes())
    data[middle + 12] ^= 0xFF
    store.path_of("s").write_bytes(bytes(data))
    for call in (store.open_read, store.open_write):
        await refused(SessionCorrupt, lambda call=call: call("s"))
    stored = await store.inspect("s")
    assert list(stored.events) == list(session.events)[:12]
    assert store.path_of("s").read_bytes() == bytes(data)
