"""A resume from a checkpoint gives what one without gives, whatever became of the checkpoint or of the log (S11)."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import Event, SessionHeader, TreadleError
from treadle.checks import LogIntake, Resumed
from treadle.session import ArchivingStore, fork
from treadle.session.fork import fork_points
from treadle_adapters.stores.checkpoints import read_checkpoint
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_adapters.stores.sqlite import SqliteStore
from treadle_specs.rig.scripts import SCRIPTS, record

pytestmark = pytest.mark.rule("S11", "P3", "P4")
KINDS = ("jsonl", "packed", "sqlite")


@cache
def log_of(name: str) -> tuple[SessionHeader, list[Event]]:
    header, events = record(SCRIPTS[name])
    return header, list(events)


LONGEST = max(SCRIPTS, key=lambda name: len(log_of(name)[1]))


def store_of(kind: str, directory: Path) -> Any:
    if kind == "sqlite":
        return SqliteStore(directory / "all.sqlite", fsync="never")
    return JsonlStore(directory, fsync="never", compress=kind == "packed")


def beside(kind: str, directory: Path, name: str) -> Path:
    folder = directory / "all.sqlite-checkpoints" if kind == "sqlite" else directory
    return folder / f"{name}.checkpoint"


def facts(resumed: Resumed) -> dict[str, Any]:
    """All that an agent goes on with, and all that the checker remembers, but for the events themselves."""
    session, end, log = resumed.session, resumed.end, resumed.monitor.log
    pending = [[entry.message for entry in end.inbox.list_of(target)] for target in ("next-turn", "next-step")]
    return {
        "count": len(session),
        "history": list(session.history()),
        "nodes": [(node.seq, node.message, node.system) for node in session.surface.nodes],
        "system": list(session.surface.system),
        "ids": (session.recorded, set(session.call_ids), session.preset),
        "end": (pending, end.inbox.ids, end.turn, end.closing, end.header, end.context),
        "checked": (log.seq, log.inherited, log.turn.number, log.turn.open, log.lists, log.pending, log.not_resumed),
        "used": (log.recorded, log.call_ids, log.attempt_ids, log.header, log.context, log.nodes, log.history),
    }


def in_order(value: Any) -> Any:
    """The same with its sets in an order of their own: written out, equal values are equal then."""
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, dict):
        return {key: in_order(one) for key, one in sorted(value.items(), key=str)}
    return [in_order(one) for one in value] if isinstance(value, (list, tuple)) else value


def outcome(intake: LogIntake) -> Any:
    try:
        return facts(intake.finish())
    except TreadleError as error:
        return type(error), str(error)


def taken(header: SessionHeader, events: list[Event]) -> Any:
    """What a log gives that is read from its beginning."""
    intake = LogIntake()
    intake.begin(header)
    intake.take(events)
    return outcome(intake)


async def opened(store: ArchivingStore, name: str) -> tuple[Any, int]:
    """What opening a stored session gives, and how much of it a checkpoint stood for."""
    intake = LogIntake()
    try:
        taken = await store.open_intake(name, intake)
    except TreadleError as error:
        return (type(error), str(error)), 0
    assert taken.archive is not None
    covered = taken.archive.covered
    result = outcome(intake)
    await taken.writer.close()
    return (result, taken.torn), covered


async def kept(store: Any, header: SessionHeader, events: list[Event], count: int) -> None:
    """Store a log, with a checkpoint of its first ``count`` events."""
    await (await store.create(header, events[:count])).close()
    intake = LogIntake()
    taken = await store.open_intake(header.id, intake)
    intake.finish()
    assert await taken.archive.keep(intake)
    await taken.writer.append(events[count:])
    await taken.writer.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_checkpoint_at_any_rest_of_a_log_gives_what_the_log_gives(name: str, kind: str, tmp_path: Path) -> None:
    header, events = log_of(name)
    due = taken(header, events)
    for count in fork_points(events)[1:]:
        folder = tmp_path / str(count)
        folder.mkdir()
        async with store_of(kind, folder) as store:
            await kept(store, header, events, count)
            assert await opened(store, header.id) == ((due, None), count)
            beside(kind, folder, header.id).unlink()
            assert await opened(store, header.id) == ((due, None), 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_live_session_gets_its_checkpoints_from_what_is_stored(kind: str, tmp_path: Path) -> None:
    header, events = log_of(LONGEST)
    points = fork_points(events)[1:]
    async with store_of(kind, tmp_path) as store:
        writer = await store.create(header)
        archive = writer.archive
        at = 0
        for count in points:
            await writer.append(events[at:count])
            at = count
            assert await archive.advance(LogIntake(), count)
            assert archive.covered == count
        await writer.append(events[at:])
        inside = next(n for n in range(len(events)) if n not in fork_points(events))
        assert not await archive.advance(LogIntake(), inside), "a checkpoint inside a turn"
        assert archive.read(0, len(events)) == events
        assert archive.read(3, 7) == events[3:7]
        archive.stop()
        await writer.close()
        assert await opened(store, header.id) == ((taken(header, events), None), points[len(points) - 1])


# --- what becomes of the checkpoint -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_torn_or_edited_checkpoint_is_not_used(kind: str, tmp_path: Path) -> None:
    header, events = log_of(LONGEST)
    points = fork_points(events)
    async with store_of(kind, tmp_path) as store:
        await kept(store, header, events, points[len(points) // 2])
        path = beside(kind, tmp_path, header.id)
        due, whole = ((taken(header, events), None), 0), path.read_bytes()
        for at in range(0, len(whole), max(1, len(whole) // 60)):
            path.write_bytes(whole[:at])
            assert await opened(store, header.id) == due, f"torn at {at}"
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert await opened(store, header.id) == due, f"edited at {at}"
        path.write_bytes(whole)
        assert (await opened(store, header.id))[1]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_checkpoint_of_another_log_is_not_used(kind: str, tmp_path: Path) -> None:
    header, events = log_of(LONGEST)
    points = fork_points(events)
    count = points[len(points) // 2]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with store_of(kind, tmp_path / "a") as store, store_of(kind, tmp_path / "b") as other:
        await kept(store, header, events, count)
        child, inherited = fork(header, events, "child", count)
        await (await store.create(child, inherited)).close()
        path = beside(kind, tmp_path / "a", header.id)
        beside(kind, tmp_path / "a", "child").write_bytes(path.read_bytes())
        assert await opened(store, "child") == ((taken(child, inherited), None), 0)

        late = [
            Event(e.type, e.seq, e.time + 1, e.data, e.surface_op, e.source_event_seqs, e.ignorable) for e in events
        ]
        await (await other.create(header, late)).close()
        beside(kind, tmp_path / "b", header.id).parent.mkdir(exist_ok=True)
        beside(kind, tmp_path / "b", header.id).write_bytes(path.read_bytes())
        assert (await opened(other, header.id))[1] == 0, "the log of the same name holds other times"


def test_a_checkpoint_of_other_code_or_of_types_known_otherwise_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    header, events = log_of(LONGEST)
    intake = LogIntake()
    intake.begin(header)
    intake.take(events)
    state = intake.state()
    assert state is not None
    assert LogIntake().restore(header, state)
    assert not LogIntake().restore(header, state[1:])
    assert not LogIntake().restore(header, [*state[:-1], b'{"type":"nodes","nodes":[[1,2]]}'])
    monkeypatch.setattr("treadle.checks.checkpoint.code", lambda: "another")
    assert not LogIntake().restore(header, state)
    monkeypatch.undo()
    monkeypatch.setattr("treadle.checks.checkpoint.type_named", lambda _: None)
    assert not LogIntake().restore(header, state)


# --- what becomes of the log ------------------------------------------------------------------------------------------


def edited(data: bytes) -> bytes:
    at = data.index(b'"time":') + 9
    return data[:at] + (b"1" if data[at : at + 1] != b"1" else b"2") + data[at + 1 :]


def cut_behind(data: bytes) -> bytes:
    return b"".join(data.splitlines(keepends=True)[:3])


def torn(data: bytes) -> bytes:
    return data + b'{"type":"turn/st'


def unended(data: bytes) -> bytes:
    return data.removesuffix(b"\n")


def damaged(data: bytes) -> bytes:
    return data + b"no event\n" + data.splitlines(keepends=True)[1]


def blank(data: bytes) -> bytes:
    return data + b"  \n\n"


def misplaced(data: bytes) -> bytes:
    return data + data.splitlines(keepends=True)[1]


@pytest.mark.parametrize("harm", [edited, cut_behind, torn, unended, damaged, blank, misplaced])
async def test_a_log_that_was_changed_gives_what_it_gives_without_a_checkpoint(
    harm: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    header, events = log_of(LONGEST)
    points = fork_points(events)
    for count in (points[len(points) // 2], points[len(points) - 1]):
        results = []
        for folder in (tmp_path / f"{count}-with", tmp_path / f"{count}-without"):
            folder.mkdir()
            async with store_of("jsonl", folder) as store:
                await kept(store, header, events, count)
                path, place = folder / f"{header.id}.jsonl", beside("jsonl", folder, header.id)
                path.write_bytes(harm(path.read_bytes()))
                if folder.name.endswith("without"):
                    place.unlink()
                result, covered = await opened(store, header.id)
                used = folder.name.endswith("-with") and harm in (torn, unended, blank)
                if harm is unended and count == len(events):
                    used = False  # the checkpoint stood for that line's end as well
                assert covered == (count if used else 0)
                results.append((str(in_order(result)).replace(str(folder), "…"), path.read_bytes()))
        assert results[0] == results[1]


async def test_a_row_that_was_changed_gives_what_it_gives_without_a_checkpoint(tmp_path: Path) -> None:
    header, events = log_of(LONGEST)
    count = fork_points(events)[2]
    async with store_of("sqlite", tmp_path) as store:
        await kept(store, header, events, count)
        db: Any = apsw.Connection(str(tmp_path / "all.sqlite"))
        db.execute("UPDATE events SET record = replace(record, '\"time\":1', '\"time\":2') WHERE seq = 1")
        db.close()
        assert (await opened(store, header.id))[1] == 0
        assert (await opened(store, header.id))[0] == (taken(header, events), None), "a time changes nothing derived"


async def test_a_tail_that_breaks_a_rule_is_refused_as_without_a_checkpoint(tmp_path: Path) -> None:
    header, events = log_of(LONGEST)
    points = fork_points(events)
    count = points[len(points) // 2]
    begun = next(entry.data for entry in events if entry.type == "turn/start")
    bad = [Event("turn/start", count + n, 0, begun) for n in range(2)]
    results = []
    for name in ("with", "without"):
        folder = tmp_path / name
        folder.mkdir()
        async with store_of("jsonl", folder) as store:
            await kept(store, header, [*events[:count], *bad], count)
            if name == "without":
                beside("jsonl", folder, header.id).unlink()
            results.append(await opened(store, header.id))
    assert results[0] == results[1]
    assert results[0][0][0][1].startswith(f"session {header.id!r}: event ")


async def test_a_deleted_session_takes_its_checkpoint_along(tmp_path: Path) -> None:
    header, events = log_of(LONGEST)
    for kind in ("jsonl", "sqlite"):
        (tmp_path / kind).mkdir()
        async with store_of(kind, tmp_path / kind) as store:
            await kept(store, header, events, fork_points(events)[2])
            assert read_checkpoint(beside(kind, tmp_path / kind, header.id), header.id) is not None
            await store.delete(header.id)
            assert not beside(kind, tmp_path / kind, header.id).exists()


# --- any log, any prefix ----------------------------------------------------------------------------------------------


@given(st.data())
def test_whatever_the_log_and_wherever_the_checkpoint_the_outcome_is_the_same(data: st.DataObject) -> None:
    header, events = log_of(data.draw(st.sampled_from(sorted(SCRIPTS))))
    events = events[: data.draw(st.integers(0, len(events)))]
    count = data.draw(st.sampled_from(fork_points(events)))
    tail = list(events[count:])
    if tail and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(tail) - 1))
        tail[at : at + data.draw(st.integers(0, 2))] = [data.draw(st.sampled_from(events))]
    tail = [
        Event(e.type, count + n, e.time, e.data, e.surface_op, e.source_event_seqs, e.ignorable)
        for n, e in enumerate(tail)
    ]
    due = taken(header, [*events[:count], *tail])
    first, second = LogIntake(), LogIntake()
    first.begin(header)
    first.take(events[:count])
    state = first.state()
    assert state is not None
    assert not [line for line in state if b"\n" in line]
    assert second.restore(header, state)
    assert second.count == count
    for at in range(0, len(tail), 3):
        second.take(tail[at : at + 3])
    if second.sound:
        assert outcome(second) == due
    else:
        assert isinstance(due, tuple), "what is unsound behind a checkpoint is so without one"
