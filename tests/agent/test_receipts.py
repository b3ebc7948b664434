"""What becomes of a message, and holding the next claim back (contract §4 D8)."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.stage import Gate, note, settled, stage, talk
from treadle import (
    Admitted,
    AgentBusy,
    Rejected,
    Signal,
)
from treadle.hooks import PRE_STEP, PROMPT_SUBMIT, REQUEST, BlockPrompt, Enter, Reject

# --- D8: receipts and reservations ------------------------------------------------------------------------------------


@pytest.mark.rule("D8")
async def test_a_receipt_tells_turn_and_step_of_the_admission() -> None:
    gate = Gate()
    async with stage("zero", talk(gate, "one"), "two") as s:
        await s.ask("z")
        first = s.agent.followup(note("a"))
        assert first.fate is None
        assert repr(first) == "<Receipt a: pending>"
        await gate.reached()
        assert await first.outcome() == Admitted(2, 1)
        steered = s.agent.steer(note("s"))
        gate.open()
        assert await steered.outcome() == Admitted(2, 2)
        assert await steered.outcome() == Admitted(2, 2)
        assert steered.fate == Admitted(2, 2)
        await s.agent.when_idle()


@pytest.mark.rule("D8")
@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("removed", "discarded"),
        ("cancelled while pending", "discarded"),
        ("left out", "left-out"),
        ("step rejected", "blocked"),
        ("prompt blocked", "blocked"),
        ("cancelled in admission", "aborted"),
        ("cancelled after step/start", "aborted"),
        ("failed in admission", "failed"),
        ("disposed while pending", "disposed"),
    ],
)
async def test_a_receipt_tells_why_a_message_did_not_enter(end: str, why: str) -> None:
    def decide(proposal: Any, proceed: Any) -> Any:
        if end == "left out":
            return Enter(())
        if end == "step rejected":
            return Reject()
        if end == "cancelled in admission":
            s.agent.cancel()
        if end == "failed in admission":
            raise RuntimeError
        return proceed()

    async with stage("one") as s:
        s.agent.scope.on(PRE_STEP, decide)
        if end == "prompt blocked":
            s.agent.scope.on(PROMPT_SUBMIT, lambda prompt, proceed: BlockPrompt("no"))
        if end == "cancelled after step/start":
            s.agent.scope.on(REQUEST, lambda proposal, proceed: s.agent.cancel() or proceed())
        if end in ("removed", "cancelled while pending", "disposed while pending"):
            receipt = s.agent.send(note("a"), "next-turn", wakeup=False)
            if end == "removed":
                s.agent.inbox.remove("a")
            elif end == "cancelled while pending":
                s.agent.cancel()
            else:
                await s.handle.dispose(keep_inbox=True)
        else:
            receipt = s.agent.followup(note("a"))
        with trio.fail_after(1):
            assert await receipt.outcome() == Rejected(why)
        await s.agent.when_idle()


@pytest.mark.rule("D8")
async def test_accepts_next_step_says_whether_a_steer_would_enter_the_current_turn() -> None:
    gate = Gate()
    seen: list[bool] = []

    async def job(signal: Signal) -> None:
        seen.append(s.agent.accepts_next_step)

    async with stage(talk("x", gate)) as s:
        assert s.agent.accepts_next_step is False
        await s.agent.run_maintenance(job)
        assert seen == [False]
        s.agent.followup(note("a"))
        assert s.agent.accepts_next_step is True
        await gate.reached()
        assert s.agent.accepts_next_step is True
        s.agent.cancel()
        assert s.agent.accepts_next_step is False
        await s.agent.when_idle()
        assert s.agent.accepts_next_step is False


@pytest.mark.rule("D8", "O0")
async def test_a_reservation_holds_the_next_claim_back_and_its_release_replays_the_wake() -> None:
    async with stage("one") as s:
        release = s.agent.reserve_turn_admission()
        assert release is not None
        s.agent.followup(note("a"))
        s.agent.steer(note("s"))
        await settled()
        assert (s.agent.status, s.agent.accepts_next_step, s.pending) == ("idle", False, (["a"], ["s"]))
        with pytest.raises(AgentBusy):
            s.agent.run_maintenance(trio.sleep_forever)  # type: ignore[arg-type]
        assert s.agent.reserve_turn_admission() is None
        release()
        release()
        await s.agent.when_idle()
        assert s.requests == [["user s", "user a"]]


@pytest.mark.rule("D8")
async def test_a_release_without_a_wake_starts_nothing() -> None:
    async with stage("one") as s:
        release = s.agent.reserve_turn_admission()
        assert release is not None
        s.agent.inject(note("i"))
        s.agent.send(note("t"), "next-turn", wakeup=False)
        release()
        await settled()
        assert (s.agent.status, s.pending) == ("idle", (["t"], ["i"]))


@pytest.mark.rule("D8")
async def test_a_release_made_again_frees_no_newer_reservation() -> None:
    async with stage("one") as s:
        first = s.agent.reserve_turn_admission()
        assert first is not None
        first()
        second = s.agent.reserve_turn_admission()
        assert second is not None
        first()
        s.agent.followup(note("a"))
        await settled()
        assert (s.agent.status, s.pending) == ("idle", (["a"], []))
        second()
        await s.agent.when_idle()
        assert s.requests == [["user a"]]


@pytest.mark.rule("D8")
async def test_cancel_under_a_reservation_clears_inbox_and_latch_but_not_the_reservation() -> None:
    async with stage("one") as s:
        release = s.agent.reserve_turn_admission()
        assert release is not None
        s.agent.followup(note("a"))
        s.agent.cancel()
        s.agent.send(note("b"), "next-turn", wakeup=False)
        assert s.agent.reserve_turn_admission() is None
        release()
        await settled()
        assert (s.ends, s.pending) == ([], (["b"], []))


@pytest.mark.rule("D8")
async def test_a_reservation_exists_in_idle_only() -> None:
    gate = Gate()
    async with stage(talk("x", gate)) as s:
        s.agent.followup(note("a"))
        assert s.agent.reserve_turn_admission() is None
        await gate.reached()
        s.agent.cancel()
        assert s.agent.reserve_turn_admission() is None
        await s.agent.when_idle()
        release = s.agent.reserve_turn_admission()
        assert release is not None
        await s.handle.dispose(keep_inbox=True)
        assert s.agent.reserve_turn_admission() is None
        release()


@pytest.mark.rule("D8", "L6")
async def test_a_receipt_settled_before_anyone_waits_is_there_at_once() -> None:
    async with stage("one") as s:
        receipt = s.agent.followup(note("a"))
        await s.agent.when_idle()
        assert receipt.fate == await receipt.outcome() == Admitted(1, 1)
        assert receipt.message_id == "a"


@pytest.mark.rule("D8")
async def test_any_number_of_waiters_learn_one_fate() -> None:
    fates: list[object] = []

    async def wait() -> None:
        fates.append(await receipt.outcome())

    async with stage("one") as s, trio.open_nursery() as nursery:
        receipt = s.agent.send(note("a"), "next-turn", wakeup=False)
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await settled()
        s.agent.inbox.remove("a")
        await settled()
        receipt.reach(Admitted(9, 9))
        assert fates == [Rejected("discarded")] * 2
        assert receipt.fate == Rejected("discarded")


@pytest.mark.rule("D8", "L6", "L3")
async def test_a_waiter_wakes_when_a_release_only_tells_what_is_parked() -> None:
    woken: list[object] = []

    async def wait() -> None:
        woken.append(await s.agent.when_idle())

    async with stage(talk(ValueError("no"))) as s, trio.open_nursery() as nursery:
        s.agent.followup(note("a"))
        s.agent.followup(note("b"))
        await s.agent.when_idle()
        release = s.agent.reserve_turn_admission()
        assert release is not None
        nursery.start_soon(wait)
        await settled()
        assert woken == []
        release()
        await settled()
        assert (woken, s.notices[-1]) == ([None], "parked b")
