"""Resuming from a store: what survives, what is repaired, what is never done twice."""

import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.invariants import check_invariants
from tests.session.sweeping import furnish
from treadle import (
    Agent,
    AgentOptions,
    Answer,
    AssistantMessage,
    Call,
    DuplicateSession,
    Event,
    Host,
    Interrupted,
    MemoryStore,
    Message,
    ScriptedModel,
    Session,
    SessionCorrupt,
    SessionHeader,
    SessionLocked,
    ToolResultMessage,
    UserMessage,
)
from treadle.errors import NoStore
from treadle.hooks import AGENT_CREATED, AGENT_STATUS, INBOX_INSERTED, SESSION_EVENT, Scope, SessionEventAdded
from treadle.loop.request_state import restore_requests
from treadle.models import BlockStart, Chunk, ReasoningDelta
from treadle.session import (
    InboxSpliced,
    RequestHeader,
    StepStart,
    ToolResultAdded,
    TurnEnd,
    TurnStart,
    decode_event,
    encode_event,
    event,
    new_header,
    repair,
)
from treadle.session.repair import end_of_log
from treadle_specs.kits.store_bench import refused, sample
from treadle_specs.rig.scripts import OPTIONS


@event("test/parting")
class Parting(msgspec.Struct, frozen=True, rename="camel"):
    """Something that a clean-up records."""

    words: str


async def cut_short(store: MemoryStore, script: Sequence[Any], name: str = "s") -> list[Event]:
    """Have an agent work until nothing moves, and leave the session as a killed process would."""
    async with Host() as host:
        host.models.register("scripted", ScriptedModel(script))
        host_tools(host)
        handle = await host.agents.create(session_id=name, agent_options=OPTIONS)
        handle.agent.followup("do it")
        await wait_all_tasks_blocked()
        events = list(handle.agent.session.events)
        await (await store.create(handle.agent.session.header, events)).close()
    return events


def host_tools(host: Host) -> None:
    from treadle_specs.rig.script_tools import TOOLS

    for each in TOOLS:
        host.tools.register(each)


def said(messages: Sequence[Message]) -> list[str]:
    return [
        f"{'tool' if isinstance(one, ToolResultMessage) else one.role}: "
        f"{one.result.code or 'ok' if isinstance(one, ToolResultMessage) else one.text}"
        for one in messages
    ]


async def silent(_: object) -> AsyncIterator[Chunk]:
    await trio.sleep_forever()
    yield BlockStart(0, "text")


async def only_reasoning(_: object) -> AsyncIterator[Chunk]:
    yield BlockStart(0, "reasoning")
    yield ReasoningDelta(0, "hm")
    await trio.sleep_forever()


@pytest.mark.rule("P4", "N1")
async def test_a_kill_in_the_second_of_three_tools_gives_one_real_and_two_synthetic_results(
    autojump_clock: object,
) -> None:
    store = MemoryStore()
    calls = [Call("look", id="a"), Call("sleep_for_ever", id="b"), Call("look", id="c")]
    recorded = await cut_short(store, [Answer(calls=calls)])
    async with Host(store=store) as host:
        model = furnish(host)
        handle = await host.agents.resume("s")
        added = list(handle.agent.session.events)[len(recorded) :]
        assert [entry.type for entry in added] == ["tool/result", "tool/result", "step/end", "turn/end"]
        results = [data for entry in added if isinstance(data := entry.data, ToolResultAdded)]
        assert [(one.call_id, one.is_error, one.code) for one in results] == [
            ("b", True, "TOOL_OUTCOME_UNKNOWN"),
            ("c", True, "TOOL_NOT_STARTED"),
        ]
        assert added[-1].data == TurnEnd(1, Interrupted())
        await handle.dispose(keep_inbox=True)
        again = await host.agents.resume("s", agent_options=OPTIONS)
        assert len(again.agent.session) == len(recorded) + 4
        assert (await store.list()).sessions[0].events == len(recorded) + 4
        again.agent.followup("and?")
        await again.agent.when_idle()
        assert said(model.requests[0].messages) == [
            "user: do it",
            "assistant: ",
            "tool: ok",
            "tool: TOOL_OUTCOME_UNKNOWN",
            "tool: TOOL_NOT_STARTED",
            "user: and?",
        ]
        check_invariants(again.agent.session, model.requests)


@pytest.mark.rule("P4", "S4")
@pytest.mark.parametrize("stream", [silent, only_reasoning])
async def test_a_kill_before_anything_visible_leaves_no_empty_answer_in_the_history(
    stream: Any, autojump_clock: object
) -> None:
    store = MemoryStore()
    await cut_short(store, [stream])
    async with Host(store=store) as host:
        model = furnish(host)
        handle = await host.agents.resume("s", agent_options=OPTIONS)
        assert said(list(handle.agent.session.history())) == ["user: do it"]
        handle.agent.followup("again")
        await handle.agent.when_idle()
        assert said(model.requests[0].messages) == ["user: do it", "user: again"]
        answers = [one for one in handle.agent.session.history() if isinstance(one, AssistantMessage)]
        assert [one.text for one in answers] == ["Going on."]


@pytest.mark.rule("S5", "P4", "N5")
async def test_opening_five_times_stores_and_tells_nothing_again(autojump_clock: object) -> None:
    store = MemoryStore()
    heard: list[SessionEventAdded] = []
    async with Host(store=store) as host:
        furnish(host)
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        handle.agent.followup("once")
        await handle.agent.when_idle()
        await handle.dispose()
        before = await store.revision("s")
        history = list(handle.agent.session.history())
        host.on(SESSION_EVENT, heard.append)
        for _ in range(5):
            handle = await host.agents.resume("s", agent_options=OPTIONS)
            assert list(handle.agent.session.history()) == history
            await handle.dispose()
        assert heard == []
        assert await store.revision("s") == before
        await store.fork("s", "t")
        handle = await host.agents.resume("t", agent_options=OPTIONS)
        handle.agent.followup("twice")
        await handle.agent.when_idle()
        texts = [one.text for one in handle.agent.session.history() if isinstance(one, UserMessage)]
        assert texts == ["once", "twice"]
        assert [told.event.seq for told in heard] == list(range(len(handle.agent.session)))[-len(heard) :]


@pytest.mark.rule("I8", "I3", "L5")
async def test_pending_messages_are_restored_passive_and_start_nothing(autojump_clock: object) -> None:
    store = MemoryStore()
    told: list[object] = []
    async with Host(store=store) as host:
        furnish(host)
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        handle.agent.inbox.append("next-turn", "later")
        handle.agent.inject("by the way")
        await handle.dispose(keep_inbox=True)
        host.on(AGENT_STATUS, told.append)
        host.on(INBOX_INSERTED, told.append)
        agent = (await host.agents.resume("s", agent_options=OPTIONS)).agent
        await wait_all_tasks_blocked()
        assert told == []
        assert [one.text for one in agent.inbox.next_turn] == ["later"]
        assert [one.text for one in agent.inbox.next_step] == ["by the way"]
        agent.followup("now")
        await agent.when_idle()
        turns = [entry for entry in agent.session.events if isinstance(entry.data, TurnStart)]
        assert len(turns) == 2, "what was pending is claimed once the agent is woken"
        assert list(agent.inbox.next_turn) == []


@pytest.mark.rule("L4", "Q2", "Q11")
async def test_turns_go_on_counting_and_the_first_request_says_resume(autojump_clock: object) -> None:
    store = MemoryStore()
    async with Host(store=store) as host:
        model = furnish(host)
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        handle.agent.followup("one")
        await handle.agent.when_idle()
        await handle.dispose()
        for options in (None, AgentOptions(max_tokens=77)):
            handle = await host.agents.resume("s", agent_options=options)
            handle.agent.followup("more")
            await handle.agent.when_idle()
            await handle.dispose()
        events = handle.agent.session.events
        assert [data.turn for entry in events if isinstance(data := entry.data, TurnStart)] == [1, 2, 3]
        headers = [data for entry in events if isinstance(data := entry.data, RequestHeader)]
        assert [one.reason for one in headers] == ["initial", "resume", "resume"]
        assert [one.config.max_tokens for one in headers] == [None, None, 77]
        assert [request.config.provider for request in model.requests] == ["scripted"] * 3


@pytest.mark.rule("O13")
async def test_header_and_seed_are_durable_before_anyone_is_told(autojump_clock: object) -> None:
    store = MemoryStore()
    seen: list[int | None] = []

    async def look(_: object) -> None:
        seen.append((await store.list()).sessions[0].events)

    async with Host() as other:
        other.models.register("scripted", ScriptedModel(["done"]))
        first = await other.agents.create(agent_options=OPTIONS)
        await first.agent.ask("hello")
        seed = list(first.agent.session.events)
    async with Host(store=store) as host:
        host.on(AGENT_CREATED, look)
        count = len(seed)
        await host.agents.create(session_id="s", seed=seed, inherited_event_count=count, seeded=True)
        assert seen == [count + 1]  # the mark of what is inherited is the last
        assert (await store.open_read("s")).header.inherited == count


@pytest.mark.rule("O13", "O1", "O2")
@pytest.mark.parametrize("where", ["setup", "commit", "listener"])
async def test_a_creation_that_fails_leaves_no_session_behind(where: str, autojump_clock: object) -> None:
    store = MemoryStore()

    def fail(*_: object) -> None:
        raise LookupError(where)

    async def setup(_: object, agent: Agent) -> Any:
        await trio.lowlevel.checkpoint()
        agent.inject("typed already")
        if where == "setup":
            fail()
        return fail if where == "commit" else None

    async with Host(store=store) as host:
        off = host.on(AGENT_CREATED, fail) if where == "listener" else lambda: None
        await refused(LookupError, lambda: host.agents.create(session_id="s", setup=setup))
        assert (await store.list()).sessions == ()
        off()
        handle = await host.agents.create(session_id="s")
        assert (await store.list()).sessions[0].header.id == handle.agent.id


@pytest.mark.rule("O13", "O1", "P2")
async def test_a_resume_that_fails_leaves_the_session_as_it_was_and_free(autojump_clock: object) -> None:
    store = MemoryStore()
    async with Host(store=store) as host:
        furnish(host)
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        handle.agent.inject("kept")
        await handle.dispose(keep_inbox=True)
        before = await store.revision("s")

        def fail(_: object) -> None:
            raise LookupError

        off = host.on(AGENT_CREATED, fail)
        await refused(LookupError, lambda: host.agents.resume("s"))
        assert await store.revision("s") == before
        off()
        agent = (await host.agents.resume("s")).agent
        assert [one.text for one in agent.inbox.next_step] == ["kept"]


@pytest.mark.rule("O1", "O4", "P4")
async def test_what_the_clean_ups_of_a_resume_record_that_was_given_up_is_stored_and_the_next_one_adds_nothing(
    autojump_clock: object,
) -> None:
    store = MemoryStore()
    async with Host(store=store) as host:
        furnish(host)
        await (await host.agents.create(session_id="s", agent_options=OPTIONS)).dispose()
        stored = len((await store.inspect("s")).events)

        async def setup(scope: Scope, agent: Agent) -> None:
            scope.defer(lambda: agent.session.append(Parting("see you")))
            given_up.cancel()

        with trio.CancelScope() as given_up:
            await host.agents.resume("s", setup=setup)
        assert given_up.cancelled_caught
        events = (await store.inspect("s")).events
        assert [entry.data for entry in events[stored:]] == [Parting("see you")]
        resumed = await host.agents.resume("s")
        assert list(resumed.agent.session.events) == list(events)


@pytest.mark.rule("O13", "O2", "P2")
async def test_resume_says_what_is_in_its_way(autojump_clock: object) -> None:
    async with Host() as host:
        await refused(NoStore, lambda: host.agents.resume("s"))
    store = MemoryStore()
    async with Host(store=store) as host, Host(store=store) as other:
        await host.agents.create(session_id="s")
        await refused(DuplicateSession, lambda: host.agents.resume("s"))
        await refused(DuplicateSession, lambda: host.agents.create(session_id="s"))
        await refused(SessionLocked, lambda: other.agents.resume("s"))
        await refused(DuplicateSession, lambda: other.agents.create(session_id="s"))


@pytest.mark.rule("O4", "P2")
async def test_reopening_works_right_after_disposal(autojump_clock: object) -> None:
    store = MemoryStore()
    async with Host(store=store) as host:
        furnish(host)
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        for _ in range(3):
            handle.agent.followup("x")
            await handle.dispose()
            handle = await host.agents.resume("s", agent_options=OPTIONS)
        check_invariants(handle.agent.session)


@pytest.mark.rule("I6")
async def test_a_log_whose_splices_do_not_fold_is_refused_with_its_seq(autojump_clock: object) -> None:
    store = MemoryStore()
    bad = Event("agent/inbox/spliced", 12, 1, InboxSpliced("next-turn", 3, 1))
    session = sample("s", 2)
    await (await store.create(session.header, [*session.events, bad])).close()
    async with Host(store=store) as host:
        error = await refused(SessionCorrupt, lambda: host.agents.resume("s"))
        assert isinstance(error, SessionCorrupt)
        assert error.seq == 12
        assert "12" in str(error)
    await (await store.open_write("s")).writer.close()


@pytest.mark.rule("P4", "T0")
def test_what_a_hook_took_out_does_not_come_back_and_what_it_added_is_kept() -> None:
    session = Session(new_header("s", "/work", 1))
    kept, dropped, added, unseen = [UserMessage(name, ()) for name in ("kept", "dropped", "added", "unseen")]
    for data in (
        InboxSpliced("next-turn", 0, 0, (kept,)),
        InboxSpliced("next-step", 0, 0, (dropped, unseen)),
        TurnStart(1),
        InboxSpliced("next-step", 0, 2),
        InboxSpliced("next-turn", 0, 1),
        StepStart(1, 1, ("kept", "added"), (added,)),
    ):
        session.commit(data)
    closing = repair(session.events)
    assert [data.message.id for data in closing if hasattr(data, "message")] == ["kept", "added"]
    assert [type(data).__name__ for data in closing] == ["UserMessageAdded", "UserMessageAdded", "StepEnd", "TurnEnd"]
    for data in closing:
        session.commit(data)
    assert repair(session.events) == []


@pytest.mark.rule("P4", "I9")
def test_a_steered_message_that_a_crash_cut_in_half_is_not_lost() -> None:
    session = Session(new_header("s", "/work", 1))
    moved = UserMessage("moved", ())
    for data in (InboxSpliced("next-turn", 0, 0, (moved,)), TurnStart(1), InboxSpliced("next-turn", 0, 1)):
        session.commit(data)
    assert [data.message.id for data in repair(session.events) if hasattr(data, "message")] == ["moved"]
    session.commit(InboxSpliced("next-step", 0, 0, (moved,)))
    assert [type(data) for data in repair(session.events)] == [TurnEnd]


@pytest.mark.rule("S8")
def test_a_header_is_checked() -> None:
    from treadle.errors import InvalidData
    from treadle.session import encode_header, read_header

    good = SessionHeader("s", 1, "/work", parent_session="p", seeded=True, inherited=3, origin="subagent")
    assert read_header(encode_header(good)).header == good
    for bad in (
        SessionHeader("../s", 1, "/work"),
        SessionHeader("s", 1, "work"),
        SessionHeader("s", 1, "/", inherited=-1),
    ):
        with pytest.raises(InvalidData):
            read_header(encode_header(bad))


@pytest.mark.rule("S4", "P1")
def test_loading_twice_the_events_takes_twice_the_work() -> None:
    """Counted in calls, which no neighbour on the machine changes."""

    def work(turns: int) -> int:
        session = sample("s", turns)
        header, lines = session.header, [encode_event(entry) for entry in session.events]
        calls = 0

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        sys.setprofile(count)
        try:
            again = Session(header, map(decode_event, lines))
            restore_requests(end_of_log(again.events), None)
        finally:
            sys.setprofile(None)
        return calls

    assert work(400) <= 2.05 * work(200)
