"""One task between turns (contract §7)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import trio

from tests.stage import Gate, Stage, leaves, note, settled, stage, talk
from treadle import AgentBusy, ByHook, ByUser, Signal, State
from treadle.errors import MaintenanceCancelled
from treadle.hooks import AGENT_STATUS, MAINTENANCE, PRE_STEP, SESSION_EVENT, Reject


@pytest.mark.rule("M1", "M5")
async def test_the_call_claims_the_state_and_the_task_starts_at_the_next_tick_with_a_signal() -> None:
    gate = Gate()
    signals: list[Signal] = []

    async def job(signal: Signal) -> str:
        signals.append(signal)
        await gate.wait()
        return "swept"

    async with stage() as s:
        running = s.agent.run_maintenance(job)
        assert (s.agent.state, s.agent.status, signals) == (State.MAINTENANCE, "idle", [])
        await settled()
        assert [signal.cancelled for signal in signals] == [False]
        gate.open()
        assert await running == "swept"
        assert s.agent.state is State.IDLE
        assert s.full_log == []


@pytest.mark.rule("M5")
async def test_the_task_runs_awaited_or_not_and_a_cancelled_waiter_only_stops_waiting() -> None:
    gate = Gate()
    done: list[str] = []

    async def job(signal: Signal) -> str:
        await gate.wait()
        done.append("done")
        return "result"

    async with stage() as s:
        running = s.agent.run_maintenance(job)
        with trio.move_on_after(0):
            await running
        await gate.reached()
        gate.open()
        await s.agent.when_idle()
        assert done == ["done"]
        assert await running == "result"
        assert await running == "result"


@pytest.mark.rule("M1")
async def test_maintenance_outside_true_idle_raises_at_once() -> None:
    gate = Gate()

    async def job(signal: Signal) -> None:
        await gate.wait()

    async with stage(talk(gate, "x")) as s:
        s.agent.followup(note("a"))
        with pytest.raises(AgentBusy, match="await when_idle"):
            s.agent.run_maintenance(job)
        await gate.reached()
        gate.open()
        await s.agent.when_idle()
        gate = Gate()
        first = s.agent.run_maintenance(job)
        with pytest.raises(AgentBusy):
            s.agent.run_maintenance(job)
        await settled()
        s.agent.cancel()
        with pytest.raises(AgentBusy):
            s.agent.run_maintenance(job)
        with pytest.raises(MaintenanceCancelled):
            await first


@pytest.mark.rule("M1", "H4", "D4")
async def test_maintenance_is_refused_while_a_latched_wake_is_about_to_be_replayed() -> None:
    gate = Gate()
    refused: list[str] = []

    async def job(signal: Signal) -> None: ...

    def try_it(told: Any) -> None:
        if told.status == "idle":
            try:
                s.agent.run_maintenance(job)
            except AgentBusy as error:
                refused.append(error.code)
            assert s.agent.reserve_turn_admission() is None

    async with stage(talk("x", gate), "two") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        stop = s.agent.scope.on(AGENT_STATUS, try_it)
        s.agent.cancel()
        s.agent.followup(note("b"))
        while len(s.ends) < 1:
            await trio.lowlevel.checkpoint()
        stop()
        await s.agent.when_idle()
        assert refused == ["AGENT_BUSY"]
        assert s.ends == ["aborted user", "completed"]


@pytest.mark.rule("M2")
async def test_deliveries_are_accepted_and_stay_pending_and_never_stop_the_task() -> None:
    gate = Gate()

    async def job(signal: Signal) -> bool:
        await gate.wait()
        return signal.cancelled

    async with stage("one", "two") as s:
        running = s.agent.run_maintenance(job)
        await gate.reached()
        s.agent.inject(note("i"))
        s.agent.steer(note("s"))
        s.agent.followup(note("f"))
        await settled()
        assert (s.agent.status, s.pending) == ("idle", (["f"], ["i", "s"]))
        gate.open()
        assert await running is False
        await s.agent.when_idle()
        assert s.requests == [["user i", "user s", "user f"]]
        assert s.notices.count("status running") == 1


@pytest.mark.rule("M2", "D7")
async def test_passive_input_alone_starts_nothing_afterwards() -> None:
    gate = Gate()

    async def job(signal: Signal) -> None:
        await gate.wait()

    async with stage() as s:
        running = s.agent.run_maintenance(job)
        await gate.reached()
        s.agent.inject(note("i"))
        s.agent.followup(note("f"))
        s.agent.inbox.remove("f")
        gate.open()
        await running
        await s.agent.when_idle()
        assert (s.log, s.pending) == ([], ([], ["i"]))


@pytest.mark.rule("M3", "L8")
@pytest.mark.parametrize("error", [ValueError("odd"), BaseException("odder"), ExceptionGroup("g", [KeyError("k")])])
async def test_the_tasks_own_exception_reaches_the_caller_unchanged_and_the_wake_is_released(
    error: BaseException,
) -> None:
    async def job(signal: Signal) -> None:
        s.agent.followup(note("f"))
        raise error

    async with stage("one") as s:
        running = s.agent.run_maintenance(job)
        with pytest.raises(type(error)) as caught:
            await running
        assert caught.value is error
        await s.agent.when_idle()
        assert s.ends == ["completed"]


@pytest.mark.rule("M3", "M4", "H9")
@pytest.mark.parametrize("tidy", ["none", "nursery", "shielded"])
async def test_a_cancelled_task_gives_its_caller_the_cause_and_never_a_bare_cancelled(tidy: str) -> None:
    gate = Gate()
    seen: list[Any] = []

    async def job(signal: Signal) -> None:
        try:
            if tidy == "nursery":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(trio.sleep_forever)
                    await gate.wait()
            await gate.wait()
        finally:
            seen.append(signal.cause)
            if tidy == "shielded":
                with trio.CancelScope(shield=True):
                    await trio.lowlevel.checkpoint()

    async with stage() as s:
        running = s.agent.run_maintenance(job)
        await gate.reached()
        cause = ByHook("enough")
        s.agent.cancel(cause)
        assert s.agent.state is State.CANCEL_CONVERGENCE
        with pytest.raises(MaintenanceCancelled) as caught:
            await running
        assert caught.value.cause is cause
        assert seen == [cause]
        assert s.agent.status == "idle"
        assert s.notices == ["cancel-requested hook"]


@pytest.mark.rule("M3")
async def test_a_task_that_finishes_although_it_was_cancelled_keeps_its_result() -> None:
    async def job(signal: Signal) -> str:
        with trio.CancelScope(shield=True):
            await signal.wait()
        return "done anyway"

    async with stage() as s:
        running = s.agent.run_maintenance(job)
        await settled()
        s.agent.cancel()
        assert await running == "done anyway"


@pytest.mark.rule("M3", "C9")
async def test_a_task_cancelled_before_it_began_never_runs() -> None:
    ran: list[int] = []

    async def job(signal: Signal) -> None:
        ran.append(1)

    async with stage() as s:
        running = s.agent.run_maintenance(job)
        s.agent.cancel()
        with pytest.raises(MaintenanceCancelled) as caught:
            await running
        assert (caught.value.cause, ran) == (ByUser(), [])


@pytest.mark.rule("M4")
@pytest.mark.parametrize("keep", [True, False])
async def test_cancel_clears_inbox_and_latch_unless_kept(keep: bool) -> None:
    gate = Gate()

    async def job(signal: Signal) -> None:
        await gate.wait()

    async with stage("one") as s:
        running = s.agent.run_maintenance(job)
        await gate.reached()
        s.agent.followup(note("f"))
        s.agent.cancel(keep_inbox=keep)
        with pytest.raises(MaintenanceCancelled):
            await running
        await s.agent.when_idle()
        assert s.ends == (["completed"] if keep else [])


@pytest.mark.rule("M4", "D4")
async def test_a_wake_after_the_cancel_of_maintenance_runs_when_it_has_converged() -> None:
    gate = Gate()

    async def job(signal: Signal) -> None:
        with trio.CancelScope(shield=True):
            await gate.wait()

    async with stage("one") as s:
        s.agent.run_maintenance(job)
        await gate.reached()
        s.agent.cancel()
        s.agent.steer(note("s"))
        assert s.pending == (["s"], [])
        gate.open()
        await s.agent.when_idle()
        assert s.requests == [["user s"]]


@pytest.mark.rule("M3", "L3")
async def test_what_was_parked_before_is_told_again_when_nothing_wakes() -> None:
    async def job(signal: Signal) -> None: ...

    async with stage() as s:
        stop = s.agent.scope.on(PRE_STEP, lambda proposal, proceed: Reject())
        s.agent.followup(note("a"))
        s.agent.followup(note("b"))
        await s.agent.when_idle()
        stop()
        await s.agent.run_maintenance(job)
        assert s.notices[-2:] == ["parked b", "parked b"]
        assert s.agent.status == "idle"


@pytest.mark.rule("M1", "L9")
async def test_disposal_cancels_maintenance() -> None:
    gate = Gate()

    async def job(signal: Signal) -> None:
        await gate.wait()

    async with stage() as s:
        running = s.agent.run_maintenance(job)
        await gate.reached()
        await s.handle.dispose(keep_inbox=True)
        with pytest.raises(MaintenanceCancelled, match="cancelled"):
            await running
        assert s.notices == ["cancel-requested disposed", "disposed"]


@pytest.mark.rule("M1", "H4")
async def test_maintenance_may_begin_from_a_listener_of_the_last_turns_end() -> None:
    results: list[str] = []

    async def job(signal: Signal) -> None:
        results.append("swept")

    def sweep(told: Any) -> None:
        if told.event.type == "turn/end":
            s.agent.run_maintenance(job)

    async with stage("one") as s:
        s.agent.scope.on(SESSION_EVENT, sweep)
        await s.ask("a")
        assert results == ["swept"]


@pytest.mark.rule("M3", "H5")
async def test_a_task_that_leaves_the_program_ends_the_host_and_tells_its_caller() -> None:
    async def job(signal: Signal) -> None:
        raise KeyboardInterrupt

    tasks: list[Any] = []

    async def body(s: Stage) -> None:
        tasks.append(s.agent.run_maintenance(job))

    s = await leaves(KeyboardInterrupt, body)
    with pytest.raises(KeyboardInterrupt):
        await tasks[0]
    assert s.agent.state is State.DISPOSED


@pytest.mark.rule("M1", "H9")
async def test_the_signal_of_maintenance_is_its_own_and_not_that_of_a_cancelled_turn() -> None:
    gate = Gate()

    async def job(signal: Signal) -> bool:
        return signal.cancelled

    async with stage(talk("x", gate)) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert await s.agent.run_maintenance(job) is False


@pytest.mark.rule("M1", "M3")
@pytest.mark.parametrize("ending", ["returns", "raises", "is cancelled"])
async def test_its_start_and_its_end_are_told_however_it_ends(ending: str) -> None:
    told: list[str] = []

    async def job(signal: Signal) -> None:
        told.append("job")
        if ending == "raises":
            raise ValueError("no")
        if ending == "is cancelled":
            await trio.sleep_forever()

    async with stage() as s:
        s.host.on(MAINTENANCE, lambda payload: told.append(f"{payload.phase} {payload.agent.state.name}"))
        running = s.agent.run_maintenance(job)
        await settled()
        if ending == "is cancelled":
            s.agent.cancel()
        await s.agent.when_idle()
        with contextlib.suppress(ValueError, MaintenanceCancelled):
            await running
    assert told == [
        "started MAINTENANCE",
        "job",
        f"ended {'CANCEL_CONVERGENCE' if ending == 'is cancelled' else 'MAINTENANCE'}",
    ]


@pytest.mark.rule("H5", "M3")
async def test_a_listener_of_its_start_that_raises_does_not_keep_it_from_running() -> None:
    def fails(_: object) -> None:
        raise ValueError("a listener")

    async def job(signal: Signal) -> str:
        return "swept"

    async with stage() as s:
        s.host.on(MAINTENANCE, fails)
        assert await s.agent.run_maintenance(job) == "swept"
        await s.agent.when_idle()
        assert len(s.errors) == 2
