"""Real processes: two on one session, and agents that are killed at random moments (P2, P4)."""

import json
import os
import random
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.invariants import check_invariants
from treadle import Event, Session, SessionLocked, StoreFailure
from treadle.session import SessionStore, ToolCallStarted, ToolResultAdded, encode_event, repair
from treadle_adapters.stores import open_store
from treadle_adapters.stores.sqlite import SqliteStore
from treadle_specs.kits.store_bench import extend, refused, sample, stored_as

from .child import store_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("machine", "adapters", "specs", "diagrams", ".")
KINDS = pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
EVERY = pytest.mark.parametrize("kind", ["jsonl", "jsonl.zst", "sqlite"])
KILLS = os.environ.get("TREADLE_KILLS")
"""How many agents of each kind are killed, instead of what a usual run has time for."""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a child; it is gone when the test is over."""
    children: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> "subprocess.Popen[str]":
        path = os.pathsep.join(str(ROOT / folder) for folder in FOLDERS)
        child = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("child.py")), *arguments],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        return child

    yield run
    for child in children:
        child.kill()
        child.communicate()


def ask(child: "subprocess.Popen[str]", line: str | None = None) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    if line is not None:
        child.stdin.write(line + "\n")
        child.stdin.flush()
    return child.stdout.readline().strip()


@pytest.mark.rule("P2", "N6")
@KINDS
async def test_a_second_process_is_refused_and_told_who_has_the_session(
    kind: str, tmp_path: Path, start: Start
) -> None:
    async with open_store(kind, tmp_path) as store:
        await (await stored_as(store, sample("s"))).close()
        child = start("hold", kind, str(tmp_path), "s")
        assert ask(child) == "ready"
        error = await refused(SessionLocked, lambda: store.open_write("s"))
        assert f"process {child.pid} " in str(error)
        assert ask(child, "append") == "appended"
        assert ask(child, "close") == "closed"
        opened = await store.open_write("s")
        assert len(opened.stored.events) == 18
        await opened.writer.close()


@pytest.mark.rule("P2", "N6")
@KINDS
async def test_a_killed_owners_lock_is_free_at_once(kind: str, tmp_path: Path, start: Start) -> None:
    async with open_store(kind, tmp_path) as store:
        session = sample("s")
        await (await stored_as(store, session)).close()
        child = start("hold", kind, str(tmp_path), "s")
        assert ask(child) == "ready"
        assert ask(child, "append") == "appended"
        child.kill()
        child.wait()
        opened = await store.open_write("s")
        assert list(opened.stored.events)[:12] == list(session.events)
        session = Session(opened.stored.header, opened.stored.events)
        assert len(session) == 18
        await opened.writer.append(extend(session))
        await opened.writer.close()
        assert list((await store.open_read("s")).events) == list(session.events)


@pytest.mark.rule("P2", "N6")
@KINDS
async def test_of_two_processes_that_think_they_own_a_session_the_older_one_stops(
    kind: str, tmp_path: Path, start: Start
) -> None:
    async with open_store(kind, tmp_path) as store:
        session = sample("s")
        await (await stored_as(store, session)).close()
        child = start("hold", kind, str(tmp_path), "s")
        assert ask(child) == "ready"
        next(iter(tmp_path.rglob("s.lock"))).unlink()  # noqa: ASYNC240  # a test's own directory
        opened = await store.open_write("s")
        await opened.writer.append(extend(session))
        for _ in range(2):
            assert ask(child, "append") == "SessionLocked"
        await opened.writer.append(extend(session))
        await opened.writer.close()
        assert list((await store.open_read("s")).events) == list(session.events)


# --- not closed, forked, full, stopped --------------------------------------------------------------------------------


@pytest.mark.rule("N7")
@EVERY
def test_a_process_ends_although_its_store_was_not_closed_and_served_two_runs(
    kind: str, tmp_path: Path, start: Start
) -> None:
    child = start("unclosed", kind, str(tmp_path))
    said, _ = child.communicate(timeout=60)
    assert (said, child.returncode) == ("the end\n", 0)


@pytest.mark.rule("P2")
@EVERY
async def test_a_forked_child_does_not_keep_the_lock_of_its_killed_parent(
    kind: str, tmp_path: Path, start: Start
) -> None:
    async with store_of(kind, tmp_path) as store:
        await (await stored_as(store, sample("s"))).close()
        parent = start("forked", kind, str(tmp_path), "s")
        orphan = int(ask(parent))
        try:
            await refused(SessionLocked, lambda: store.open_write("s"))
            parent.kill()
            parent.wait()
            os.kill(orphan, 0)
            await (await store.open_write("s")).writer.close()
        finally:
            os.kill(orphan, signal.SIGKILL)


@pytest.mark.rule("P1", "N8")
@EVERY
def test_a_file_that_may_not_grow_is_told_and_nothing_acknowledged_is_lost(
    kind: str, tmp_path: Path, start: Start
) -> None:
    child = start("full", kind, str(tmp_path))
    said, _ = child.communicate(timeout=120)
    assert child.returncode == 0
    assert int(said) > 12, "nothing was written before the end of the room"


@pytest.mark.rule("P1", "P2", "N8")
async def test_a_process_stopped_inside_a_transaction_is_named_and_blocks_nobody_for_ever(
    tmp_path: Path, start: Start
) -> None:
    sessions = [sample(f"s{number}") for number in range(4)]
    async with SqliteStore(tmp_path / "sessions.sqlite", busy=0.1) as store:
        writers = [await stored_as(store, session) for session in sessions]
        child = start("inside", str(store.path))
        assert ask(child) == "inside"
        child.send_signal(signal.SIGSTOP)
        for session, writer in zip(sessions, writers, strict=True):
            fresh = extend(session)
            error = await refused(StoreFailure, lambda writer=writer, fresh=fresh: writer.append(fresh))
            assert f"process {child.pid} did not end its transaction within 0.1 s" in str(error)
            assert len((await store.open_read(session.id)).events) == 12, "reading does not wait"
        child.send_signal(signal.SIGCONT)
        assert ask(child, "go on") == "outside"
        for session, writer in zip(sessions, writers, strict=True):
            await writer.close()
            assert list((await store.open_read(session.id)).events) == list(session.events)


# --- killed at random moments -----------------------------------------------------------------------------------------


@pytest.mark.rule("P1", "P2", "P4", "N5", "N6")
@pytest.mark.parametrize(("kind", "usual"), [("jsonl", 200), ("jsonl.zst", 40), ("sqlite", 40)])
async def test_agents_killed_at_random_moments_lose_nothing_acknowledged_and_rerun_no_tool(
    kind: str, usual: int, tmp_path: Path, start: Start
) -> None:
    chance, kills = random.Random(7), int(KILLS or usual)
    parent = start("fork")
    met: dict[str, int] = {}
    for number in range(kills):
        directory = tmp_path / f"run-{number // 20}"
        directory.mkdir(exist_ok=True)
        task = {"kind": kind, "directory": str(directory), "session": "s", "kill": moment(chance)}
        status = int(ask(parent, json.dumps(task)))
        assert os.WTERMSIG(status) == signal.SIGKILL, f"ended by itself: {status}"
        async with store_of(kind, directory) as store:
            for what in await check_killed(store, directory):
                met[what] = met.get(what, 0) + 1
    assert met.get("resumed", 0) > kills / 5, f"the kills came too early: {met}"
    assert met.get("inside a turn", 0) > kills / 50, f"the kills missed the turns: {met}"


def moment(chance: random.Random) -> tuple[str, int, float]:
    """Which sign of an agent to wait for, the how many-eth of it, and how much processor time to leave it then."""
    sign = chance.choice(["begun", "acknowledged", "acknowledged", "counted"])
    number = 1 if sign == "begun" else chance.randint(1, 4)
    return sign, number, 0 if sign == "counted" and chance.random() < 0.5 else chance.uniform(0, 0.03)


async def check_killed(store: SessionStore, directory: Path) -> set[str]:
    """Look at what a killed agent left, changing nothing; returns what was met."""
    listing = await store.list()
    assert listing.unreadable == ()
    if not listing.sessions:
        assert lines(directory / "acknowledged") == []
        return {"before the session was stored"}
    stored = await store.open_read("s")
    events = list(stored.events)
    met = {"torn tail"} if stored.torn else set[str]()
    acknowledged = lines(directory / "acknowledged")
    if acknowledged:
        met.add("resumed" if len(acknowledged) > 1 else "stored")
        count, total = map(int, acknowledged[-1].split())
        assert len(events) >= count, f"{count - len(events)} acknowledged events were lost"
        assert summed(events[:count]) == total
    closing = repair(events)
    if closing:
        met.add("inside a turn")
    session = Session(stored.header, events)
    for data in closing:
        session.commit(data)
    check_invariants(session)
    check_counted(session, lines(directory / "counted"))
    return met


def check_counted(session: Session, counted: list[str]) -> None:
    """Each call ran once at most; what ran is known to have been started, and no result says otherwise."""
    assert len(counted) == len(set(counted)), "a tool was run again"
    called = {data.call_id for entry in session.events if isinstance(data := entry.data, ToolCallStarted)}
    assert set(counted) <= called, "a call ran that is not on record"
    results = [data for entry in session.events if isinstance(data := entry.data, ToolResultAdded)]
    denied = {one.call_id for one in results if one.code == "TOOL_NOT_STARTED"}
    assert not denied & set(counted), "a call that ran is said never to have been started"
    assert {one.call_id for one in results if not one.is_error} <= set(counted)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def summed(events: list[Event]) -> int:
    total = 0
    for entry in events:
        total = zlib.crc32(encode_event(entry), total)
    return total
