"""What an agent's life looks like from outside (contract §2, L2–L10)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.stage import Gate, note, settled, stage, talk
from treadle import (
    AgentBusy,
    AgentDisposed,
    AgentOptions,
    Answer,
    Call,
    Completed,
    MisuseError,
    Signal,
    State,
    TreadleError,
    tool,
)
from treadle.agent import register_agent_option
from treadle.hooks import PRE_STEP, SESSION_EVENT, TURN_STOPPING, Reject
from treadle.session import StepStart, TurnEnd, TurnStart


@pytest.mark.rule("L2")
async def test_a_followup_to_an_idle_agent_opens_its_turn_in_the_call() -> None:
    async with stage("hello") as s:
        s.agent.followup(note("a"))
        assert s.full_log == ["inbox next-turn @0 +a", "turn/start 1", "inbox next-turn @0 -1"]
        assert (s.agent.status, s.agent.state, s.pending) == ("running", State.ADMISSION, ([], []))
        await s.agent.when_idle()


@pytest.mark.rule("L2")
async def test_a_wake_opens_its_turn_even_when_the_message_is_withdrawn_at_once() -> None:
    async with stage("hello") as s:
        s.agent.followup(note("a"))
        assert s.agent.inbox.remove("a") is False
        await s.agent.when_idle()
        assert s.requests == [["user a"]]


@pytest.mark.rule("L3")
async def test_a_failed_turn_leaves_the_rest_parked_until_the_next_wake() -> None:
    async with stage(talk(RuntimeError("no")), "two", "three", "four") as s:
        for text in "abc":
            s.agent.followup(note(text))
        await s.agent.when_idle()
        assert s.pending == (["b", "c"], [])
        assert [one.text for one in s.agent.parked] == ["b", "c"]
        assert s.notices[-2:] == ["status idle", "parked b c"]
        await s.ask("d")
        assert [asked[-1] for asked in s.requests] == ["user a", "user b", "user c", "user d"]
        assert s.agent.parked == ()


@pytest.mark.rule("L3", "T2")
async def test_a_blocked_turn_leaves_the_rest_parked() -> None:
    async with stage() as s:
        stop = s.agent.scope.on(PRE_STEP, lambda proposal, proceed: Reject())
        s.agent.followup(note("a"))
        s.agent.followup(note("b"))
        await s.agent.when_idle()
        assert (s.ends, s.pending) == (["blocked"], (["b"], []))
        assert "parked b" in s.notices
        stop()


@pytest.mark.rule("L3")
async def test_input_that_may_not_wake_is_pending_but_not_parked() -> None:
    async with stage() as s:
        s.agent.inject(note("i"))
        s.agent.send(note("t"), "next-turn", wakeup=False)
        assert s.pending == (["t"], ["i"])
        assert s.agent.parked == ()
        assert "parked" not in " ".join(s.notices)


@pytest.mark.rule("L4")
async def test_turns_count_on_and_steps_restart() -> None:
    @tool
    async def again() -> str:
        return "ok"

    async with stage(Answer(calls=[Call("again")]), "done", "two", tools=[again]) as s:
        await s.ask("a")
        await s.ask("b")
        assert [fact.turn for fact in s.facts(TurnStart)] == [1, 2]
        assert [(fact.turn, fact.step) for fact in s.facts(StepStart)] == [(1, 1), (1, 2), (2, 1)]


@pytest.mark.rule("L5")
async def test_status_alternates_and_running_may_span_turns() -> None:
    async with stage("one", "two", "three") as s:
        for text in "abc":
            s.agent.followup(note(text))
        await s.agent.when_idle()
        assert [told for told in s.notices if told.startswith("status")] == ["status running", "status idle"]
        assert s.ends == ["completed"] * 3


@pytest.mark.rule("L5", "D4")
async def test_a_replayed_wake_shows_idle_and_then_running() -> None:
    gate = Gate()
    async with stage(talk("x", gate), "two") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        s.agent.followup(note("b"))
        await s.agent.when_idle()
        statuses = [told.removeprefix("status ") for told in s.notices if told.startswith("status")]
        assert statuses == ["running", "idle", "running", "idle"]


@pytest.mark.rule("L6")
async def test_when_idle_of_a_resting_agent_returns_none() -> None:
    async with stage("one") as s:
        assert await s.agent.when_idle() is None
        await s.ask("a")
        assert await s.agent.when_idle() is None


@pytest.mark.rule("L6")
async def test_when_idle_follows_replacement_work_and_returns_the_last_reason(autojump_clock: MockClock) -> None:
    gate = Gate()
    async with stage(talk("x", gate), "two") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        s.agent.followup(note("b"))
        assert await s.agent.when_idle() == Completed()
        assert s.ends == ["aborted user", "completed"]


@pytest.mark.rule("L6")
async def test_ten_waiters_wake_once_each() -> None:
    gate = Gate()
    woken: list[object] = []

    async def wait() -> None:
        woken.append(await s.agent.when_idle())

    async with stage(talk(gate, "x"), "two") as s, trio.open_nursery() as nursery:
        s.agent.followup(note("a"))
        s.agent.followup(note("b"))
        for _ in range(10):
            nursery.start_soon(wait)
        await gate.reached()
        await settled()
        assert woken == []
        gate.open()
        await s.agent.when_idle()
        await settled()
        assert woken == [Completed()] * 10


@pytest.mark.rule("L6")
async def test_when_idle_waits_for_maintenance_and_for_a_reservation() -> None:
    gate = Gate()
    done: list[str] = []

    async def wait(what: str) -> None:
        await s.agent.when_idle()
        done.append(what)

    async def job(signal: Signal) -> None:
        await gate.wait()

    async with stage() as s, trio.open_nursery() as nursery:
        s.agent.run_maintenance(job)
        nursery.start_soon(wait, "maintenance")
        await settled()
        assert done == []
        gate.open()
        await settled()
        release = s.agent.reserve_turn_admission()
        assert release is not None
        nursery.start_soon(wait, "reservation")
        await settled()
        assert done == ["maintenance"]
        release()
        await settled()
        assert done == ["maintenance", "reservation"]


@pytest.mark.rule("L6")
@pytest.mark.parametrize("where", ["tool", "tool task", "thread", "pre-step", "turn-stopping"])
async def test_waiting_for_oneself_raises_instead_of_hanging(where: str) -> None:
    refused: list[str] = []

    async def wait() -> None:
        try:
            await s.agent.when_idle()
        except MisuseError as error:
            refused.append(str(error))

    @tool
    async def own() -> None:
        if where == "tool task":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
        elif where == "tool":
            await wait()

    @tool
    def threaded() -> None:
        if where == "thread":
            s.host.await_from_thread(wait)

    async def hook(payload: Any, *proceed: Any) -> Any:
        await wait()
        return await proceed[0]() if proceed else None

    async with stage(Answer(calls=[Call("own"), Call("threaded")]), tools=[own, threaded]) as s:
        if where == "pre-step":
            s.agent.scope.on(PRE_STEP, hook)
        if where == "turn-stopping":
            s.agent.scope.on(TURN_STOPPING, hook)
        with trio.fail_after(5):
            await s.ask("a")
        assert refused
        assert "would never return (L6)" in refused[0]
        assert s.ends == ["completed"]


@pytest.mark.rule("L6", "D2")
@pytest.mark.parametrize("kind", ["worker thread", "plain thread"])
async def test_a_foreign_thread_may_wait_through_the_host(kind: str) -> None:
    gate, waiting, over = Gate(), trio.Event(), trio.Event()
    waited: list[object] = []

    async def wait() -> object:
        waiting.set()
        return await s.agent.when_idle()

    def elsewhere() -> None:
        waited.append(s.host.await_from_thread(wait))
        s.host.from_thread(over.set)

    async with stage(talk(gate, "x")) as s, trio.open_nursery() as nursery:
        s.agent.followup(note("a"))
        if kind == "plain thread":
            threading.Thread(target=elsewhere).start()
        else:
            nursery.start_soon(trio.to_thread.run_sync, elsewhere)
        await waiting.wait()
        await settled()
        gate.open()
        await over.wait()
        assert waited == [Completed()]


@pytest.mark.rule("L7")
async def test_an_idle_agent_owns_no_task() -> None:
    async with stage("one", "two", listen=False) as s:
        before = trio.lowlevel.current_statistics().tasks_living
        await s.ask("a")
        await settled()
        assert trio.lowlevel.current_statistics().tasks_living == before
        s.agent.followup(note("b"))
        s.agent.cancel()
        await s.agent.when_idle()
        await settled()
        assert trio.lowlevel.current_statistics().tasks_living == before


@pytest.mark.rule("L8", "T9")
async def test_after_a_failing_hook_the_next_wake_works() -> None:
    def fail(proposal: object, proceed: object) -> Reject:
        raise RuntimeError("broken hook")

    async with stage("one") as s:
        stop = s.agent.scope.on(PRE_STEP, fail)
        await s.ask("a")
        stop()
        await s.ask("b")
        assert s.ends == ["error UNKNOWN", "completed"]
        assert [error.failure.message for error in s.errors] == ["RuntimeError: broken hook"]


@pytest.mark.rule("L9")
@pytest.mark.parametrize("when", ["disposal", "disposed"])
async def test_a_disposed_agent_refuses_every_delivery_and_inbox_operation(when: str) -> None:
    gate = Gate()

    @tool
    async def stubborn() -> str:
        with trio.CancelScope(shield=True):
            await gate.wait()
        return "done"

    async with stage(Answer(calls=[Call("stubborn")]), tools=[stubborn]) as s:
        agent, inbox = s.agent, s.agent.inbox
        agent.followup(note("a"))
        await gate.reached()
        agent.send(note("q"), "next-turn", wakeup=False)
        disposal = s.handle.dispose(keep_inbox=True)
        if when == "disposed":
            gate.open()
            await disposal
        assert agent.state.value == when
        for call in (
            lambda: agent.followup(note("x")),
            lambda: agent.steer(note("x")),
            lambda: agent.inject(note("x")),
            lambda: inbox.append("next-turn", note("x")),
            lambda: inbox.remove("q"),
            lambda: inbox.replace("q", note("x")),
            inbox.clear,
            lambda: agent.update_inbox("q", "edit", "x"),
            lambda: agent.run_maintenance(trio.sleep_forever),  # type: ignore[arg-type]
        ):
            with pytest.raises(AgentDisposed):
                call()
        assert s.pending == (["q"], [])
        gate.open()
        await disposal


@pytest.mark.rule("L1", "C1")
async def test_calls_that_have_no_row_refine_to_nothing_or_to_a_clear_error() -> None:
    gate = Gate()
    async with stage(talk(gate, "x")) as s:
        s.agent.followup(note("a"))
        with pytest.raises(AgentBusy):
            s.agent.run_maintenance(trio.sleep_forever)  # type: ignore[arg-type]
        gate.open()
        await s.agent.when_idle()
        first = s.handle.dispose()
        assert s.handle.dispose() is first
        await first
        s.agent.cancel()
        assert s.agent.state is State.DISPOSED


@pytest.mark.rule("L1")
async def test_a_failure_during_convergence_is_reported_and_the_end_stays_aborted() -> None:
    gate = Gate()

    @tool
    async def fine() -> None:
        await gate.wait()

    async def model_that_fails_when_cancelled(request: object):
        try:
            await gate.wait()
        finally:
            raise ZeroDivisionError
        yield

    async with stage(model_that_fails_when_cancelled, tools=[fine]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert s.ends == ["aborted user"]
        assert [type(error.error) for error in s.errors] == [ZeroDivisionError]


@pytest.mark.rule("L10")
async def test_the_handle_reads_and_does_not_write() -> None:
    async with stage("one") as s:
        agent = s.agent
        assert agent.id == agent.session.id == agent.session.header.id
        assert agent.options.provider == "scripted"
        assert agent.status == "idle"
        assert agent.scope.name == agent.id
        assert repr(agent) == f"<Agent {agent.id} idle>"
        assert repr(agent.inbox) == "<Inbox next-turn=0 next-step=0>"
        for name in ("id", "status", "state", "inbox", "parked", "accepts_next_step"):
            with pytest.raises(AttributeError):
                setattr(agent, name, None)


@pytest.mark.rule("L10")
def test_plugins_register_further_agent_options() -> None:
    def positive(value: int) -> None:
        if value <= 0:
            raise ValueError("positive, please")

    register_agent_option("lifecycle-test/depth", positive)
    register_agent_option("lifecycle-test/free")
    options = AgentOptions(extra={"lifecycle-test/depth": 2, "lifecycle-test/free": None})
    assert options.extra["lifecycle-test/depth"] == 2
    with pytest.raises(ValueError, match="positive"):
        AgentOptions(extra={"lifecycle-test/depth": 0})
    with pytest.raises(MisuseError, match="no plugin registered"):
        AgentOptions(extra={"lifecycle-test/unknown": 1})
    with pytest.raises(MisuseError, match="registered already"):
        register_agent_option("lifecycle-test/depth")


@pytest.mark.rule("L10", "Q4", "T11", "K4", "C10")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", 0),
        ("max_tokens", 1.5),
        ("max_tokens", True),
        ("max_steps_per_turn", -1),
        ("max_parallel_tool_calls", 0),
        ("max_parallel_tool_calls", None),
        ("convergence_warning", 0),
        ("convergence_warning", "5"),
        ("convergence_warning", float("nan")),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(MisuseError, match=name):
        AgentOptions(**{name: value})  # type: ignore[arg-type]


@pytest.mark.rule("L5", "H4")
async def test_a_listener_of_the_last_turns_end_acts_on_an_idle_agent() -> None:
    seen: list[str] = []

    def look(told: object) -> None:
        if isinstance(told.event.data, TurnEnd) and not seen:  # type: ignore[attr-defined]
            seen.append(s.agent.status)
            s.agent.followup(note("b"))
            seen.append(s.agent.status)

    async with stage("one", "two") as s:
        s.agent.scope.on(SESSION_EVENT, look)
        await s.ask("a")
        assert seen == ["idle", "running"]
        assert s.ends == ["completed", "completed"]


def test_every_error_has_a_stable_code() -> None:
    codes = [AgentBusy.code, AgentDisposed.code, MisuseError.code, TreadleError.code]
    assert codes == ["AGENT_BUSY", "AGENT_DISPOSED", "MISUSE", "TREADLE"]
