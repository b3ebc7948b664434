"""The end of an agent: in order, once, whatever it was doing (O4, O17, L9, N7)."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.hosts import create, hosted
from tests.invariants import check_invariants
from tests.stage import Gate, reason, talk
from treadle import AgentDisposed, Answer, Call, Failure, Host, ScriptedModel, tool
from treadle.agent import Ending
from treadle.hooks import AGENT_DISPOSED, AGENT_ERROR, REQUEST_ERROR, SESSION_EVENT, AgentError, Retry
from treadle.session import InboxSpliced, TurnEnd


def ends(agent: Any) -> list[str]:
    return [reason(entry.data.reason) for entry in agent.session.events if isinstance(entry.data, TurnEnd)]


@pytest.mark.rule("O4", "N7", "L9")
@pytest.mark.parametrize("moment", ["stream", "backoff", "tool", "maintenance", "idle"])
async def test_dispose_ends_whatever_runs_and_refuses_what_comes_after(moment: str, autojump_clock: MockClock) -> None:
    gate = Gate()

    @tool
    async def slow() -> str:
        await gate.wait()
        return "x"

    async def backoff(payload: Any, proceed: Any) -> Any:
        await gate.wait()
        return Retry()

    entry: Any = {
        "stream": talk("half", gate, "rest"),
        "backoff": Failure("busy", "SERVER"),
        "tool": Answer(calls=[Call("slow")]),
    }.get(moment, "done")
    async with hosted(entry, retries=None) as host:
        host.tools.register(slow)
        host.on(REQUEST_ERROR, backoff)
        handle = await create(host, "a")
        agent = handle.agent

        async def upkeep(signal: Any) -> None:
            await gate.wait()

        if moment == "maintenance":
            agent.run_maintenance(upkeep)
        elif moment != "idle":
            agent.followup("go")
        if moment != "idle":
            await gate.reached()
        ending = handle.dispose()
        with pytest.raises(AgentDisposed):
            agent.followup("late")
        with trio.fail_after(1):
            await ending
        assert handle.dispose() is ending
        await handle.dispose()
        size = len(agent.session)
        gate.open()
        await wait_all_tasks_blocked()
        assert len(agent.session) == size
        assert ends(agent) == ([] if moment in ("maintenance", "idle") else ["aborted disposed"])
        check_invariants(agent.session)
        assert host.agents.get("a") is None
        await create(host, "a")


@pytest.mark.rule("O4", "O17", "O5")
async def test_scope_then_write_path_then_registry_then_session() -> None:
    async with hosted() as host:
        told: list[str] = []
        handle = await create(host, "a")
        agent = handle.agent
        agent.scope.defer(lambda: told.append(f"scope (live: {host.agents.get('a') is agent})"))
        agent.scope.on(AGENT_DISPOSED, lambda made: told.append("own listener"))

        def gone(made: object) -> None:
            told.append(f"registry (live: {host.agents.get('a') is agent}, driven: {agent.session.driven})")

        host.on(AGENT_DISPOSED, gone)
        await handle.dispose()
        assert told == ["scope (live: True)", "registry (live: False, driven: True)", "own listener"]
        assert not agent.session.driven


@pytest.mark.rule("O17", "H3")
async def test_a_scopes_own_disposed_listeners_hear_it_unless_they_were_ended_before() -> None:
    async with hosted() as host:
        told: list[str] = []
        handle = await create(host, "a")
        scope = handle.agent.scope
        undo = scope.on(AGENT_DISPOSED, lambda made: told.append("ended"))

        async def later(made: object) -> None:
            await trio.lowlevel.checkpoint()
            told.append("async")

        scope.on(AGENT_DISPOSED, later)
        scope.defer(undo)
        await handle.dispose()
        await wait_all_tasks_blocked()
        assert told == ["async"]


@pytest.mark.rule("O4", "H4")
async def test_no_event_comes_after_the_scope_is_gone() -> None:
    gate = Gate()

    @tool
    async def stubborn() -> str:
        try:
            await gate.wait()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.3)
        return "x"

    async with hosted(Answer(calls=[Call("stubborn")])) as host:
        host.tools.register(stubborn)
        handle = await create(host)
        told: list[str] = []
        handle.agent.scope.on(SESSION_EVENT, lambda one: told.append(one.event.type))
        handle.agent.scope.defer(lambda: told.append("scope"))
        handle.agent.followup("go")
        await gate.reached()
        await handle.dispose()
        assert told[-2:] == ["turn/end", "scope"]


@pytest.mark.rule("O4")
async def test_a_cancelled_waiter_only_stops_waiting(autojump_clock: MockClock) -> None:
    async with hosted() as host:
        gate = Gate()
        handle = await create(host)
        handle.agent.scope.defer(gate.wait)
        with trio.move_on_after(1) as scope:
            await handle.dispose()
        assert scope.cancelled_caught
        gate.open()
        await handle.dispose()
        assert host.agents.list() == []


@pytest.mark.rule("O4", "N8")
async def test_failing_clean_ups_all_run_and_everybody_who_waits_is_told() -> None:
    async with hosted() as host:
        ran: list[str] = []
        handle = await create(host)

        def fail() -> None:
            ran.append("failing")
            raise ValueError("no")

        handle.agent.scope.defer(lambda: ran.append("first"))
        handle.agent.scope.defer(fail)
        for _ in range(2):
            with pytest.raises(BaseExceptionGroup) as caught:
                await handle.dispose()
            assert [str(error) for error in caught.value.exceptions] == ["no"]
        assert ran == ["failing", "first"]
        assert host.agents.list() == []


@pytest.mark.rule("O4", "C1")
@pytest.mark.parametrize("keep", [False, True])
async def test_dispose_clears_the_inbox_unless_it_is_kept(keep: bool) -> None:
    async with hosted() as host:
        handle = await create(host)
        handle.agent.inject("pending")
        await handle.dispose(keep_inbox=keep)
        canceled = [
            entry
            for entry in handle.agent.session.events
            if isinstance(entry.data, InboxSpliced) and entry.data.outcome == "canceled"
        ]
        assert bool(canceled) is not keep


@pytest.mark.rule("O4", "N7")
async def test_leaving_the_host_ends_every_agent_and_keeps_what_is_pending(autojump_clock: MockClock) -> None:
    gate = Gate()
    async with hosted(talk("half", gate)) as host:
        agents = [(await create(host, f"a{number}")).agent for number in range(5)]
        agents[0].followup("go")
        await gate.reached()
        for agent in agents:
            agent.inject("kept")
    assert ends(agents[0]) == ["aborted disposed"]
    for agent in agents:
        assert [one.text for one in agent.inbox.next_step] == ["kept"]
        check_invariants(agent.session)


@pytest.mark.rule("O4")
async def test_cancelling_the_task_that_holds_the_host_winds_agents_down_in_order(autojump_clock: MockClock) -> None:
    gate = Gate()
    agents: list[Any] = []
    with trio.move_on_after(1):
        async with hosted(talk("half", gate)) as host:
            agents.append((await create(host)).agent)
            agents[0].followup("go")
            await trio.sleep_forever()
    assert ends(agents[0]) == ["aborted disposed"]
    check_invariants(agents[0].session)


@pytest.mark.rule("L6", "O4")
async def test_waiting_for_idle_returns_when_the_agent_is_disposed(autojump_clock: MockClock) -> None:
    gate = Gate()
    async with hosted(talk("half", gate)) as host:
        handle = await create(host)
        handle.agent.followup("go")
        await gate.reached()
        results: list[Any] = []

        async def wait() -> None:
            results.append(await handle.agent.when_idle())

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            await handle.dispose()
        assert [reason(one) for one in results] == ["aborted disposed"] * 3


@pytest.mark.rule("O4", "H4")
async def test_dispose_from_inside_listeners_and_tools_takes_effect_in_the_call() -> None:
    @tool
    async def suicide() -> str:
        endings.append(handle.dispose())
        await trio.sleep_forever()
        return "x"

    endings: list[Ending] = []
    async with hosted(Answer(calls=[Call("suicide")])) as host:
        host.tools.register(suicide)
        handle = await create(host)
        handle.agent.followup("go")
        await handle.agent.when_idle()
        await handle.dispose()
        assert handle.dispose() is endings[0]
        assert ends(handle.agent) == ["aborted disposed"]


@pytest.mark.rule("O4")
async def test_a_host_is_entered_once_and_refuses_work_afterwards() -> None:
    host = Host()
    async with host:
        await host.agents.create()
    with pytest.raises(Exception, match="entered once"):
        await host.__aenter__()
    with pytest.raises(Exception, match=r"O14|ended"):
        await host.agents.create()


@pytest.mark.rule("D8", "O4")
async def test_receipts_of_what_is_pending_settle_with_the_agent() -> None:
    async with hosted() as host:
        handle = await create(host)
        receipt = handle.agent.inject("pending")
        await handle.dispose(keep_inbox=True)
        assert (await receipt.outcome()) is receipt.fate


@pytest.mark.rule("L7", "N7")
async def test_idle_agents_own_no_task() -> None:
    async with hosted(model=ScriptedModel()) as host:
        before = trio.lowlevel.current_statistics().tasks_living
        for _ in range(50):
            await create(host)
        assert trio.lowlevel.current_statistics().tasks_living == before


@pytest.mark.rule("N8", "O4")
async def test_a_clean_up_that_fails_when_the_host_is_left_is_an_event() -> None:
    told: list[Any] = []

    def failed(made: AgentError) -> None:
        assert isinstance(made.error, BaseExceptionGroup)
        told.append((made.agent.id, made.error.exceptions[0]))

    def fail() -> None:
        raise ValueError("no")

    async with hosted() as host:
        host.on(AGENT_ERROR, failed)
        handle = await create(host, "a")
        handle.agent.scope.defer(fail)
    assert [(name, str(error)) for name, error in told] == [("a", "no")]
