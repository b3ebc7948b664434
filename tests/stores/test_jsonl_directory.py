"""The directory of session files: listing it, locks in it, places for it (P2, P6, X2)."""

import os
from pathlib import Path

import pytest
import trio

from treadle import MisuseError, SessionCorrupt, SessionHeader, SessionLocked
from treadle.session import encode_event, encode_header
from treadle_adapters.stores import default_root, open_store, project_directory
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_specs.kits.store_bench import refused, sample, stored_as


@pytest.mark.rule("P6")
async def test_one_bad_file_does_not_break_the_listing_of_the_others(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    for number in range(5):
        await (await stored_as(store, sample(f"s{number}"))).close()
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "torn.jsonl").write_bytes(b'{"type":"session","formatV')
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff" * 4096)
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "other.jsonl").write_bytes((tmp_path / "s1.jsonl").read_bytes())
    (tmp_path / "broken.jsonl.zst").write_bytes(b"no frame at all")
    (tmp_path / "closed.jsonl").write_bytes(b"{}")
    (tmp_path / "closed.jsonl").chmod(0)
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / ".s0.jsonl.left-over.tmp").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("no session")
    (tmp_path / "index.json").write_text("{")
    listing = await store.list()
    assert sorted(one.header.id for one in listing.sessions) == [f"s{number}" for number in range(5)]
    bad = ["broken", "bytes", "closed", "empty", "folder", "gone", "other", "pipe", "torn"]
    assert sorted(one.name.partition(".")[0] for one in listing.unreadable) == bad


@pytest.mark.rule("P6")
async def test_a_listing_reads_a_bounded_part_of_each_file(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    big = 5_000_000
    for number in range(200):
        lines = [encode_header(sample(f"s{number}").header), *map(encode_event, sample(f"s{number}").events)]
        path = store.path_of(f"s{number}")
        path.write_bytes(b"\n".join(lines) + b"\n")
        os.truncate(path, big)
    before = bytes_read()
    listing = await store.list()
    assert (bytes_read() - before) / 200 <= 64 * 1024
    assert len(listing.sessions) == 200
    assert all(one.size == big and one.title == "question 1" for one in listing.sessions)


def bytes_read() -> int:
    return int(dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())["rchar"])


@pytest.mark.rule("P2")
async def test_a_lock_file_that_a_killed_process_left_is_in_nobodys_way(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    await (await stored_as(store, sample("s"))).close()
    (tmp_path / "s.lock").write_text('{"pid": 1, "host": "gone"}')
    opened = await store.open_write("s")
    await opened.writer.close()
    assert not (tmp_path / "s.lock").exists()


@pytest.mark.rule("P2")
async def test_of_many_openers_at_once_exactly_one_gets_the_lock(tmp_path: Path) -> None:
    await (await stored_as(JsonlStore(tmp_path), sample("s"))).close()
    for _ in range(20):
        got: list[object] = []

        async def race(got: list[object] = got) -> None:
            try:
                got.append((await JsonlStore(tmp_path).open_write("s")).writer)
            except SessionLocked:
                got.append(None)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(race)
        writers = [one for one in got if one is not None]
        assert len(writers) == 1
        await writers[0].close()  # type: ignore[attr-defined]


@pytest.mark.rule("X2")
def test_each_project_has_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {project_directory(tmp_path, path) for path in ("/a/b", "/a b", "/a/c/b", "/", "/a/..", "/a/\u6c49")}
    assert len(places) == 5
    assert all(place.parent == tmp_path and ".." not in place.name for place in places)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_root() == tmp_path / "treadle" / "sessions"
    with pytest.raises(MisuseError, match="jsonl"):
        open_store("paper", tmp_path)


@pytest.mark.rule("S8")
async def test_a_file_that_holds_another_session_is_refused(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    (tmp_path / "s.jsonl").write_bytes(encode_header(SessionHeader("t", 1, "/work")) + b"\n")
    for call in (store.open_read, store.open_write, store.inspect):
        await refused(SessionCorrupt, lambda call=call: call("s"))
