"""Faults of concurrency and lifecycle that users met elsewhere: each test is named after the fault."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.hosts import create, hosted
from tests.invariants import check_invariants
from tests.stage import Gate, Stage, stage, talk
from treadle import AgentBusy, AgentDisposed, Answer, Call, MemoryStore, tool
from treadle.hooks import AGENT_ERROR, ASSISTANT_STREAM, POINTS, SESSION_EVENT, Mode
from treadle.session import TurnEnd

NOTICES = [point for point in POINTS if point.mode is Mode.EMIT and point is not AGENT_ERROR]


@pytest.mark.rule("O4", "L9")
async def test_dispose_mid_stream_closes_the_providers_stream_at_once(autojump_clock: MockClock) -> None:
    gate, closed = Gate(), []

    async def stream() -> Any:
        try:
            await gate.wait()
            yield None
        finally:
            closed.append(trio.current_time())

    async with hosted(lambda request: stream()) as host:
        handle = await create(host)
        handle.agent.followup("go")
        await gate.reached()
        asked = trio.current_time()
        await handle.dispose()
        await handle.dispose()
        with pytest.raises(AgentDisposed):
            handle.agent.followup("late")
        assert closed
        assert closed[0] - asked < 1
        assert isinstance(handle.agent.session.events[-1].data, TurnEnd)


@pytest.mark.rule("O4", "P1")
async def test_dispose_returns_after_the_turns_end_is_stored_and_the_session_reopens_at_once(
    autojump_clock: MockClock,
) -> None:
    gate = Gate()

    @tool
    async def slow() -> str:
        try:
            await gate.wait()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.3)
        return "x"

    async with MemoryStore() as store, hosted(Answer(calls=[Call("slow")]), "again", store=store) as host:
        host.tools.register(slow)
        handle = await create(host, "a")
        handle.agent.followup("go")
        await gate.reached()
        await handle.dispose()
        stored = (await store.open_read("a")).events
        assert list(stored) == list(handle.agent.session.events)
        assert stored[-1].type == "turn/end"
        again = await host.agents.resume("a")
        again.agent.followup("more")
        await again.agent.when_idle()
        check_invariants(again.agent.session)


def misbehaving(s: Stage) -> dict[str, Callable[[Any], Any]]:
    """Listeners that do what they should not, or what one would rather not think about."""

    async def raises_later(_: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("later")

    async def never_returns(_: Any) -> None:
        await trio.sleep_forever()

    def raises(_: Any) -> None:
        raise ValueError("now")

    def leaks(_: Any) -> None:
        raise BaseException("odd")  # noqa: TRY002  # what nobody should raise

    once = [True]

    def only_once(act: Callable[[], object]) -> Callable[[Any], None]:
        def listener(_: Any) -> None:
            if once:
                once.clear()
                act()

        return listener

    return {
        "raises": raises,
        "raises later": raises_later,
        "never returns": never_returns,
        "leaks": leaks,
        "subscribes": only_once(lambda: s.host.on(SESSION_EVENT, lambda _: None)),
        "follows up": only_once(lambda: s.agent.followup("more")),
        "steers": only_once(lambda: s.agent.steer("more")),
        "injects": only_once(lambda: s.agent.inject("more")),
    }


@pytest.mark.rule("H5", "L8", "N8")
@pytest.mark.parametrize("point", NOTICES, ids=lambda point: point.name)
@pytest.mark.parametrize(
    "kind", ["raises", "raises later", "never returns", "leaks", "subscribes", "follows up", "steers", "injects"]
)
async def test_a_listener_that_misbehaves_starves_nobody_and_changes_no_turn(point: Any, kind: str) -> None:
    @tool
    def work() -> str:
        return "x"

    async with stage(Answer("a", calls=[Call("work")]), "b", tools=[work]) as s:
        s.host.on(point, misbehaving(s)[kind])
        heard: list[int] = []
        s.host.on(SESSION_EVENT, lambda told: heard.append(told.event.seq))
        with trio.fail_after(5):
            await s.ask("1")
        assert heard == list(range(len(s.agent.session)))
        assert set(s.ends) == {"completed"}
        if kind in ("raises", "leaks") and point is SESSION_EVENT:
            assert s.errors


@pytest.mark.rule("C9", "H4")
@pytest.mark.parametrize("point", [SESSION_EVENT, ASSISTANT_STREAM], ids=lambda point: point.name)
async def test_a_listener_may_cancel_or_dispose_and_others_hear_everything_in_log_order(point: Any) -> None:
    for dispose in (False, True):
        async with stage("a b c") as s:
            heard: list[int] = []

            def stop(_: Any, s: Stage = s, dispose: bool = dispose) -> None:
                if dispose:
                    s.handle.dispose(keep_inbox=True)
                else:
                    s.agent.cancel()

            s.host.on(point, stop)
            s.host.on(SESSION_EVENT, lambda told, heard=heard: heard.append(told.event.seq))
            await s.ask("1")
            await wait_all_tasks_blocked()
            assert heard == list(range(len(s.agent.session)))
            assert s.ends == ["aborted disposed" if dispose else "aborted user"]


@pytest.mark.rule("L5", "L6")
async def test_idle_is_not_announced_while_work_is_queued_and_every_waiter_wakes_once() -> None:
    async with stage() as s:
        seen: list[str] = []

        def at_end(told: Any) -> None:
            if isinstance(told.event.data, TurnEnd):
                seen.append(s.agent.status)

        s.host.on(SESSION_EVENT, at_end)
        woken: list[int] = []

        async def wait(number: int) -> None:
            await s.agent.when_idle()
            assert s.agent.status == "idle"
            assert s.agent.inbox.next_turn == ()
            woken.append(number)

        s.agent.followup("1")
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(wait, number)
            s.agent.followup("2")
            s.agent.followup("3")
        assert sorted(woken) == list(range(10))
        assert seen == ["running", "running", "idle"]
        assert s.notices.count("status idle") == 1


@pytest.mark.rule("L6", "L2")
async def test_a_followup_in_the_same_tick_as_the_end_is_not_lost() -> None:
    async with stage() as s:
        extra = [2]

        def at_idle(told: Any) -> None:
            if isinstance(told.event.data, TurnEnd) and extra[0]:
                extra[0] -= 1
                s.agent.followup("more")

        s.host.on(SESSION_EVENT, at_idle)
        await s.ask("1")
        assert s.ends == ["completed"] * 3
        assert s.pending == ([], [])


@pytest.mark.rule("M1", "M2")
@pytest.mark.parametrize("moment", ["stream", "tool"])
async def test_maintenance_never_kills_a_turn_and_a_second_one_is_refused(moment: str) -> None:
    gate = Gate()

    @tool
    async def work() -> str:
        await gate.wait()
        return "x"

    script = talk("half", gate) if moment == "stream" else Answer(calls=[Call("work")])
    async with stage(script, "done", tools=[work]) as s:

        async def upkeep(_: Any) -> str:
            await trio.lowlevel.checkpoint()
            return "tidy"

        s.agent.followup("go")
        await gate.reached()
        with pytest.raises(AgentBusy):
            s.agent.run_maintenance(upkeep)
        gate.open()
        await s.agent.when_idle()
        assert s.ends == ["completed"]
        first = s.agent.run_maintenance(upkeep)
        with pytest.raises(AgentBusy):
            s.agent.run_maintenance(upkeep)
        s.agent.followup("queued")
        assert await first == "tidy"
        await s.agent.when_idle()
        assert s.ends == ["completed", "completed"]


@pytest.mark.rule("P8")
async def test_when_a_turns_handle_resolves_its_records_are_durable(autojump_clock: MockClock) -> None:
    async with MemoryStore() as store, hosted("done", store=store) as host:
        handle = await create(host, "a")
        handle.agent.followup("go")
        await handle.agent.when_idle()
        assert [entry.seq for entry in (await store.open_read("a")).events] == list(range(len(handle.agent.session)))
