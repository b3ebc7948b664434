"""A stored session holds its newest events; the older ones are read back where somebody asks (S11)."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from treadle import (
    AgentOptions,
    Answer,
    Call,
    Completed,
    Event,
    Host,
    MemoryStore,
    ScriptedModel,
    SessionCorrupt,
    SessionNotFound,
    StoreFailure,
    tool,
)
from treadle.checks import LogIntake
from treadle.loop import durability, keeper
from treadle.session import Projection, Session, TurnEnd, TurnStart, new_header
from treadle.session.repair import at_rest
from treadle_adapters.stores.jsonl import JsonlStore
from treadle_adapters.stores.sqlite import SqliteStore

pytestmark = pytest.mark.rule("S11")
OPTIONS = AgentOptions(provider="p", model="m")
KINDS = ("jsonl", "packed", "sqlite")


def store_of(kind: str, directory: Path) -> Any:
    if kind == "sqlite":
        return SqliteStore(directory / "all.sqlite", fsync="never")
    return JsonlStore(directory, fsync="never", compress=kind == "packed")


async def look(path: str) -> str:
    """Look at something."""
    return f"what stands in {path}"


def furnished(host: Host, turns: int) -> None:
    host.tools.register(tool(look))
    answers: list[Any] = []
    for turn in range(turns):
        answers += [Answer(calls=[Call("look", {"path": f"file {turn}"})]), f"answer {turn}"]
    host.models.register("p", ScriptedModel(answers))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of some turns, and a checkpoint every few."""
    monkeypatch.setattr(keeper, "HELD", 40)
    for module in (keeper, durability):
        monkeypatch.setattr(module, "EVERY", 100)
    monkeypatch.setattr("treadle.checks.intake.HELD", 40)


class Stored:
    """Events that are read back, and how often."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.asked: list[tuple[int, int]] = []

    def read(self, first: int, stop: int) -> Sequence[Event]:
        self.asked.append((first, stop))
        return self.events[first:stop]


def windowed(base: int) -> tuple[Session, list[Event], Stored]:
    session = Session(new_header("s", "/work", 1))
    for number in range(10):
        session.commit(TurnStart(number))
    whole = list(session.events)
    session.past = past = Stored(whole[:base])
    session.forget(base)
    return session, whole, past


@pytest.mark.parametrize("base", [0, 1, 4, 10])
async def test_a_window_is_the_same_sequence_however_it_is_looked_at(base: int) -> None:
    session, whole, _ = windowed(base)
    events = session.events
    assert (len(session), len(events), len(session.held)) == (10, 10, 10 - base)
    assert list(events) == whole
    assert list(reversed(events)) == whole[::-1]
    for index in range(-10, 10):
        assert events[index] == whole[index]
    for index in (-11, 10):
        with pytest.raises(IndexError):
            events[index]
    bounds = [None, *range(-11, 12)]
    for start in bounds:
        for stop in bounds:
            assert events[start:stop] == whole[start:stop]
            assert events[start:stop:3] == whole[start:stop:3]
    for first in range(11):
        for stop in range(12):
            assert await session.read(first, stop) == whole[first:stop]
    assert session.commit(TurnStart(10)).seq == 10
    assert events[10].data == TurnStart(10)


def test_what_is_held_is_not_read_back_and_a_walk_reads_in_pieces() -> None:
    session, whole, past = windowed(4)
    assert (session.events[4:], session.events[9], session.events[-1]) == (whole[4:], whole[9], whole[9])
    assert past.asked == []
    walk = iter(session.events)
    assert [next(walk) for _ in range(6)] == whole[:6]
    session.past = Stored(whole[:8])
    session.forget(8)
    assert list(walk) == whole[6:], "a walk goes on while the window moves"
    assert past.asked == [(0, 4)]
    assert repr(session.events) == "<10 events, held from event 8 on>"


@pytest.mark.rule("S9", "S11")
@pytest.mark.parametrize("base", [0, 4, 10])
async def test_a_projection_folds_what_is_not_held_once_and_in_pieces(
    base: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.session.projections.PIECE", 3)
    session, whole, past = windowed(base)

    def grown(seqs: list[int], entry: Event) -> list[int]:
        return [*seqs, entry.seq]

    due = [entry.seq for entry in whole]
    at_once, followed = Projection[list[int]]("a", list, grown), Projection[list[int]]("b", list, grown)
    assert at_once.of(session) == due
    assert await followed.follow(session) == due
    read = len(past.asked)
    assert (at_once.of(session), await followed.follow(session)) == (due, due)
    assert len(past.asked) == read
    assert not [one for one in past.asked if one[1] - one[0] > 3]


def test_where_a_log_was_at_rest() -> None:
    session, _, _ = windowed(0)
    assert at_rest([]) == 0
    assert at_rest(session.events) == 9
    told: list[Any] = [TurnStart(1), TurnEnd(1, Completed()), {}, TurnStart(2), {}]
    log = [Event("turn", seq, 1, data) for seq, data in enumerate(told)]
    assert [at_rest(log[:count]) for count in range(6)] == [0, 0, 2, 3, 3, 3]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", KINDS)
async def test_an_agent_holds_a_window_and_goes_on_from_a_checkpoint(kind: str, tmp_path: Path) -> None:
    async with store_of(kind, tmp_path) as store:
        async with Host(store=store, checks=True) as host:
            furnished(host, 40)
            handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
            agent = handle.agent
            mirrored: list[Event] = []
            for turn in range(30):
                agent.followup(f"question {turn}")
                await agent.when_idle()
                mirrored += agent.session.events[len(mirrored) :]
                assert len(agent.session.held) <= 40 + 20
            assert len(mirrored) > 300
            assert list(agent.session.events) == mirrored
            assert await agent.session.read(0, 50) == mirrored[:50]
            history = list(agent.session.history())
        assert list((await store.open_read("s")).events) == mirrored
        async with Host(store=store, checks=True) as host:
            furnished(host, 40)
            handle = await host.agents.resume("s", agent_options=OPTIONS)
            session = handle.agent.session
            past: Any = session.past
            assert past.covered > 100
            assert 20 <= len(session.held) < 140, "the newest are held again"
            assert list(session.history()) == history
            assert list(session.events) == mirrored
            handle.agent.followup("and on")
            await handle.agent.when_idle()
            assert len(session) > len(mirrored)
        closed = session.events
        if kind != "sqlite":
            assert list(closed)[: len(mirrored)] == mirrored, "a closed session is read back as well"
    if kind == "sqlite":
        with pytest.raises(StoreFailure, match="closed"):
            closed[0]


@pytest.mark.usefixtures("small")
async def test_a_session_in_memory_holds_everything() -> None:
    async with MemoryStore() as store, Host(store=store) as host:
        furnished(host, 20)
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        for turn in range(20):
            handle.agent.followup(f"question {turn}")
            await handle.agent.when_idle()
        assert len(handle.agent.session.held) == len(handle.agent.session) > 200


@pytest.mark.usefixtures("small")
@pytest.mark.rule("S11", "N8")
async def test_a_checkpoint_that_cannot_be_written_costs_nothing_but_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "s.checkpoint").mkdir()
    (tmp_path / "s.checkpoint" / "in the way").touch()
    async with JsonlStore(tmp_path, fsync="never") as store:
        with caplog.at_level(logging.WARNING, "treadle"):
            async with Host(store=store) as host:
                furnished(host, 20)
                handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
                for turn in range(20):
                    handle.agent.followup(f"question {turn}")
                    await handle.agent.when_idle()
        assert "gets no checkpoint" in caplog.text
        async with Host(store=store) as host:
            furnished(host, 1)
            handle = await host.agents.resume("s", agent_options=OPTIONS)
            past: Any = handle.agent.session.past
            assert past.covered == 0


async def test_an_event_of_a_file_that_is_gone_or_was_changed_is_not_made_up(tmp_path: Path) -> None:
    session, whole, _ = windowed(0)
    async with JsonlStore(tmp_path) as store:
        writer = await store.create(session.header, whole)
        assert writer.archive is not None
        path = tmp_path / "s.jsonl"
        data = path.read_bytes()
        path.write_bytes(data.replace(b'"seq":3', b'"seq":4'))
        with pytest.raises(SessionCorrupt, match="event 4 stands where 3 was"):
            writer.archive.read(2, 5)
        path.write_bytes(data[:-40])
        with pytest.raises(SessionCorrupt, match="9"):
            writer.archive.read(9, 10)
        path.unlink()
        with pytest.raises(SessionNotFound):
            writer.archive.read(2, 5)
        path.write_bytes(data)
        await writer.close()


async def test_a_disposal_ends_a_checkpoint_that_is_being_made(tmp_path: Path) -> None:
    """It gives up between two pieces: the agent leaves no thread behind (N7)."""
    session, whole, _ = windowed(0)
    async with JsonlStore(tmp_path) as store:
        writer = await store.create(session.header, whole)
        archive: Any = writer.archive
        archive.stop()
        assert not await archive.advance(LogIntake(), 10)
        assert not (tmp_path / "s.checkpoint").exists()
        await writer.close()
