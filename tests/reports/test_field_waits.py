"""Faults of the field around waiting: a turn that is missed, and a wait for oneself that never ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from tests.hosts import OPTIONS
from tests.stage import Gate, Stage, note, settled, stage, talk
from treadle import (
    Aborted,
    Answer,
    Blocked,
    Call,
    Completed,
    Errored,
    Failure,
    Host,
    MessageRejected,
    MisuseError,
    ModelFailure,
    Rejected,
    ScriptedModel,
    Signal,
    tool,
)
from treadle.asyncio import Bridge
from treadle.hooks import PRE_STEP, SESSION_FLUSH, TURN_STOPPING, Reject
from treadle.models import Usage

# --- ask --------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D9")
async def test_asking_gives_the_text_the_end_and_the_tokens_of_the_messages_own_turn() -> None:
    @tool
    async def look() -> str:
        return "seen"

    script = [Answer("let me see", calls=[Call("look")], usage=Usage(1, 2)), Answer("done", usage=Usage(10, None, 5))]
    async with stage(*script, "other", tools=[look]) as s:
        answer = await s.agent.ask("a")
        assert (answer.text, answer.reason, answer.turn) == ("done", Completed(), 1)
        assert answer.usage == Usage(11, 2, 5)
        assert (await s.agent.ask("b")).text == "other"


@pytest.mark.rule("D9")
async def test_asking_many_at_once_gives_each_its_own_answer() -> None:
    answers: dict[int, Any] = {}

    async def one(number: int) -> None:
        answers[number] = await s.agent.ask(note(str(number)))

    model = ScriptedModel([f"answer {number}" for number in range(20)])
    async with stage(model=model) as s:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(one, number)
        said = {number: model.requests[answer.turn - 1].messages[-1].text for number, answer in answers.items()}
        assert said == {number: str(number) for number in range(20)}
        assert {answer.text for answer in answers.values()} == {f"answer {number}" for number in range(20)}


@pytest.mark.rule("D9")
async def test_asking_gives_an_answer_that_failed_or_was_blocked_with_its_reason() -> None:
    async with stage(talk(ModelFailure(Failure("no", "INVALID_REQUEST")))) as s:
        reason = (await s.agent.ask("a")).reason
        assert isinstance(reason, Errored)
        s.agent.scope.on(PRE_STEP, lambda payload, proceed: Reject())
        assert isinstance((await s.agent.ask("b")).reason, Blocked)


@pytest.mark.rule("D9", "L3")
async def test_asking_for_a_turn_that_never_comes_raises_instead_of_waiting_for_ever() -> None:
    gate = Gate()
    failing = talk("x", gate, ModelFailure(Failure("no", "INVALID_REQUEST")))
    told: list[str] = []

    async def wait() -> None:
        with pytest.raises(MessageRejected) as caught:
            await s.agent.ask(note("b"))
        told.append(caught.value.message_id)

    async with stage(failing) as s, trio.open_nursery() as nursery:
        s.agent.followup(note("a"))
        await gate.reached()
        nursery.start_soon(wait)
        await settled()
        gate.open()
        await settled()
        assert (told, s.pending) == (["b"], ([], []))
        gate = Gate()
        s.model.push(talk("x", gate))
        s.agent.followup(note("c"))
        await gate.reached()
        nursery.start_soon(wait)
        await settled()
        s.agent.inbox.clear()
        await settled()
        assert told == ["b", "b"]
        s.agent.cancel()


@pytest.mark.rule("D9")
@pytest.mark.parametrize("where", ["pending", "running"])
@pytest.mark.parametrize("on_cancel", ["leave", "stop"])
async def test_a_cancelled_ask_leaves_the_turn_alone_or_stops_it_as_asked(on_cancel: Any, where: str) -> None:
    gate = Gate()
    async with stage(talk("half", gate), "second") as s:
        if where == "pending":
            s.agent.followup(note("first"))
            await gate.reached()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def ask() -> None:
                    await s.agent.ask(note("mine"), on_cancel=on_cancel)

                nursery.start_soon(ask)
                await gate.reached()
                await settled()
                scope.cancel()
        assert scope.cancelled_caught
        assert s.agent.status == ("idle" if (where, on_cancel) == ("running", "stop") else "running")
        gate.open()
        await s.agent.when_idle()
        ends = {
            ("pending", "leave"): ["completed", "completed"],
            ("pending", "stop"): ["completed"],
            ("running", "leave"): ["completed"],
            ("running", "stop"): ["aborted user"],
        }
        assert s.ends == ends[where, on_cancel]
    with pytest.raises(MisuseError, match="on_cancel"):
        await s.agent.ask("x", on_cancel="never")  # type: ignore[arg-type]


@pytest.mark.rule("D9", "L6")
def test_on_the_bridge_a_wait_after_a_delivery_never_misses_a_quick_turn() -> None:
    async def main() -> None:
        host = Host()
        model = ScriptedModel(default="quick")
        host.models.register("scripted", model)
        async with asyncio.timeout(60), Bridge(host) as bridge:
            agent = (await bridge.agents.create(agent_options=OPTIONS)).agent
            for number in range(300):
                await agent.followup(f"{number}")
                if number % 3 == 0:
                    await asyncio.sleep(0.001)
                assert isinstance(await agent.when_idle(), Completed)
                assert await agent.when_idle() is None
            agent.followup("both")
            assert await asyncio.gather(agent.when_idle(), agent.when_idle()) == [Completed(), Completed()]
            for number in range(50):
                answer = await agent.ask(f"q{number}")
                assert (answer.text, answer.reason) == ("quick", Completed())

    asyncio.run(main())


@pytest.mark.rule("D9")
def test_on_the_bridge_a_cancelled_ask_stops_its_turn_when_asked_to() -> None:
    async def main() -> None:
        host = Host()
        gate = Gate()
        host.models.register("scripted", ScriptedModel([talk("half", gate)]))
        async with asyncio.timeout(20), Bridge(host) as bridge:
            agent = (await bridge.agents.create(agent_options=OPTIONS)).agent
            task = asyncio.create_task(agent.ask("x", on_cancel="stop"))
            await bridge.run(gate.reached)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert agent.status == "idle"
            assert isinstance(agent.native.session.events[-1].data.reason, Aborted)

    asyncio.run(main())


# --- waits for oneself ------------------------------------------------------------------------------------------------

Door = Callable[[Stage], Awaitable[object]]


async def enter_and_leave(s: Stage) -> None:
    async with s.handle:
        pass


async def own_receipt(s: Stage) -> object:
    return await s.agent.followup(note("own")).outcome()


async def own_steer(s: Stage) -> object:
    return await s.agent.steer(note("own")).outcome(durable=True)


async def from_a_thread(s: Stage) -> object:
    return await trio.to_thread.run_sync(s.host.await_from_thread, s.agent.when_idle)


async def dispose_from_a_thread(s: Stage) -> object:
    async def dispose() -> None:
        await s.handle.dispose()

    return await trio.to_thread.run_sync(s.host.await_from_thread, dispose)


async def unload(s: Stage) -> object:
    return await s.host.unload_loop()


async def in_a_nursery(s: Stage) -> None:
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(s.agent.ask, "x")
    except* MisuseError as errors:
        raise errors.exceptions[0] from None


DOORS: dict[str, Door] = {
    "when_idle": lambda s: s.agent.when_idle(),
    "ask": lambda s: s.agent.ask("x"),
    "ask in a nursery": in_a_nursery,
    "receipt of a follow-up": own_receipt,
    "receipt of a steer": own_steer,
    "dispose": lambda s: s.handle.dispose().wait(),
    "async with the handle": enter_and_leave,
    "from a thread": from_a_thread,
    "dispose from a thread": dispose_from_a_thread,
    "unload the factory": unload,
}
"""Every door that waits for an agent."""


@pytest.mark.rule("L6")
@pytest.mark.parametrize("where", ["tool", "hook", "maintenance"])
@pytest.mark.parametrize("door", DOORS)
async def test_what_waits_for_its_own_agent_raises_at_once(door: str, where: str) -> None:
    told: list[str] = []

    async def wait(*_: object) -> None:
        try:
            with trio.fail_after(2):
                await DOORS[door](s)
        except MisuseError as error:
            told.append(str(error))
            s.agent.cancel()

    @tool
    async def call() -> None:
        await wait()

    script = [Answer(calls=[Call("call")])] if where == "tool" else ["x"]
    async with stage(*script, tools=[call], model=ScriptedModel(script, default="done")) as s:
        with trio.fail_after(10):
            if where == "maintenance":
                s.agent.run_maintenance(wait)
            else:
                if where == "hook":
                    s.agent.scope.on(TURN_STOPPING, wait)
                s.agent.followup(note("a"))
            await s.agent.when_idle()
        assert len(told) == 1
        assert "never return" in told[0]


@pytest.mark.rule("L6", "O4")
@pytest.mark.parametrize("door", ["dispose", "async with the handle", "scope", "receipt"])
async def test_a_clean_up_that_waits_for_its_own_end_raises_at_once(door: str) -> None:
    told: list[str] = []
    async with stage("x") as s:
        receipt = s.agent.inject(note("pending"))

        async def clean_up() -> None:
            doors: dict[str, Door] = {
                **DOORS,
                "scope": lambda s: s.agent.scope.close(print),
                "receipt": lambda _: receipt.outcome(),
            }
            with pytest.raises(MisuseError, match="never return") as caught, trio.fail_after(2):
                await doors[door](s)
            told.append(str(caught.value))

        s.agent.scope.defer(clean_up)
        with trio.fail_after(5):
            await s.handle.dispose(keep_inbox=True)
        assert len(told) == 1
        assert await receipt.outcome() == Rejected("disposed")


@pytest.mark.rule("L6", "P8")
async def test_a_flush_that_waits_for_what_waits_for_it_raises_at_once() -> None:
    told: list[str] = []

    async def flush(_: object) -> None:
        for wait in (s.agent.when_idle(), s.agent.ask("x"), receipt.outcome(durable=True), s.handle.dispose().wait()):
            with pytest.raises(MisuseError, match="never return") as caught, trio.fail_after(2):
                await wait
            told.append(str(caught.value))

    async with stage("x") as s:
        s.agent.scope.on(SESSION_FLUSH, flush)
        receipt = s.agent.followup(note("a"))
        with trio.fail_after(5):
            await s.handle.dispose(keep_inbox=True)
        assert len(told) == 4


@pytest.mark.rule("L6", "M3")
async def test_a_maintenance_task_that_awaits_itself_raises_at_once() -> None:
    async def work(_: Signal) -> None:
        await running

    async with stage() as s:
        running = s.agent.run_maintenance(work)
        with trio.fail_after(5), pytest.raises(MisuseError, match="never return"):
            await running


@pytest.mark.rule("L6")
@pytest.mark.parametrize("door", ["when_idle", "ask", "receipt", "dispose", "async with"])
def test_on_the_bridge_what_waits_for_its_own_agent_raises_at_once(door: str) -> None:
    told: list[str] = []

    async def main() -> None:
        host = Host()
        host.models.register("scripted", ScriptedModel([Answer(calls=[Call("wait")])], default="done"))
        async with asyncio.timeout(20), Bridge(host) as bridge:

            async def leave() -> None:
                async with handle:
                    pass

            async def dispose() -> None:
                await handle.dispose()

            doors: dict[str, Callable[[], Awaitable[object]]] = {
                "when_idle": lambda: handle.agent.when_idle(),  # made later
                "ask": lambda: handle.agent.ask("x"),
                "receipt": lambda: handle.agent.followup("x").outcome(),
                "dispose": dispose,
                "async with": leave,
            }

            @bridge.tool
            async def wait() -> None:
                try:
                    async with asyncio.timeout(2):
                        await doors[door]()
                except MisuseError as error:
                    told.append(str(error))

            await bridge.tools.register(wait)
            handle = await bridge.agents.create(agent_options=OPTIONS)
            handle.agent.followup("a")
            await handle.agent.when_idle()

    asyncio.run(main())
    assert len(told) == 1
    assert "never return" in told[0]
