"""The bridge: a host in a thread of its own, at home in asyncio."""

import asyncio
import gc
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import trio

from tests.hosts import OPTIONS
from tests.invariants import check_invariants
from tests.stage import Gate, line, reason, talk
from treadle import (
    Admitted,
    Agent,
    AgentDisposed,
    Answer,
    Call,
    DuplicateMessage,
    Host,
    InvalidMessage,
    MisuseError,
    ScriptedModel,
    message,
    tool,
)
from treadle.agent import current_initiator
from treadle.asyncio import Bridge, BridgedAgent, BridgedHandle, Reply, streams
from treadle.asyncio.reply import undisturbed
from treadle.errors import BridgeClosed, MaintenanceCancelled, StreamOverrun
from treadle.hooks import AGENT_CREATED, AGENT_STATUS, PRE_STEP, Enter, FrameChunk, FrameEnd, FrameStart, Scope
from treadle.models import TextDelta
from treadle.session import TurnEnd

Body = Callable[[Bridge], Coroutine[Any, Any, None]]


def bridged(*script: Any, model: ScriptedModel | None = None, **options: Any) -> Callable[[Body], None]:
    """Run an asyncio body over a bridge whose host plays the script."""

    def run(body: Body) -> None:
        async def main() -> None:
            host = Host(**options)
            host.models.register("scripted", model or ScriptedModel(script))
            async with asyncio.timeout(20), Bridge(host) as bridge:
                await body(bridge)
            assert trio_threads() == 0

        asyncio.run(main())

    return run


def trio_threads() -> int:
    return len([thread for thread in threading.enumerate() if thread.name == "treadle host"])


async def create(bridge: Bridge, id: str | None = None, **options: Any) -> BridgedHandle:
    return await bridge.agents.create(session_id=id, agent_options=OPTIONS, **options)


class Held(Gate):
    """A place where a scripted answer waits until asyncio lets it go on."""

    def __init__(self) -> None:
        self.at = threading.Event()
        self.go = threading.Event()

    async def wait(self) -> None:
        self.at.set()
        await trio.to_thread.run_sync(self.go.wait, abandon_on_cancel=True)

    async def reached(self) -> None:
        await asyncio.to_thread(self.at.wait)


def hold() -> Any:
    held = Held()
    return held, talk("half ", held, "whole")


def ends(agent: BridgedAgent) -> list[str]:
    return [reason(entry.data.reason) for entry in agent.session.events if isinstance(entry.data, TurnEnd)]


@pytest.mark.rule("D1", "D8", "L6")
def test_an_agent_is_used_from_asyncio_as_it_is_from_trio() -> None:
    @bridged("hello")
    async def _(bridge: Bridge) -> None:
        handle = await create(bridge, "a")
        agent = handle.agent
        receipt = agent.followup("hi")
        assert await receipt.outcome() == Admitted(1, 1)
        assert (await receipt).message_id == receipt.message_id
        end = await agent.when_idle()
        assert end is None or reason(end) == "completed"
        assert ends(agent) == ["completed"]
        assert (agent.id, agent.status, agent.state.value, agent.parked) == ("a", "idle", "idle", ())
        assert agent.options is OPTIONS
        assert not agent.accepts_next_step
        assert await agent.converging() is None
        found = bridge.agents.get("a")
        assert found is not None
        assert found.native is agent.native
        assert bridge.agents.get("b") is None
        assert [one.id for one in bridge.agents.list()] == [one.id for one in bridge.agents.roots()] == ["a"]
        check_invariants(agent.session)
        await handle.dispose()
        await handle.dispose()
        assert bridge.agents.list() == []


@pytest.mark.rule("N8", "D3", "L9")
def test_exceptions_keep_their_type_their_cause_and_their_identity() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        handle = await create(bridge)
        agent = handle.agent
        with pytest.raises(InvalidMessage):
            agent.followup(5)  # type: ignore[arg-type]
        agent.inject(message("x", id="one"))
        with pytest.raises(DuplicateMessage) as caught:
            await agent.inject(message("y", id="one"))
        assert caught.value.message_id == "one"

        original = ValueError("inner")

        def fail() -> None:
            raise KeyError("outer") from original

        with pytest.raises(KeyError) as again:
            await bridge.call(fail)
        assert again.value.__cause__ is original

        async def setup(scope: Scope, agent: Agent) -> None:
            raise original

        with pytest.raises(ValueError, match="inner") as third:
            await create(bridge, setup=setup)
        assert third.value is original
        ending = handle.dispose()
        with pytest.raises(AgentDisposed):
            await agent.followup("late")
        await ending


@pytest.mark.rule("N2", "D1")
def test_cancelling_whoever_awaits_never_loses_a_message() -> None:
    held, script = hold()

    @bridged(script)
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent

        async def say(number: int) -> None:
            receipt = agent.followup(message(f"m{number}", id=f"m{number}"))
            await receipt.outcome()

        tasks = [asyncio.create_task(say(number)) for number in range(20)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        held.go.set()
        await agent.when_idle()
        users = [one.text for one in agent.session.history() if one.role == "user"]
        assert users == [f"m{number}" for number in range(20)]


@pytest.mark.rule("C1", "C5")
def test_cancel_works_from_any_thread() -> None:
    held, script = hold()

    @bridged(script, "done")
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        agent.followup("go")
        await held.reached()
        await asyncio.to_thread(lambda: agent.cancel("user").result(5))
        await agent.when_idle()
        assert ends(agent) == ["aborted user"]
        await asyncio.to_thread(lambda: agent.followup("again").result(5))
        await agent.when_idle()
        assert ends(agent) == ["aborted user", "completed"]
        with pytest.raises(MisuseError):
            await agent.cancel("nonsense")  # type: ignore[arg-type]


@pytest.mark.rule("L6")
def test_a_cancelled_or_timed_out_wait_for_idle_cancels_nothing_else() -> None:
    held, script = hold()

    @bridged(script)
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        agent.followup("go")
        await held.reached()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await agent.when_idle()
        waits = [asyncio.create_task(agent.when_idle()) for _ in range(5)]
        await asyncio.sleep(0)
        waits[0].cancel()
        held.go.set()
        results = await asyncio.gather(*waits, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert all(reason(one) == "completed" for one in results[1:] if not isinstance(one, BaseException) and one)
        assert ends(agent) == ["completed"]


@pytest.mark.rule("S1", "H4")
def test_events_are_iterated_from_the_log_and_then_live_until_the_agent_ends() -> None:
    @bridged("one", "two")
    async def _(bridge: Bridge) -> None:
        handle = await create(bridge)
        agent = handle.agent
        agent.followup("1")
        await agent.when_idle()
        past = len(agent.session)
        everything: list[str] = []
        fresh: list[int] = []

        async def read() -> None:
            everything.extend([line(entry) async for entry in agent.events()])

        async def read_fresh() -> None:
            async with agent.events(None) as events:
                async for entry in events:
                    fresh.append(entry.seq)
                    if entry.type == "turn/end":
                        break

        readers = [asyncio.create_task(read()), asyncio.create_task(read_fresh())]
        await asyncio.sleep(0)
        agent.followup("2")
        await agent.when_idle()
        await readers[1]
        await handle.dispose()
        await readers[0]
        assert everything == [line(entry) for entry in agent.session.events]
        assert fresh == list(range(past, past + len(fresh)))
        assert (await anext(agent.events(past))).seq == past


@pytest.mark.rule("Q9")
def test_the_frames_of_the_turn_that_answers_a_message_are_streamed() -> None:
    @bridged("one two three", "again")
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        frames = [frame async for frame in agent.stream("hi")]
        assert isinstance(frames[0], FrameStart)
        assert isinstance(frames[-1], FrameEnd)
        assert all(isinstance(frame, FrameChunk) for frame in frames[1:-1])
        assert frames[-1].index == len(frames) - 2
        live = agent.frames()
        agent.followup("more")
        first = await anext(live)
        assert isinstance(first, FrameStart)
        assert first.revision == 2
        await live.aclose()
        await live.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(live)


@pytest.mark.rule("Q9", "I5")
def test_each_of_many_streams_gets_the_frames_of_its_own_turn() -> None:
    @bridged(model=ScriptedModel(default=lambda request: f"re {request.messages[-1].text}"))
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent

        async def ask(text: str) -> str:
            said = [frame.chunk for frame in [one async for one in agent.stream(text)] if isinstance(frame, FrameChunk)]
            return "".join([chunk.text for chunk in said if isinstance(chunk, TextDelta)])

        texts = [f"m{number}" for number in range(20)]
        assert await asyncio.gather(*[ask(text) for text in texts]) == [f"re {text}" for text in texts]


@pytest.mark.rule("I5", "D5")
def test_a_stream_ends_when_its_message_is_discarded_before_its_turn() -> None:
    held, script = hold()

    @bridged(script)
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        agent.followup("first")
        await held.reached()
        second = agent.stream("second")
        reading = asyncio.create_task(anext(second, None))
        await asyncio.sleep(0)
        await agent.inbox.clear()
        assert await reading is None
        held.go.set()
        await agent.when_idle()


@pytest.mark.rule("N2")
def test_leaving_a_stream_early_changes_nothing() -> None:
    held, script = hold()

    @bridged(script)
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        async for _frame in agent.stream("hi"):
            break
        gc.collect()
        held.go.set()
        await agent.when_idle()
        assert ends(agent) == ["completed"]
        await bridge.call(lambda: None)
        from treadle.hooks import ASSISTANT_STREAM

        assert await bridge.call(lambda: agent.native.scope.heard[ASSISTANT_STREAM]) == ()


@pytest.mark.rule("X3")
def test_a_reader_slower_than_the_model_is_told_what_it_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_FRAMES", 3)

    @bridged("one two three four five six")
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        frames = agent.frames()
        agent.followup("hi")
        await agent.when_idle()
        got = [await anext(frames) for _ in range(3)]
        assert isinstance(got[0], FrameStart)
        with pytest.raises(StreamOverrun, match="frames were lost"):
            await anext(frames)


@pytest.mark.rule("D3", "L9")
def test_a_stream_whose_message_is_not_accepted_says_why() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        handle = await create(bridge)
        await handle.dispose()
        with pytest.raises(AgentDisposed):
            await anext(handle.agent.stream("late"))


@pytest.mark.rule("K8", "O7", "C4")
def test_asyncio_tools_run_in_the_bridges_loop_with_the_initiator_and_are_cancelled_there() -> None:
    script = [Answer(calls=[Call("look", {"what": "moon"})]), "done", Answer(calls=[Call("hang")])]

    @bridged(*script)
    async def _(bridge: Bridge) -> None:
        loop, seen = asyncio.get_running_loop(), []
        hanging = asyncio.Event()

        @bridge.tool
        async def look(what: str) -> str:
            """Look at something."""
            assert asyncio.get_running_loop() is loop
            await asyncio.sleep(0)
            seen.append((what, current_initiator()))
            return f"saw {what}"

        @bridge.tool(description="Hangs.")
        async def hang() -> str:
            hanging.set()
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                seen.append(("cancelled", None))
                raise
            return "x"

        @bridge.tool
        def plain() -> str:
            return "x"

        for one in (look, hang, plain):
            await bridge.call(bridge.host.tools.register, one)
        agent = (await create(bridge)).agent
        agent.followup("go")
        await agent.when_idle()
        assert seen == [("moon", agent.native)]
        agent.followup("hang")
        await hanging.wait()
        agent.cancel()
        await agent.when_idle()
        assert seen[-1] == ("cancelled", None)
        assert ends(agent) == ["completed", "aborted user"]
        assert any(line(entry).endswith(" ABORTED") for entry in agent.session.events)


@pytest.mark.rule("C4")
def test_the_real_result_of_an_asyncio_tool_that_finishes_under_a_cancel_is_kept() -> None:
    @bridged(Answer(calls=[Call("finish")]))
    async def _(bridge: Bridge) -> None:
        at = asyncio.Event()

        @bridge.tool
        async def finish() -> str:
            at.set()
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                return "finished all the same"
            return "x"

        await bridge.call(bridge.host.tools.register, finish)
        agent = (await create(bridge)).agent
        agent.followup("go")
        await at.wait()
        await agent.cancel()
        await agent.when_idle()
        assert "result call_1 ok" in [line(entry) for entry in agent.session.events]


@pytest.mark.rule("H1", "T2")
def test_asyncio_listeners_take_part_in_every_mode() -> None:
    @bridged("done")
    async def _(bridge: Bridge) -> None:
        told: list[str] = []
        idle = asyncio.Event()

        async def decide(payload: Any, proceed: Callable[[], Awaitable[Any]]) -> Any:
            told.append("before")
            decision = await proceed()
            told.append("after")
            return Enter(decision.messages)

        async def status(payload: Any) -> None:
            told.append(payload.status)
            if payload.status == "idle":
                idle.set()

        undo = await bridge.on(PRE_STEP, decide)
        await bridge.on(AGENT_STATUS, status)
        await bridge.on(AGENT_STATUS, lambda payload: None)
        agent = (await create(bridge)).agent
        agent.followup("go")
        await agent.when_idle()
        await idle.wait()
        assert {"before", "after", "running", "idle"} == set(told)
        await bridge.call(undo)


@pytest.mark.rule("L6")
def test_an_asyncio_tool_that_waits_for_its_own_agent_is_told_at_once() -> None:
    @bridged(Answer(calls=[Call("wait")]), "done")
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        refused: list[str] = []

        @bridge.tool
        async def wait() -> str:
            try:
                await agent.when_idle()
            except MisuseError as error:
                refused.append(str(error))
            return "x"

        await bridge.call(bridge.host.tools.register, wait)
        agent.followup("go")
        await agent.when_idle()
        assert len(refused) == 1


@pytest.mark.rule("O6")
def test_a_cancelled_parent_cancels_the_child_that_its_asyncio_tool_awaits() -> None:
    held, script = hold()
    model = ScriptedModel(default=lambda request: script if request.session_id == "c" else Answer(calls=[Call("run")]))

    @bridged(model=model)
    async def _(bridge: Bridge) -> None:
        parent = (await create(bridge, "p")).agent

        @bridge.tool
        async def run() -> str:
            child = (await create(bridge, "c", parent_agent=parent)).agent
            child.followup("task")
            await child.when_idle()
            return "x"

        await bridge.call(bridge.host.tools.register, run)
        parent.followup("go")
        await held.reached()
        parent.cancel()
        await parent.when_idle()
        child = bridge.agents.get("c")
        assert child is not None
        assert (ends(parent), ends(child)) == (["aborted user"], ["aborted parent"])


@pytest.mark.rule("M1", "M3", "M4")
def test_maintenance_runs_in_the_loop_and_keeps_its_result_or_exception() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        loop = asyncio.get_running_loop()
        started = asyncio.Event()

        async def good(signal: Any) -> int:
            assert asyncio.get_running_loop() is loop
            assert not signal.cancelled
            return 7

        async def bad(signal: Any) -> None:
            raise ValueError("no")

        async def endless(signal: Any) -> None:
            started.set()
            await asyncio.sleep(1000)

        assert await agent.run_maintenance(good) == 7
        with pytest.raises(ValueError, match="no"):
            await agent.run_maintenance(bad)
        running = asyncio.ensure_future(agent.run_maintenance(endless))
        await started.wait()
        agent.cancel()
        with pytest.raises(MaintenanceCancelled):
            await running
        await agent.when_idle()


@pytest.mark.rule("O1")
def test_a_cancelled_creation_is_rolled_back_and_a_lost_one_is_disposed() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        at = threading.Event()

        async def hang(scope: Scope, agent: Agent) -> None:
            at.set()
            await trio.sleep_forever()

        async def stubborn(scope: Scope, agent: Agent) -> None:
            at.set()
            with trio.CancelScope(shield=True):
                await trio.sleep(0.01)

        for setup in (hang, stubborn):
            at.clear()
            making = asyncio.create_task(create(bridge, "a", setup=setup))
            await asyncio.to_thread(at.wait)
            making.cancel()
            with pytest.raises(asyncio.CancelledError):
                await making
            assert bridge.agents.list() == []
        await create(bridge, "a")


@pytest.mark.rule("I2", "D8")
def test_the_inbox_and_the_reservation_are_reachable() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        inbox = agent.inbox
        await inbox.append("next-turn", message("b", id="b"))
        await inbox.prepend("next-turn", message("a", id="a"))
        assert [one.text for one in inbox.next_turn] == ["a", "b"]
        assert await inbox.replace("a", message("c", id="c"))
        assert await inbox.remove("b")
        assert [one.text for one in await inbox.splice("next-turn", 0, 1, (message("d", id="d"),))] == ["c"]
        assert await agent.update_inbox("d", "edit", "e") == "applied"
        agent.send("ctx", "next-step", False)
        await inbox.clear()
        assert (inbox.next_turn, inbox.next_step) == ((), ())
        release = await agent.reserve_turn_admission()
        assert release is not None
        assert await agent.reserve_turn_admission() is None
        receipt = agent.steer("held")
        await receipt
        assert agent.status == "idle"
        await release()
        await agent.when_idle()
        assert ends(agent) == ["completed"]


@pytest.mark.rule("O4", "N7")
def test_closing_the_bridge_ends_everything_and_later_calls_say_so() -> None:
    held, script = hold()

    async def main() -> None:
        host = Host()
        host.models.register("scripted", ScriptedModel([script]))
        bridge = Bridge(host)
        with pytest.raises(BridgeClosed, match="not open"):
            bridge.call(print)
        async with bridge:
            agent = (await create(bridge)).agent
            agent.followup("go")
            await held.reached()
            agent.inject("kept")
            waiting = asyncio.create_task(agent.when_idle())
            await asyncio.sleep(0)
        assert ends(agent) == ["aborted disposed"]
        assert [one.text for one in agent.inbox.next_step] == ["kept"]
        with pytest.raises(BridgeClosed):
            await waiting
        with pytest.raises(BridgeClosed):
            agent.followup("late")
        with pytest.raises(BridgeClosed):
            await agent.when_idle()
        check_invariants(agent.session)
        assert trio_threads() == 0

    asyncio.run(main())


@pytest.mark.rule("N8")
def test_a_host_that_cannot_be_entered_says_why() -> None:
    async def main() -> None:
        host = Host()

        async def fail() -> None:
            raise OSError("no disk")

        host.__class__ = type("Broken", (Host,), {"__aenter__": lambda self: fail()})
        with pytest.raises(OSError, match="no disk"):
            async with Bridge(host):
                raise AssertionError
        assert trio_threads() == 0

    asyncio.run(main())


@pytest.mark.rule("N8")
def test_a_failure_that_nobody_looks_at_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        handle = await create(bridge)
        handle.agent.inject(message("x", id="one"))
        handle.agent.inject(message("x", id="one"))
        await bridge.call(lambda: None)
        gc.collect()

    with caplog.at_level(logging.ERROR, "treadle"):
        gc.collect()
    assert any("nobody looked" in record.message for record in caplog.records)


@pytest.mark.rule("O4")
def test_cancelling_the_task_that_holds_the_bridge_ends_the_host_in_order() -> None:
    held, script = hold()
    agents: list[BridgedAgent] = []

    async def hold_it() -> None:
        host = Host()
        host.models.register("scripted", ScriptedModel([script]))
        async with Bridge(host) as bridge:
            agents.append((await create(bridge)).agent)
            agents[0].followup("go")
            await asyncio.sleep(1000)

    async def main() -> None:
        task = asyncio.create_task(hold_it())
        await held.reached()
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ends(agents[0]) == ["aborted disposed"]
        assert trio_threads() == 0

    asyncio.run(main())


@pytest.mark.rule("L9", "D1")
def test_calls_run_in_the_order_of_asking() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        release = await agent.reserve_turn_admission()
        assert release is not None
        for number in range(100):
            agent.followup(f"m{number}")
        await agent.inject("last")
        assert [one.text for one in agent.inbox.next_turn] == [f"m{number}" for number in range(100)]


@pytest.mark.rule("O13", "I8")
def test_a_stored_session_is_resumed_through_the_bridge() -> None:
    from treadle import MemoryStore

    store = MemoryStore()

    async def main() -> None:
        for expected in (1, 2):
            host = Host(store=store)
            host.models.register("scripted", ScriptedModel())
            async with Bridge(host) as bridge:
                if expected == 1:
                    handle = await create(bridge, "a")
                else:
                    handle = await bridge.agents.resume("a", agent_options=OPTIONS)
                async with handle as agent:
                    agent.followup("go")
                    await agent.when_idle()
                    assert len(ends(agent)) == expected

    asyncio.run(main())


@pytest.mark.rule("O1")
def test_what_a_cancelled_wait_would_have_returned_is_not_lost() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        at = threading.Event()
        kept: list[int] = []

        async def stubborn() -> int:
            at.set()
            with trio.CancelScope(shield=True):
                await trio.sleep(0.01)
            return 7

        async def keep(value: int) -> None:
            kept.append(value)

        async def fail() -> int:
            at.set()
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("while being cancelled")

        for function in (stubborn, fail):
            at.clear()
            running = asyncio.create_task(bridge.run(function, lost=keep))
            await asyncio.to_thread(at.wait)
            running.cancel()
            await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert kept == [7]


@pytest.mark.rule("L9", "N8")
def test_a_bridge_that_is_not_open_says_so() -> None:
    async def nothing() -> None:
        return

    bridge = Bridge(Host())
    with pytest.raises(BridgeClosed, match="not open"):
        bridge.call(print)

    async def crossed() -> None:
        await bridge.in_loop(nothing)()

    with pytest.raises(BridgeClosed, match="not open"):
        trio.run(crossed)


@pytest.mark.rule("H5", "N8")
def test_a_host_that_asks_to_leave_the_program_ends_the_bridge_and_tells_its_owner() -> None:
    async def main() -> None:
        host = Host()
        host.models.register("scripted", ScriptedModel())

        def leave(_: object) -> None:
            raise SystemExit(3)

        async def ask() -> None:
            async with Bridge(host) as bridge:
                agent = (await create(bridge)).agent
                await bridge.on(AGENT_STATUS, leave)
                agent.followup("go")
                with pytest.raises(BridgeClosed):
                    await bridge.run(trio.sleep_forever)

        with pytest.raises(SystemExit):
            await ask()
        assert trio_threads() == 0

    asyncio.run(main())


@pytest.mark.rule("K3")
def test_an_asyncio_tool_that_is_cancelled_by_somebody_else_is_an_error_result() -> None:
    @bridged(Answer(calls=[Call("odd")]), "done")
    async def _(bridge: Bridge) -> None:
        @bridge.tool
        async def odd() -> str:
            raise asyncio.CancelledError

        await bridge.call(bridge.host.tools.register, odd)
        agent = (await create(bridge)).agent
        agent.followup("go")
        await agent.when_idle()
        assert ends(agent) == ["completed"]
        assert "result call_1 TREADLE" in [line(entry) for entry in agent.session.events]


@pytest.mark.rule("D1", "L6")
def test_plain_threads_use_agents_by_results() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        handle = await create(bridge, "a")
        agent = handle.agent

        def worker() -> str:
            agent.followup("go").result(5)
            with pytest.raises(TimeoutError):
                bridge.start(trio.sleep_forever).reply.result(0.01)
            return bridge.call(lambda: agent.native.id).result(5)

        assert await asyncio.to_thread(worker) == "a"
        assert not bridge.awaits_here(agent.native)
        assert repr(agent).startswith("<BridgedAgent a")
        assert repr(agent.inject(message("x", id="m"))) == "<BridgedReceipt m>"
        assert await asyncio.to_thread(lambda: bridge.awaits_here(agent.native)) is False


@pytest.mark.rule("L6")
def test_blocking_for_a_result_is_refused_where_it_would_hold_up_an_event_loop() -> None:
    @bridged(Answer(calls=[Call("look"), Call("peek"), Call("count")]), "done")
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        told: dict[str, str] = {}

        def block(where: str, reply: Reply[Any]) -> None:
            try:
                told[where] = str(reply.result())
            except MisuseError as error:
                told[where] = str(error)

        @bridge.tool
        async def look() -> None:
            block("asyncio tool", bridge.start(trio.sleep_forever).reply)

        async def peek() -> None:
            block("trio tool", agent.inject("two"))

        def count() -> None:
            block("sync tool", bridge.call(lambda: "answered"))

        for each in (look, tool(peek), tool(count)):
            await bridge.call(bridge.host.tools.register, each)
        await bridge.call(bridge.host.on, AGENT_STATUS, lambda _: block("listener", bridge.call(lambda: 1)))
        agent.followup("go")
        await agent.when_idle()
        assert "await the reply instead" in told["asyncio tool"]
        assert "use the agent itself" in told["trio tool"]
        assert "use the agent itself" in told["listener"]
        assert told["sync tool"] == "answered"
        assert ends(agent) == ["completed"]
        with pytest.raises(MisuseError, match="await the reply"):
            bridge.start(trio.sleep_forever).reply.result(60)
        reply = bridge.call(lambda: "answered")
        assert await reply == "answered"
        assert reply.result() == "answered"
        with pytest.raises(TimeoutError):
            bridge.start(trio.sleep_forever).reply.result(0)


@pytest.mark.rule("L6", "O4")
@pytest.mark.parametrize("abandon", [False, True])
def test_a_sync_tool_that_blocks_for_its_own_agent_s_end_is_told_at_once(abandon: bool) -> None:
    @bridged(Answer(calls=[Call("leave")]), "done")
    async def _(bridge: Bridge) -> None:
        handle = await create(bridge)
        told: list[str] = []
        said = threading.Event()

        @tool(abandon_on_cancel=abandon)
        def leave() -> None:
            """Leave."""
            try:
                handle.dispose().result()
            except MisuseError as error:
                told.append(str(error))
            else:
                told.append("disposed")
            said.set()

        await bridge.call(bridge.host.tools.register, leave)
        handle.agent.followup("go")
        async for _ in handle.agent.events():
            pass
        await asyncio.to_thread(said.wait)
        if abandon:
            assert told == ["disposed"]  # nobody waits for an abandoned thread
        else:
            assert "own tool or hook would never return" in told[0]


@pytest.mark.rule("O1", "O3")
def test_a_handle_that_came_too_late_for_its_caller_is_disposed() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        at = threading.Event()

        async def stubborn(made: Any) -> None:
            at.set()
            with trio.CancelScope(shield=True):
                await trio.sleep(0.01)

        undo = await bridge.call(lambda: bridge.host.on(AGENT_CREATED, stubborn))
        making = asyncio.create_task(create(bridge, "a"))
        await asyncio.to_thread(at.wait)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        assert bridge.agents.list() == []
        await bridge.call(undo)
        await create(bridge, "a")


@pytest.mark.rule("N7")
def test_streams_that_outlive_their_bridge_or_their_loop_end_quietly() -> None:
    kept: list[Any] = []

    @bridged("done")
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        kept.extend([agent.events(None), agent.frames(), agent.stream("hi")])
        await agent.when_idle()

    async def late() -> None:
        assert [entry async for entry in kept[0]][-1].type == "turn/end"
        await kept[1].aclose()

    asyncio.run(late())
    kept[2].feed.ring()
    assert kept[2].feed.closed
    kept.clear()
    gc.collect()


@pytest.mark.rule("N8")
def test_work_that_is_started_while_the_bridge_closes_is_told_so() -> None:
    async def main() -> None:
        host = Host()
        gate = threading.Event()
        late: list[Any] = []

        async def hold_open() -> None:
            late.append(bridge.start(trio.sleep_forever))
            gate.set()

        async with Bridge(host) as bridge:
            await bridge.call(lambda: host.scope.defer(hold_open))
        assert gate.is_set()
        with pytest.raises(BridgeClosed):
            await late[0].reply

    asyncio.run(main())


@pytest.mark.rule("N8")
def test_a_failing_end_is_told_even_when_the_waiter_was_cancelled_first() -> None:
    async def main() -> None:
        reply: Reply[None] = Reply()
        waiting = asyncio.create_task(undisturbed(reply))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        reply.fail(ValueError("end"))
        with pytest.raises(ValueError, match="end"):
            await waiting
        second: Reply[int] = Reply()
        waiting_too = asyncio.create_task(undisturbed(second))
        await asyncio.sleep(0)
        second.settle(1)
        waiting_too.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting_too

    asyncio.run(main())
