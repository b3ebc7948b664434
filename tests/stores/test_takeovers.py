"""Locks that are links, and writers that were stopped at the worst moment while somebody took over (P2)."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from treadle import Session, SessionLocked, StoreFailure
from treadle_adapters.stores import files
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_adapters.stores.locks import FileLock
from treadle_specs.kits.store_bench import extend, refused, sample, stored_as

from .makers import COMPRESSED, JSONL, SQLITE, Kind

FILES = pytest.mark.parametrize("compress", [False, True])
ON_DISK = pytest.mark.parametrize("kind", [JSONL, COMPRESSED, SQLITE], ids=str)


def lock_of(kind: Kind, directory: Path) -> Path:
    return directory / ("sessions.sqlite-locks" if kind is SQLITE else "") / "s.lock"


@pytest.mark.rule("P2", "X1")
@ON_DISK
@pytest.mark.parametrize("link", ["symbolic", "hard", "to nothing", "pipe"])
async def test_a_lock_file_that_is_a_link_is_refused_and_what_it_leads_to_is_not_touched(
    kind: Kind, link: str, tmp_path: Path
) -> None:
    store = kind.make(tmp_path / "sessions")
    await (await stored_as(store, sample("s"))).close()
    victim, lock = tmp_path / "victim", lock_of(kind, tmp_path / "sessions")
    victim.write_text("precious")
    match link:
        case "symbolic":
            lock.symlink_to(victim)
        case "hard":
            lock.hardlink_to(victim)
        case "to nothing":
            lock.symlink_to(tmp_path / "nothing")
        case _:
            os.mkfifo(lock)
    for call in (lambda: store.open_write("s"), lambda: store.delete("s")):
        error = await refused(StoreFailure, call)
        assert f"{lock} is a link, or no regular file" in str(error)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "nothing").exists()
    lock.unlink()
    await (await store.open_write("s")).writer.close()
    await store.close()


class Stopped:
    """Stops a writer between the check of its lock and its write, while another takes the session over."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] | None = None

    def write(self, descriptor: int, data: memoryview) -> int:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return os.write(descriptor, data)


@pytest.mark.rule("P2", "P3", "N6")
@FILES
async def test_a_writer_stopped_between_check_and_write_while_another_takes_over_corrupts_nothing(
    compress: bool, tmp_path: Path
) -> None:
    stopped, theirs = Stopped(), JsonlStore(tmp_path, compress=compress)
    store = JsonlStore(tmp_path, compress=compress, write=stopped.write)
    session = sample("s")
    old = await stored_as(store, session)
    await old.append(extend(session))
    mine = Session(session.header, session.events)

    def take_over() -> None:
        (tmp_path / "s.lock").unlink()
        new.append(trio.run(_open_and_append, theirs, session))

    new: list[object] = []
    stopped.meanwhile = take_over
    await refused(SessionLocked, lambda: old.append(extend(mine, 2)))
    await refused(SessionLocked, old.close)
    stored = await theirs.open_read("s")
    assert (list(stored.events), stored.torn) == (list(session.events), None)
    opened = await theirs.open_write("s")
    assert list(opened.stored.events) == list(session.events)
    await opened.writer.append(extend(session))
    await opened.writer.close()


async def _open_and_append(store: JsonlStore, session: Session) -> None:
    opened = await store.open_write("s")
    assert list(opened.stored.events) == list(session.events)
    await opened.writer.append(extend(session))
    await opened.writer.close()


@pytest.mark.rule("P1", "P2")
@FILES
async def test_what_was_acknowledged_while_another_takes_over_goes_with_him(
    compress: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old writer appends after the new one has copied the file and before the copy is in place."""
    store, session = JsonlStore(tmp_path, compress=compress), sample("s")
    old = await stored_as(store, session)
    lock = (tmp_path / "s.lock").rename(tmp_path / "aside")
    put, appended = files.write_whole, list[int]()

    def append_first(path: Path, data: bytes, *, durable: bool) -> None:
        if not appended:
            appended.append(len(session))
            lock.rename(held := tmp_path / "s.lock.new")
            (tmp_path / "s.lock").rename(tmp_path / "theirs")
            held.rename(tmp_path / "s.lock")
            fresh = extend(session)
            trio.run(old.append, fresh)
            (tmp_path / "theirs").rename(tmp_path / "s.lock")
        put(path, data, durable=durable)

    monkeypatch.setattr(files, "write_whole", append_first)
    opened = await store.open_write("s")
    assert len(appended) == 1
    assert list(opened.stored.events) == list(session.events), "what the old writer acknowledged is missing"
    await refused(SessionLocked, lambda: old.append(extend(sample("s", 3))))
    await opened.writer.close()


@pytest.mark.rule("P2", "N6")
async def test_the_fence_in_the_database_holds_a_stopped_writer_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sample("s")
    async with SQLITE.make(tmp_path) as store, SQLITE.make(tmp_path) as theirs:
        old = await stored_as(store, session)
        (tmp_path / "sessions.sqlite-locks" / "s.lock").unlink()
        opened = await theirs.open_write("s")
        with monkeypatch.context() as late:
            late.setattr(FileLock, "check", lambda _: None)
            await refused(SessionLocked, lambda: old.append(extend(sample("s"))))
        await opened.writer.append(extend(session))
        await opened.writer.close()
        await refused(SessionLocked, old.close)
        assert list((await store.open_read("s")).events) == list(session.events)


@pytest.mark.rule("P2")
async def test_a_session_made_again_under_its_id_is_another_one_for_its_old_writer(tmp_path: Path) -> None:
    session = sample("s")
    async with SQLITE.make(tmp_path) as store, SQLITE.make(tmp_path) as theirs:
        old = await stored_as(store, session)
        lock = tmp_path / "sessions.sqlite-locks" / "s.lock"
        aside = lock.rename(tmp_path / "aside")
        await theirs.delete("s")
        await (await stored_as(theirs, session)).close()
        aside.rename(lock)
        error = await refused(SessionLocked, lambda: old.append(extend(sample("s"))))
        assert "nothing was written" in str(error)
        assert list((await store.open_read("s")).events) == list(session.events)
