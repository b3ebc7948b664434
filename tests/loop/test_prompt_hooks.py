"""What lets prompts in, and the signals hooks are given (contract §9, H7, H9, H10)."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio

from tests.stage import Gate, note, settled, stage, talk
from treadle import (
    ByHook,
    Signal,
    Text,
    UserMessage,
)
from treadle.hooks import PRE_STEP, PROMPT_SUBMIT, Allow, BlockPrompt
from treadle.words.signal import SignalSource

# --- H7, H9, H10 ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("H7", "H10")
async def test_prompt_submit_sees_the_claimed_prompt_and_nothing_else() -> None:
    seen: list[tuple[str, int]] = []

    def look(submission: Any, proceed: Any) -> Any:
        seen.append((submission.message.text, submission.turn))
        return proceed()

    async with stage("one", "two", "three") as s:
        s.agent.scope.on(PROMPT_SUBMIT, look)
        s.agent.inject(note("i"))
        await s.ask("a")
        s.agent.steer(note("s"))
        await s.agent.when_idle()
        await s.ask("b")
        assert seen == [("a", 1), ("b", 3)]
        assert s.ends == ["completed"] * 3


@pytest.mark.rule("H7", "H10", "T0")
async def test_an_allowed_prompt_may_change_content_and_bring_contexts_that_follow_it() -> None:
    contexts = (note("c1"), UserMessage("c2", (Text("c2"),)))

    async def rewrite(submission: Any, proceed: Any) -> Allow:
        assert await proceed() == Allow()
        return Allow((Text("rewritten"),), contexts)

    seen: list[list[str]] = []

    def look(proposal: Any, proceed: Any) -> Any:
        seen.append([one.text for one in proposal.messages])
        return proceed()

    async with stage("one") as s:
        s.agent.scope.on(PROMPT_SUBMIT, rewrite)
        s.agent.scope.on(PRE_STEP, look)
        s.agent.inject(note("i"))
        await s.ask("a")
        assert seen == [["i", "rewritten", "c1", "c2"]]
        assert s.requests == [["user i", "user rewritten", "user c1", "user c2"]]
        assert [one.id for one in s.model.requests[0].messages] == ["i", "a", "c1", "c2"]  # type: ignore[union-attr]


@pytest.mark.rule("H7", "H10")
async def test_a_blocked_prompt_ends_the_turn_and_its_companions_are_recorded() -> None:
    async with stage("one") as s:
        stop = s.agent.scope.on(PROMPT_SUBMIT, lambda submission, proceed: BlockPrompt("secrets"))
        receipts = [s.agent.inject(note("i")), s.agent.followup(note("a"))]
        await s.agent.when_idle()
        assert s.log == ["turn/start 1", "user i", "turn/end 1 blocked secrets"]
        assert [str(await receipt.outcome()) for receipt in receipts] == [
            "Admitted(turn=1, step=None)",
            "Rejected(reason='blocked')",
        ]
        stop()
        await s.ask("b")
        assert s.requests == [["user i", "user b"]]


@pytest.mark.rule("H7", "D3")
@pytest.mark.parametrize(
    "wrong", [Allow(content=()), Allow(content=(Text("\ud800"),)), Allow(additional_contexts=cast("Any", ("x",)))]
)  # type: ignore[arg-type]
async def test_a_prompt_hook_cannot_let_in_what_a_sender_could_not_send(wrong: Allow) -> None:
    async with stage() as s:
        s.agent.scope.on(PROMPT_SUBMIT, lambda submission, proceed: wrong)
        await s.ask("a")
        assert s.log == ["turn/start 1", "turn/end 1 error INVALID_MESSAGE"]


@pytest.mark.rule("H9", "C2")
async def test_a_signal_tells_the_exact_cause_and_stays_readable() -> None:
    signals: list[Signal] = []
    gate = Gate()

    def look(proposal: Any, proceed: Any) -> Any:
        signals.append(proposal.signal)
        return proceed()

    async with stage(talk("x", gate), "two") as s:
        s.agent.scope.on(PRE_STEP, look)
        s.agent.followup(note("a"))
        await gate.reached()
        signal = signals[0]
        assert (signal.cancelled, signal.cause, repr(signal)) == (False, None, "<Signal live>")
        waited: list[Any] = []

        async def wait() -> None:
            waited.append(await signal.wait())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await settled()
            cause = ByHook("budget")
            s.agent.cancel(cause)
        assert waited == [cause]
        await s.agent.when_idle()
        assert signal.cancelled
        assert signal.cause is cause
        assert await signal.wait() is cause
        assert repr(signal).startswith("<Signal cancelled")
        await s.ask("b")
        assert signals[1].cancelled is False


@pytest.mark.rule("H9", "H7")
async def test_the_signal_of_prompt_submit_covers_that_admission_only() -> None:
    signals: list[Signal] = []
    gate, held = Gate(), Gate()

    def look(submission: Any, proceed: Any) -> Any:
        signals.append(submission.signal)
        return proceed()

    async def hold(submission: Any, proceed: Any) -> Any:
        if submission.message.id == "b":
            await held.wait()
        return await proceed()

    async with stage(talk("x", gate)) as s:
        s.agent.scope.on(PROMPT_SUBMIT, look)
        s.agent.scope.on(PROMPT_SUBMIT, hold)
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        s.agent.followup(note("b"))
        await held.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert [signal.cancelled for signal in signals] == [False, True]


@pytest.mark.rule("H9", "C2")
async def test_a_signal_may_be_waited_for_by_many_and_is_set_once() -> None:
    signal, causes = SignalSource(), []

    async def wait() -> None:
        causes.append(await signal.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await settled()
        signal.cancel(ByHook("first"))
        signal.cancel(ByHook("second"))
    assert causes == [ByHook("first")] * 2
