"""Faults around queueing and steering that users met elsewhere: each test is named after the fault."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.stage import Gate, Stage, note, settled, stage, talk
from treadle import (
    Admitted,
    Answer,
    Call,
    Completed,
    DuplicateMessage,
    Errored,
    Failure,
    ModelFailure,
    Signal,
    ToolOutput,
    tool,
)
from treadle.hooks import SESSION_EVENT, TOOLS_POST_EXECUTE
from treadle.session import TurnEnd


def users(s: Stage) -> list[str]:
    return [text.removeprefix("user ") for text in s.log if text.startswith("user ")]


def at(s: Stage, event: str, act: Any) -> None:
    """Do something once, inside the listener of an event."""
    done: list[int] = []

    def listener(told: Any) -> None:
        if told.event.type == event and not done:
            done.append(told.event.seq)
            act()

    s.agent.scope.on(SESSION_EVENT, listener)


@pytest.mark.rule("L3", "C1", "I5")
async def test_an_interrupt_does_not_freeze_the_queue_for_good() -> None:
    gate = Gate()
    async with stage(talk("x", gate)) as s:
        for text in "ABC":
            s.agent.followup(note(text))
        await gate.reached()
        s.agent.cancel(keep_inbox=True)
        await s.agent.when_idle()
        assert [one.text for one in s.agent.parked] == ["B", "C"]
        assert s.notices[-1] == "parked B C"
        await s.ask("D")
        assert users(s) == ["A", "B", "C", "D"]


@pytest.mark.rule("C1", "I4")
async def test_what_an_interrupt_drops_is_handed_back_and_never_silently_gone() -> None:
    gate = Gate()
    async with stage(talk("x", gate)) as s:
        receipts = [s.agent.followup(note(text)) for text in "ABC"]
        await gate.reached()
        s.agent.cancel()
        assert s.notices[-2:] == ["discarded B", "discarded C"]
        assert [str(await receipt.outcome()) for receipt in receipts[1:]] == ["Rejected(reason='discarded')"] * 2
        await s.agent.when_idle()


@pytest.mark.rule("L2", "D1", "D8")
@pytest.mark.parametrize("event", ["user/message", "assistant/message", "step/end", "turn/end"])
async def test_a_steer_on_a_just_finishing_agent_runs_and_its_receipt_says_where(event: str) -> None:
    receipts: list[Any] = []
    async with stage("one", "two", "three") as s:
        at(s, event, lambda: receipts.append(s.agent.steer(note("s"))))
        await s.ask("a")
        assert users(s) == ["a", "s"]
        turn = 2 if event == "turn/end" else 1
        assert await receipts[0].outcome() == Admitted(turn, 1 if turn == 2 else 2)
        assert s.ends == ["completed"] * turn


@pytest.mark.rule("L2", "D8")
async def test_a_steer_on_an_idle_agent_starts_a_turn() -> None:
    async with stage("one") as s:
        assert s.agent.accepts_next_step is False
        receipt = s.agent.steer(note("s"))
        assert await receipt.outcome() == Admitted(1, 1)
        await s.agent.when_idle()


@pytest.mark.rule("H4", "L6", "I5")
@pytest.mark.parametrize("kind", ["followup", "steer", "inject"])
async def test_a_message_sent_from_the_end_of_a_turn_is_neither_dropped_nor_refused(kind: str) -> None:
    left = [3]

    def more(told: Any) -> None:
        if told.event.type == "turn/end" and left[0]:
            left[0] -= 1
            getattr(s.agent, kind)(note(f"{kind} {left[0]}"))

    async with stage() as s:
        s.agent.scope.on(SESSION_EVENT, more)
        assert await s.ask("a") == Completed()
        assert len(s.ends) == (1 if kind == "inject" else 4)
        assert left[0] == (2 if kind == "inject" else 0)
        assert (s.agent.status, s.pending[0]) == ("idle", [])


@pytest.mark.rule("D7", "I5")
@pytest.mark.parametrize("when", ["idle", "tool", "final text", "turn end"])
async def test_passive_context_does_not_wake_the_agent(when: str) -> None:
    gate = Gate()

    @tool
    async def slow() -> None:
        await gate.wait()

    script = [Answer(calls=[Call("slow")]), "done"] if when == "tool" else [talk("x", gate)]
    async with stage(*script, tools=[slow]) as s:
        if when == "idle":
            s.agent.inject(note("i"))
            await settled()
            assert s.requests == []
        s.agent.followup(note("a"))
        await gate.reached()
        if when in ("tool", "final text"):
            s.agent.inject(note("i"))
        if when == "turn end":
            at(s, "turn/end", lambda: s.agent.inject(note("i")))
        gate.open()
        await s.agent.when_idle()
        assert len(s.requests) == (2 if when == "tool" else 1)
        await s.ask("b")
        assert users(s) == {"idle": ["i", "a", "b"]}.get(when, ["a", "i", "b"])


@pytest.mark.rule("N2", "T9", "L3")
async def test_a_failed_delivery_is_not_repeated() -> None:
    async with stage(talk(ModelFailure(Failure("bad request", "INVALID_REQUEST", 400))), "fine") as s:
        assert isinstance(await s.ask("A"), Errored)
        await settled()
        assert len(s.requests) == 1
        await s.ask("B")
        assert s.requests[1] == ["user A", "user B"]
        assert users(s) == ["A", "B"]


@pytest.mark.rule("I1", "N2")
async def test_one_message_does_not_become_both_a_live_turn_and_a_queued_one() -> None:
    refused: list[str] = []

    def again(told: Any) -> None:
        for send in (s.agent.followup, s.agent.steer):
            try:
                send(note("a"))
            except DuplicateMessage as error:
                refused.append(error.message_id)

    async with stage("one", "two") as s:
        s.agent.scope.on(SESSION_EVENT, again)
        await s.ask("a")
        assert users(s) == ["a"]
        assert set(refused) == {"a"}
        assert len(refused) == 2 * len(s.agent.session)


@pytest.mark.rule("I5", "N2")
async def test_a_second_pending_message_does_not_overwrite_the_first() -> None:
    gate = Gate()

    @tool
    async def slow() -> None:
        await gate.wait()

    async with stage(Answer(calls=[Call("slow")]), tools=[slow]) as s:
        s.agent.followup(note("go"))
        await gate.reached()
        for index in range(5):
            s.agent.steer(note(f"s{index}"))
            s.agent.followup(note(f"f{index}"))
        assert s.pending == ([f"f{index}" for index in range(5)], [f"s{index}" for index in range(5)])
        gate.open()
        await s.agent.when_idle()
        assert users(s) == ["go", *[f"s{index}" for index in range(5)], *[f"f{index}" for index in range(5)]]


@pytest.mark.rule("D6", "I5")
async def test_delivery_does_not_starve_under_a_busy_agent() -> None:
    @tool
    async def work() -> None:
        if len(s.requests) == 5:
            s.agent.steer(note("steer"))
        if len(s.requests) == 6:
            s.agent.followup(note("followup"))

    async with stage(*[Answer(calls=[Call("work")])] * 60, "done", "answer", tools=[work]) as s:
        await s.ask("go")
        assert s.requests[5][-1] == "user steer"
        assert len(s.requests) == 62
        assert s.requests[61][-1] == "user followup"


@pytest.mark.rule("D6", "N1")
async def test_a_steer_neither_cancels_calls_already_asked_for_nor_lands_between_call_and_result() -> None:
    gate, ran = Gate(), []

    @tool
    async def one(n: int) -> int:
        ran.append(n)
        if n == 1:
            await gate.wait()
        return n

    async with stage(Answer(calls=[Call("one", {"n": n}) for n in (1, 2, 3)]), tools=[one]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.steer(note("s"))
        gate.open()
        await s.agent.when_idle()
        assert ran == [1, 2, 3]
        assert s.requests[1][-4:] == ["result call_1", "result call_2", "result call_3", "user s"]


@pytest.mark.rule("K6", "C4")
@pytest.mark.parametrize("what", ["steer", "cancel"])
async def test_the_result_of_a_tool_that_ends_in_the_same_tick_is_not_replaced(what: str) -> None:
    @tool
    async def failing() -> ToolOutput:
        if what == "steer":
            s.agent.steer(note("s"))
        else:
            s.agent.cancel()
        return ToolOutput("disk full", is_error=True, code="DISK_FULL")

    async with stage(Answer(calls=[Call("failing")]), tools=[failing]) as s:
        await s.ask("a")
        assert "result call_1 DISK_FULL" in s.log
        assert s.results() == {"call_1": "disk full"}


@pytest.mark.rule("K2", "L8")
async def test_a_callback_that_fails_between_tools_does_not_lose_the_later_ones() -> None:
    failed: list[int] = []

    @tool
    async def one(n: int) -> int:
        return n

    def check(outcome: Any, proceed: Any) -> Any:
        if not failed:
            failed.append(1)
            raise RuntimeError("the steer check broke")
        return proceed()

    async with stage(Answer(calls=[Call("one", {"n": n}) for n in (1, 2, 3)]), tools=[one]) as s:
        s.agent.scope.on(TOOLS_POST_EXECUTE, check)
        await s.ask("a")
        assert [text for text in s.log if text.startswith("result")] == [
            "result call_1 HOOK_FAILED",
            "result call_2 ok",
            "result call_3 ok",
        ]
        assert "the steer check broke" in s.results()["call_1"]
        assert s.ends == ["completed"]


@pytest.mark.rule("M2", "I5")
async def test_a_message_does_not_abort_running_maintenance(autojump_clock: MockClock) -> None:
    async def job(signal: Signal) -> str:
        await trio.sleep(0.5)
        return "compacted"

    async with stage() as s:
        running = s.agent.run_maintenance(job)
        await trio.sleep(0.1)
        s.agent.steer(note("s"))
        s.agent.followup(note("f"))
        s.agent.inject(note("i"))
        assert await running == "compacted"
        await s.agent.when_idle()
        assert users(s) == ["s", "i", "f"]
        assert len(s.requests) == 1


@pytest.mark.rule("M2", "D6", "I5")
async def test_a_message_typed_during_maintenance_between_turns_is_not_refused_when_it_ends() -> None:
    gate = Gate()

    async def job(signal: Signal) -> None:
        await gate.wait()

    def sweep(told: Any) -> None:
        if isinstance(told.event.data, TurnEnd) and told.event.data.turn == 1:
            s.agent.run_maintenance(job)

    async with stage() as s:
        s.agent.scope.on(SESSION_EVENT, sweep)
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.steer(note("s"))
        s.agent.followup(note("f"))
        gate.open()
        await s.agent.when_idle()
        assert users(s) == ["a", "s", "f"]
        assert s.ends == ["completed", "completed"]


@pytest.mark.rule("L6", "D6", "D8")
@pytest.mark.parametrize("then", ["answers", "fails", "two steers"])
async def test_a_steered_turn_settles_once_after_the_steered_step(then: str) -> None:
    gate, settled_with = Gate(), []

    async def wait() -> None:
        settled_with.append(await s.agent.when_idle())

    second = talk(ModelFailure(Failure("no", "SERVER"))) if then == "fails" else "steered answer"
    async with stage(talk("final", gate), second) as s, trio.open_nursery() as nursery:
        s.agent.followup(note("a"))
        nursery.start_soon(wait)
        await gate.reached()
        receipts = [s.agent.steer(note(f"s{index}")) for index in range(2 if then == "two steers" else 1)]
        gate.open()
        await s.agent.when_idle()
        await settled()
        assert len(settled_with) == 1
        assert isinstance(settled_with[0], Errored if then == "fails" else Completed)
        assert [await receipt.outcome() for receipt in receipts] == [Admitted(1, 2)] * len(receipts)
        assert len(s.requests) == 2
