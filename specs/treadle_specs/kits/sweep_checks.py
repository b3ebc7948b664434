"""The store sweep of ``check_store``: what befalls the files of an open session, and what its writer must say.

Whatever is done, one law holds: ``append`` raises, or what it took can be read by others; and nothing that was
acknowledged before is lost by the store's own doing.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

import trio

from treadle import Session
from treadle.errors import MisuseError, SessionLocked, StoreFailure, TreadleError
from treadle.session import SessionWriter

from .store_bench import Bench, Check, extend, refused, sample, stored_as

TOLD = (SessionLocked, StoreFailure)
"""How a writer says that nothing was written."""


async def _beaten(bench: Bench, session: Session, harm: Callable[[], None]) -> None:
    """Store a session, harm what is stored, and see its writer say so at once, again, and when it is closed."""
    writer = await stored_as(bench.store(), session)
    await writer.append(extend(session))
    harm()
    for _ in range(2):
        await refused(TOLD, lambda: writer.append(extend(session)))
    await refused(TOLD, writer.flush)
    await refused(TOLD, writer.close)


async def a_deleted_session_is_told_at_once(bench: Bench) -> None:
    """P2: what holds a session is deleted under its writer: the next append says so, and nothing comes back."""
    delete = bench.faults.delete
    assert delete is not None
    await _beaten(bench, sample("s"), lambda: delete(bench.directory, "s"))
    await _reopened(bench, 0)


async def a_renamed_session_is_told_at_once(bench: Bench) -> None:
    """P2: what holds a session is renamed under its writer: the next append says so; put back, it holds what it held."""
    rename = bench.faults.rename
    assert rename is not None
    undo: list[Callable[[], None]] = []
    await _beaten(bench, sample("s"), lambda: undo.append(rename(bench.directory, "s")))
    undo[0]()
    await _reopened(bench, 18)


async def an_old_copy_in_its_place_is_told_at_once(bench: Bench) -> None:
    """P2: an older copy takes the place of an open session: the next append says so, and the copy is left as it is."""
    copy = bench.faults.copy
    assert copy is not None
    session = sample("s")
    writer = await stored_as(bench.store(), session)
    replace = copy(bench.directory, "s")
    await writer.append(extend(session))
    replace()
    for _ in range(2):
        await refused(TOLD, lambda: writer.append(extend(session)))
    await refused(TOLD, writer.close)
    await _reopened(bench, 12)


async def a_session_cut_short_is_told_at_once(bench: Bench) -> None:
    """P2, P3: what holds a session is cut short under its writer: the next append says so, and writes nothing."""
    cut = bench.faults.cut
    assert cut is not None
    await _beaten(bench, sample("s", 40), lambda: cut(bench.directory, "s"))


async def permission_that_is_revoked_loses_nothing_acknowledged(bench: Bench) -> None:
    """P1, N8: without permission to write, an append is refused or done: what it took is there, or kept."""
    assert bench.faults.revoke is not None
    session = sample("s")
    writer = await stored_as(bench.store(), session)
    stored = len(session)
    with bench.faults.revoke(bench.directory, "s"):
        try:
            await writer.append(extend(session))
            stored = len(session)
        except TOLD:
            pass
        await refused(TreadleError, lambda: stored_as(bench.store(), sample("new")))
    assert len((await bench.store().open_read("s")).events) >= stored
    await writer.flush()
    await writer.close()
    assert list((await bench.store().open_read("s")).events) == list(session.events)


async def a_lock_taken_away_lets_one_writer_through(bench: Bench) -> None:
    """P2: somebody takes the lock away and opens the session: the writer before him never writes again, at any moment."""
    assert bench.faults.steal is not None
    session = sample("s")
    for _ in range(3):
        writer = await stored_as(bench.store(), session)
        await writer.append(extend(session))
        bench.faults.steal(bench.directory, "s")
        opened = await bench.store().open_write("s")
        assert list(opened.stored.events) == list(session.events), "the new owner misses what was acknowledged"
        mine = Session(session.header, session.events)
        await refused(SessionLocked, lambda writer=writer: writer.append(extend(sample("s", 3))))
        await opened.writer.append(extend(mine))
        await refused(SessionLocked, writer.close)
        await opened.writer.close()
        assert list((await bench.store().open_read("s")).events) == list(mine.events)
        await bench.store().delete("s")
        session = sample("s")


async def a_forked_child_writes_nothing_and_keeps_no_lock(bench: Bench) -> None:
    """P2: the child of a fork is told so by every use of a session that its parent opened, and holds no lock of it."""
    if not hasattr(os, "fork"):
        return
    session = sample("s")
    writer = await stored_as(bench.store(), session)
    extended = extend(session)
    asks, told = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(asks[1])
        _be_a_child(asks[0], told[1], [lambda: writer.add(extended[0]), _first(writer.flush), _first(writer.close)])
    try:
        os.close(told[1])
        said = await trio.to_thread.run_sync(os.read, told[0], 10_000)
        assert said == b"MisuseError MisuseError MisuseError", said.decode()
        await writer.append(extended)
        await writer.close()
        opened = await bench.store().open_write("s")
        assert list(opened.stored.events) == list(session.events), "the child wrote something"
        await opened.writer.close()
    finally:
        for descriptor in (*asks, told[0]):
            os.close(descriptor)
        await trio.to_thread.run_sync(os.waitpid, child, 0)


def _be_a_child(asks: int, told: int, uses: list[Callable[[], object]]) -> None:
    """Say what each use raises, then live on until the parent closes its end."""
    try:
        said: list[str] = []
        for use in uses:
            try:
                use()
                said.append("nothing")
            except MisuseError as error:
                said.append(type(error).__name__)
        os.write(told, " ".join(said).encode())
        os.close(told)
        os.read(asks, 1)
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(0)


def _first(call: Callable[[], object]) -> Callable[[], None]:
    """An async call as far as its first wait."""

    def begin() -> None:
        running = call()
        running.send(None)  # type: ignore[attr-defined]

    return begin


async def a_store_that_was_not_closed_works_in_another_loop(bench: Bench) -> None:
    """N7: a store and a writer of a run that has ended go on in the next one, or say what is the matter."""
    session = sample("s")
    store = bench.make(bench.directory)

    async def begin() -> None:
        writers.append(await stored_as(store, session))
        await writers[0].append(extend(session))

    async def go_on() -> None:
        with trio.fail_after(30):
            assert list((await store.open_read("s")).events) == list(session.events)
            await refused(SessionLocked, lambda: store.open_write("s"))
            await writers[0].append(extend(session))
            await writers[0].close()
            opened = await store.open_write("s")
            assert list(opened.stored.events) == list(session.events)
            await opened.writer.close()
            await store.close()

    writers: list[SessionWriter] = []
    await trio.to_thread.run_sync(trio.run, begin)
    await trio.to_thread.run_sync(trio.run, go_on)


async def _reopened(bench: Bench, count: int) -> None:
    """What is in the place now holds so many events, and can be written; ``0``: nothing, and the id is free again."""
    if not count:
        await (await stored_as(bench.store(), sample("s"))).close()
        count = 12
    opened = await bench.store().open_write("s")
    session = Session(opened.stored.header, opened.stored.events)
    assert len(session) == count, f"{len(session)} events where {count} are due"
    await opened.writer.append(extend(session))
    await opened.writer.close()
    assert list((await bench.store().open_read("s")).events) == list(session.events)


SWEEP_CHECKS: tuple[Check, ...] = (
    a_deleted_session_is_told_at_once,
    a_renamed_session_is_told_at_once,
    an_old_copy_in_its_place_is_told_at_once,
    a_session_cut_short_is_told_at_once,
    permission_that_is_revoked_loses_nothing_acknowledged,
    a_lock_taken_away_lets_one_writer_through,
    a_forked_child_writes_nothing_and_keeps_no_lock,
    a_store_that_was_not_closed_works_in_another_loop,
)
"""Every check of this module. A disk that is full is what ``jam`` is, and has a check of its own."""

SWEEP_NEEDS: dict[Check, str] = {
    a_deleted_session_is_told_at_once: "delete",
    a_renamed_session_is_told_at_once: "rename",
    an_old_copy_in_its_place_is_told_at_once: "copy",
    a_session_cut_short_is_told_at_once: "cut",
    permission_that_is_revoked_loses_nothing_acknowledged: "revoke",
    a_lock_taken_away_lets_one_writer_through: "steal",
}
"""The means of ``Faults`` that they need."""
