"""When records become durable, and what a failing disk changes: nothing but what is told (P1, P7, P8, N8)."""

import errno

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.invariants import check_invariants
from tests.session.gated_store import GatedStore
from tests.session.sweeping import furnish
from treadle import (
    Admitted,
    Answer,
    Call,
    Completed,
    Event,
    Host,
    MisuseError,
    Rejected,
    SessionLocked,
    StoreFailure,
    tool,
)
from treadle import StoreFailure as Failed
from treadle.hooks import AGENT_ERROR, PROMPT_SUBMIT, SESSION_FLUSH, AgentError, BlockPrompt
from treadle.session import BatchWriter, PresetSelected, TurnEnd
from treadle_specs.kits.store_bench import refused, sample
from treadle_specs.rig.scripts import OPTIONS

FULL = OSError(errno.ENOSPC, "no room")


@pytest.mark.rule("P8")
async def test_status_and_the_next_turn_do_not_wait_for_the_flush_but_when_idle_does(autojump_clock: object) -> None:
    store = GatedStore()
    async with Host(store=store) as host:
        model = furnish(host)
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        store.shut()
        over = trio.Event()

        async def wait() -> None:
            await agent.when_idle()
            over.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            agent.followup("one")
            agent.followup("two")
            await wait_all_tasks_blocked()
            assert agent.status == "idle"
            assert len(model.requests) == 2
            assert not over.is_set()
            store.gate.set()
            await over.wait()
        assert list((await store.open_read("s")).events) == list(agent.session.events)


@pytest.mark.rule("P8", "O4")
async def test_dispose_waits_for_the_flush_and_loses_nothing(autojump_clock: object) -> None:
    store = GatedStore()
    async with Host(store=store) as host:
        furnish(host)
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        store.shut()
        handle.agent.followup("one")
        await wait_all_tasks_blocked()
        disposal = handle.dispose()
        await wait_all_tasks_blocked()
        with trio.move_on_after(1) as waited:
            await disposal
        assert waited.cancelled_caught
        store.gate.set()
        await disposal
        assert list((await store.open_read("s")).events) == list(handle.agent.session.events)


@pytest.mark.rule("P8", "D8")
async def test_a_fate_that_came_with_a_turn_end_is_told_once_that_end_is_durable(autojump_clock: object) -> None:
    store = GatedStore()
    async with Host(store=store) as host:
        furnish(host)
        host.on(PROMPT_SUBMIT, lambda submission, proceed: BlockPrompt("no"))
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        store.shut()
        receipt = agent.followup("blocked")
        fates: list[Admitted | Rejected] = []

        async def wait() -> None:
            fates.append(await receipt.outcome())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            assert agent.status == "idle"
            assert receipt.fate == Rejected("blocked")
            assert fates == []
            store.gate.set()
        assert fates == [Rejected("blocked")]


@pytest.mark.rule("P8", "N8", "L8")
async def test_a_failing_disk_is_an_agent_error_and_changes_no_turn_end(autojump_clock: object) -> None:
    store = GatedStore()
    errors: list[AgentError] = []
    async with Host(store=store) as host:
        furnish(host)
        host.on(AGENT_ERROR, errors.append)
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        store.failure = FULL
        for text in ("one", "two"):
            agent.followup(text)
            assert await agent.when_idle() == Completed()
        assert errors
        assert all(isinstance(error.error, StoreFailure) for error in errors)
        assert "no room" in str(errors[0].error)
        assert (await store.list()).sessions[0].events == 0
        store.failure = None
        agent.followup("three")
        await agent.when_idle()
        assert list((await store.open_read("s")).events) == list(agent.session.events)
        ends = [data.reason for entry in agent.session.events if isinstance(data := entry.data, TurnEnd)]
        assert ends == [Completed()] * 3
        check_invariants(agent.session)


@pytest.mark.rule("P1", "N8", "O4")
async def test_a_disk_that_fails_to_the_end_fails_the_disposal_and_lets_the_lock_go(autojump_clock: object) -> None:
    store = GatedStore()
    errors: list[AgentError] = []
    async with Host(store=store) as host:
        furnish(host)
        host.on(AGENT_ERROR, errors.append)
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        store.failure = FULL
        handle.agent.inject("never stored")
        with pytest.raises(BaseExceptionGroup) as caught:
            await handle.dispose(keep_inbox=True)
        assert caught.group_contains(Failed, match="1 events of session 's' could not be written")
        assert isinstance(errors[-1].error, StoreFailure)
        store.failure = None
        assert len((await host.agents.resume("s")).agent.session) == 0


@pytest.mark.rule("P2", "N8")
async def test_an_agent_whose_lock_is_lost_says_so_at_each_turn_and_never_writes_again(autojump_clock: object) -> None:
    store = GatedStore()
    errors: list[AgentError] = []
    async with Host(store=store) as host:
        furnish(host)
        host.on(AGENT_ERROR, errors.append)
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        store.shelf["s"].owner = "somebody else"
        for turn in (1, 2):
            agent.followup("x")
            assert await agent.when_idle() == Completed()
            assert len(errors) >= turn
        assert all(isinstance(error.error, SessionLocked) for error in errors)
        assert store.shelf["s"].records == []
        store.shelf["s"].owner = None
        agent.followup("x")
        await agent.when_idle()
        assert store.shelf["s"].records == [], "a writer that lost its lock wrote again"


@pytest.mark.rule("P1")
async def test_live_events_go_out_together_after_the_window(autojump_clock: object) -> None:
    store = GatedStore()
    async with Host(store=store) as host:
        furnish(host)
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        for number in range(50):
            agent.inject(f"note {number}")
        assert store.attempts == []
        await trio.sleep(1)
        assert store.attempts == [(50, False)]
        assert store.shelf["s"].records[49].count(b"note 49") == 1


@pytest.mark.rule("P4")
async def test_a_tool_runs_only_after_its_call_is_on_record(autojump_clock: object) -> None:
    store = GatedStore()
    seen: list[bool] = []

    @tool
    async def check() -> str:
        await trio.lowlevel.checkpoint()
        records = store.shelf["s"].records
        seen.append(b'"tool/call"' in records[-1])
        return "ok"

    async with Host(store=store) as host:
        model = furnish(host)
        host.tools.register(check)
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        for failure in (None, FULL):
            store.failure = failure
            model.push(Answer(calls=[Call("check")]), "done")
            agent.followup("check")
            assert await agent.when_idle() == Completed()
        assert seen == [True, False], "a failing disk stops no tool"
        store.failure = None


@pytest.mark.rule("P2", "N8")
async def test_no_body_begins_once_the_session_is_anothers(autojump_clock: object) -> None:
    store = GatedStore()
    began: list[str] = []
    errors: list[AgentError] = []

    @tool
    def act() -> str:
        began.append("act")
        return "acted"

    async with Host(store=store) as host:
        model = furnish(host)
        host.tools.register(act)
        host.on(AGENT_ERROR, errors.append)
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        model.push(Answer(calls=[Call("act")]), "done")
        store.shelf["s"].owner = "somebody else"
        agent.followup("act")
        assert await agent.when_idle() == Completed()
        assert began == [], "the call could not be handed over, and its body began"
        assert isinstance(errors[0].error, SessionLocked)
        [result] = [entry.data for entry in agent.session.events if entry.type == "tool/result"]
        assert result.is_error
        store.shelf["s"].owner = None


@pytest.mark.rule("S6", "O4")
async def test_what_a_plugin_appends_is_stored_and_refused_once_the_session_is_closed(autojump_clock: object) -> None:
    store = GatedStore()
    async with Host(store=store) as host:
        furnish(host)
        handle = await host.agents.create(session_id="s", agent_options=OPTIONS)
        handle.agent.session.append(PresetSelected("swift"))
        await handle.dispose()
        assert [entry.data for entry in (await store.open_read("s")).events] == [PresetSelected("swift")]
        writer = await store.create(handle.agent.session.header.__class__("t", 1, "/w"))
        await writer.close()
        await refused(MisuseError, lambda: writer.append([*handle.agent.session.events]))


@pytest.mark.rule("P8", "H2")
async def test_listeners_of_session_flush_and_the_store_do_not_hide_each_others_failures(
    autojump_clock: object,
) -> None:
    store = GatedStore()
    errors: list[AgentError] = []

    async def fail(_: object) -> None:
        await trio.lowlevel.checkpoint()
        raise LookupError("listener")

    async with Host(store=store) as host:
        furnish(host)
        host.on(AGENT_ERROR, errors.append)
        host.on(SESSION_FLUSH, fail)
        agent = (await host.agents.create(session_id="s", agent_options=OPTIONS)).agent
        agent.followup("x")
        assert await agent.when_idle() == Completed()
        assert [type(error.error) for error in errors] == [LookupError]
        assert list((await store.open_read("s")).events) == list(agent.session.events)


@pytest.mark.rule("P1")
async def test_a_hundred_waiters_cost_two_writes(autojump_clock: object) -> None:
    from treadle_specs.kits.store_bench import extend

    store, session = GatedStore(), sample("s", 0)
    writer = await store.create(session.header)
    assert isinstance(writer, BatchWriter)

    async def one() -> None:
        for entry in extend(session):
            writer.add(entry)
        await writer.flush()

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(one)
    assert sum(store.written) == 600
    assert len(store.written) <= 2
    await writer.close()


@pytest.mark.rule("P1", "N6", "N8")
async def test_an_event_that_cannot_be_stored_is_told_and_nothing_is_written_behind_it() -> None:
    store, session, told = GatedStore(), sample("s"), list[Exception]()
    writer = await store.create(session.header, list(session.events))
    async with trio.open_nursery() as nursery:
        writer.start(nursery.start_soon, told.append)
        writer.add(Event("check/strange", 12, 1, {"lone": "\ud800"}))
        assert "event 12" in str(told[0])
        writer.add(Event("check/strange", 13, 1, {}))
        for barrier in (writer.flush, writer.written, writer.close):
            await refused(StoreFailure, barrier)
    assert len((await store.open_read("s")).events) == 12
    await (await store.open_write("s")).writer.close()
