"""Projections: one pure fold, the same live and over cold logs (S9)."""

from typing import Any

import pytest

from tests.hosts import create, hosted
from tests.stage import stage
from treadle import Event, MemoryStore, MisuseError, Session, SessionCorrupt
from treadle.errors import NoStore
from treadle.hooks import SESSION_EVENT
from treadle.session import InboxSpliced, Projection, TurnStart, new_header


def count_turns(count: int, entry: Event) -> int:
    return count + 1 if isinstance(entry.data, TurnStart) else count


@pytest.mark.rule("S9")
async def test_a_projection_is_the_same_live_and_cold() -> None:
    async with stage() as s:
        turns = s.host.sessions.register_projection("turns", 0, count_turns)
        seen: list[int] = []
        s.host.on(SESSION_EVENT, lambda told: seen.append(turns.of(told.session)))
        await s.ask("1")
        await s.ask("2")
        session = s.agent.session
        assert turns.of(session) == 2
        assert turns.over(session.events) == 2
        assert turns.over(list(session.events)[:5]) == 1
        assert s.host.sessions.project("turns", session) == s.host.sessions.project("turns", list(session.events)) == 2
        assert seen == sorted(seen)
        assert s.host.sessions.get(s.agent.id) is session
        assert s.host.sessions.list() == [session]


@pytest.mark.rule("S9", "I6")
async def test_the_inbox_is_a_projection_that_equals_the_live_lists_at_every_event() -> None:
    async with stage() as s:
        inbox = s.host.sessions.inbox
        same: list[bool] = []

        def check(told: Any) -> None:
            live = inbox.of(told.session).messages()
            same.append(live == inbox.over(told.session.events).messages())

        s.host.on(SESSION_EVENT, check)
        s.agent.inject("context")
        s.agent.inbox.append("next-turn", "later")
        s.agent.inbox.prepend("next-turn", "sooner")
        await s.ask("1")
        s.agent.inbox.clear()
        assert all(same)
        assert inbox.of(s.agent.session).messages()["next-turn"] == s.agent.inbox.next_turn


@pytest.mark.rule("S9")
async def test_a_log_is_folded_once_and_then_only_what_is_new() -> None:
    async with stage() as s:
        folded: list[int] = []

        def fold(state: None, entry: Event) -> None:
            folded.append(entry.seq)

        projection = s.host.sessions.register_projection("x", None, fold)
        await s.ask("1")
        projection.of(s.agent.session)
        projection.of(s.agent.session)
        assert folded == list(range(len(s.agent.session)))


@pytest.mark.rule("S9")
def test_a_mutable_initial_state_is_not_shared_between_sessions() -> None:
    def fold(state: list[int], entry: Event) -> list[int]:
        state.append(entry.seq)
        return state

    projection: Projection[list[int]] = Projection("seqs", [], fold)
    entry = Event("agent/inbox/spliced", 0, 0, InboxSpliced("next-turn", 0, 0, ()))
    assert projection.over([entry]) == [0]
    assert projection.over([entry]) == [0]


@pytest.mark.rule("S9", "I6")
async def test_errors_name_the_seq_and_keep_the_state_before() -> None:
    async with stage() as s:

        def fold(count: int, entry: Event) -> int:
            if entry.seq == 2:
                raise ValueError("no")
            return count + 1

        projection = s.host.sessions.register_projection("x", 0, fold)
        await s.ask("1")
        for _ in range(2):
            with pytest.raises(SessionCorrupt, match="event 2") as caught:
                projection.of(s.agent.session)
            assert caught.value.seq == 2
        bad = Event("agent/inbox/spliced", 0, 0, InboxSpliced("next-turn", 3, 1, ()))
        with pytest.raises(SessionCorrupt) as caught:
            s.host.sessions.project("inbox", [bad])
        assert caught.value.seq == 0


@pytest.mark.rule("S9")
async def test_names_are_unique_and_unknown_ones_are_told() -> None:
    async with hosted() as host:
        with pytest.raises(MisuseError, match="already"):
            host.sessions.register_projection("inbox", 0, count_turns)
        with pytest.raises(MisuseError, match="known: inbox"):
            host.sessions.project("nobody", [])
        with pytest.raises(MisuseError, match="fold"):
            host.sessions.register_projection("x", 0, None)  # type: ignore[arg-type]
        turns = host.sessions.register_projection("turns", 0, count_turns)
        host.sessions.unregister_projection(turns)
        host.sessions.register_projection("turns", 0, count_turns)
        assert repr(turns) == "<Projection turns>"


@pytest.mark.rule("S9", "P3")
async def test_a_stored_session_is_projected_without_an_agent() -> None:
    async with MemoryStore() as store, hosted(store=store) as host:
        host.sessions.register_projection("turns", 0, count_turns)
        handle = await create(host, "a")
        handle.agent.followup("1")
        await handle.agent.when_idle()
        await handle.dispose()
        assert await host.sessions.project_stored("turns", "a") == 1
        assert host.agents.list() == []
    async with hosted() as host:
        with pytest.raises(NoStore):
            await host.sessions.project_stored("inbox", "a")


@pytest.mark.rule("S9")
def test_a_fresh_session_projects_to_the_initial_state() -> None:
    projection = Projection("turns", 0, count_turns)
    assert projection.of(Session(new_header("a", "/"))) == 0
