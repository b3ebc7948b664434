"""How messages reach an agent (contract §4 D1–D7)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio

from tests.stage import Gate, note, settled, stage, talk
from treadle import (
    Admitted,
    Answer,
    Block,
    Call,
    DuplicateMessage,
    InvalidMessage,
    MisuseError,
    Reasoning,
    Receipt,
    Rejected,
    Text,
    ToolCall,
    ToolRun,
    UserMessage,
    tool,
)
from treadle.hooks import INBOX_DISCARDED, INBOX_INSERTED, PRE_STEP, TURN_STOPPING
from treadle.loop.driver import Driver
from treadle.models import HookSource, ToolResult, ToolSource
from treadle.words.messages import MAX_BLOCKS

# --- D1 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D1")
async def test_send_and_its_three_presets_differ_in_target_and_wake_only() -> None:
    async with stage() as s:
        release = s.agent.reserve_turn_admission()
        assert release is not None
        s.agent.inject(note("i"))
        assert s.agent.parked == ()
        s.agent.steer(note("s"))
        s.agent.followup(note("f"))
        s.agent.send(note("i2"), "next-step", wakeup=False)
        s.agent.send(note("f2"), "next-turn", wakeup=False)
        assert s.pending == (["f", "f2"], ["i", "s", "i2"])
        s.agent.cancel()
        release()


@pytest.mark.rule("D1")
async def test_a_target_that_is_none_is_refused() -> None:
    async with stage() as s:
        with pytest.raises(MisuseError, match="'next-turn' or 'next-step'"):
            s.agent.send(note("a"), "soon", wakeup=True)  # type: ignore[arg-type]
        assert s.full_log == []


@pytest.mark.rule("D1", "D7")
async def test_next_turn_without_wake_stays_until_something_wakes() -> None:
    async with stage("one", "two") as s:
        s.agent.send(note("a"), "next-turn", wakeup=False)
        await settled()
        assert (s.agent.status, s.pending) == ("idle", (["a"], []))
        await s.ask("b")
        assert [asked[-1] for asked in s.requests] == ["user a", "user b"]


# --- D2 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D2")
async def test_every_call_from_a_foreign_thread_raises_and_changes_nothing() -> None:
    async with stage() as s:
        agent, inbox = s.agent, s.agent.inbox
        agent.send(note("q"), "next-turn", wakeup=False)
        before = s.full_log
        calls = (
            lambda: agent.followup(note("x")),
            lambda: agent.steer(note("x")),
            lambda: agent.inject(note("x")),
            agent.cancel,
            agent.reserve_turn_admission,
            lambda: agent.run_maintenance(trio.sleep_forever),  # type: ignore[arg-type]
            lambda: agent.update_inbox("q", "remove"),
            lambda: inbox.append("next-turn", note("x")),
            lambda: inbox.splice("next-turn", 0, 1),
            lambda: inbox.remove("q"),
            lambda: inbox.replace("q", note("x")),
            inbox.clear,
            s.handle.dispose,
        )
        refused: list[str] = []

        def misuse() -> None:
            for call in calls:
                try:
                    call()
                except MisuseError as error:
                    refused.append(str(error))

        await trio.to_thread.run_sync(misuse)
        assert len(refused) == len(calls)
        assert all("go through host.from_thread" in text for text in refused)
        assert (s.full_log, agent.status) == (before, "idle")


@pytest.mark.rule("D2")
async def test_a_release_from_a_foreign_thread_raises_and_holds_on() -> None:
    async with stage("one") as s:
        release = s.agent.reserve_turn_admission()
        assert release is not None
        with pytest.raises(MisuseError):
            await trio.to_thread.run_sync(release)
        s.agent.followup(note("a"))
        assert s.agent.status == "idle"
        release()
        await s.agent.when_idle()
        assert s.ends == ["completed"]


@pytest.mark.rule("D2")
@pytest.mark.parametrize("kind", ["worker thread", "plain thread"])
async def test_the_hosts_thread_entry_delivers_from_any_thread(kind: str) -> None:
    got: list[Receipt] = []
    arrived = trio.Event()

    def deliver() -> None:
        got.append(s.host.from_thread(s.agent.followup, note("a")))
        s.host.from_thread(arrived.set)

    async with stage("one") as s:
        if kind == "plain thread":
            threading.Thread(target=deliver).start()
            await arrived.wait()
        else:
            await trio.to_thread.run_sync(deliver)
        assert await got[0].outcome() == Admitted(1, 1)
        await s.agent.when_idle()
        assert s.requests == [["user a"]]


@pytest.mark.rule("D2", "H4")
async def test_messages_are_taken_from_listeners_hooks_and_tools() -> None:
    @tool
    async def sender(run: ToolRun) -> str:
        run.agent.inject(note("from tool"))
        return "ok"

    def from_listener(told: Any) -> None:
        if told.message.id == "a":
            s.agent.inject(note("from listener"))

    def from_hook(proposal: Any, proceed: Any) -> Any:
        if proposal.step == 1:
            s.agent.inject(note("from hook"))
        return proceed()

    async with stage(Answer(calls=[Call("sender")]), "done", tools=[sender]) as s:
        s.agent.scope.on(INBOX_INSERTED, from_listener)
        s.agent.scope.on(PRE_STEP, from_hook)
        await s.ask("a")
        assert [line for line in s.log if line.startswith("user")] == [
            "user a",
            "user from listener",
            "user from hook",
            "user from tool",
        ]


# --- D3 ---------------------------------------------------------------------------------------------------------------

WRONG: dict[str, Any] = {
    "text that is no message": b"bytes",
    "a dict": {"id": "a", "content": []},
    "an empty id": UserMessage("", (Text("x"),)),
    "an id that is no text": UserMessage(5, (Text("x"),)),  # type: ignore[arg-type]
    "an endless id": UserMessage("x" * 513, (Text("x"),)),
    "an id with a lone surrogate": UserMessage("\ud800", (Text("x"),)),
    "no content": UserMessage("a", ()),
    "content that is no tuple": UserMessage("a", [Text("x")]),  # type: ignore[arg-type]
    "too many blocks": UserMessage("a", (Text("x"),) * (MAX_BLOCKS + 1)),
    "a block that is none": UserMessage("a", ("x",)),  # type: ignore[arg-type]
    "text that is no text": UserMessage("a", (Text(5),)),  # type: ignore[arg-type]
    "text with a lone surrogate": UserMessage("a", (Text("\udfff"),)),
    "a block with wrong fields": UserMessage("a", (Reasoning(5),)),  # type: ignore[arg-type]
    "a block that JSON cannot hold": UserMessage("a", (Reasoning("r", float("nan")),)),
    "a block that comes back changed": UserMessage("a", (Reasoning("r", (1, 2)),)),
    "a block that cannot be encoded": UserMessage("a", (Reasoning("r", object()),)),
    "no source": UserMessage("a", (Text("x"),), None),  # type: ignore[arg-type]
    "a source with wrong fields": UserMessage("a", (Text("x"),), ToolSource(5)),  # type: ignore[arg-type]
    "a source with a lone surrogate": UserMessage("a", (Text("x"),), HookSource("\ud800")),
    "another role": UserMessage("a", (Text("x"),), role="system"),  # type: ignore[arg-type]
}


@pytest.mark.rule("D3", "S1")
@pytest.mark.parametrize("kind", WRONG)
async def test_what_is_no_acceptable_message_changes_nothing_anywhere(kind: str) -> None:
    async with stage("one") as s:
        for call in (
            s.agent.followup,
            s.agent.steer,
            s.agent.inject,
            lambda one: s.agent.inbox.append("next-turn", one),
        ):
            with pytest.raises(InvalidMessage):
                call(WRONG[kind])
        assert (s.full_log, s.told, s.pending, s.agent.status) == ([], [], ([], []), "idle")


@pytest.mark.rule("D3", "S1")
async def test_blocks_and_sources_of_every_known_kind_are_accepted() -> None:
    content = (Text("é\u2028\U0001f600"), Reasoning("r", {"k": [1]}))
    async with stage("one") as s:
        s.agent.followup(UserMessage("a", content, ToolSource("c9")))
        await s.agent.when_idle()
        kept = s.model.requests[0].messages[0]
        assert kept == UserMessage("a", content, ToolSource("c9"))


@pytest.mark.rule("D3", "N1")
@pytest.mark.parametrize("block", [ToolCall("c", "n", "{}"), ToolResult("c")])
async def test_a_call_or_a_result_in_a_users_message_is_refused(block: Block) -> None:
    async with stage("one") as s:
        with pytest.raises(InvalidMessage, match="the log's own"):
            s.agent.followup(UserMessage("a", (block,)))
        assert not s.agent.session.events


@pytest.mark.rule("D3", "I1")
async def test_a_refused_duplicate_keeps_the_first_receipt() -> None:
    async with stage("one") as s:
        receipt = s.agent.send(note("a"), "next-turn", wakeup=False)
        with pytest.raises(DuplicateMessage):
            s.agent.send(note("a"), "next-turn", wakeup=False)
        s.agent.inbox.remove("a")
        assert await receipt.outcome() == Rejected("discarded")
        s.agent.inbox.append("next-turn", note("b"))
        with pytest.raises(DuplicateMessage):
            s.agent.followup(note("b"))
        assert isinstance(s.agent.engine, Driver)
        assert s.agent.engine.receipts == {}


# --- D4, D5 -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D4")
async def test_a_steer_while_a_cancel_converges_becomes_the_next_turn() -> None:
    gate = Gate()
    async with stage(talk("x", gate), "two") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        s.agent.steer(note("s"))
        assert s.pending == (["s"], [])
        s.agent.inject(note("i"))
        assert s.pending == (["s"], ["i"])
        await s.agent.when_idle()
        assert s.ends == ["aborted user", "completed"]
        assert s.requests[-1][-2:] == ["user i", "user s"]


@pytest.mark.rule("D4", "O7")
@pytest.mark.parametrize("kind", ["task", "thread"])
async def test_what_a_cancelled_tool_sends_keeps_its_target_and_restarts_nothing(kind: str) -> None:
    gate = Gate()

    def send() -> None:
        s.agent.followup(note("f"))
        s.agent.steer(note("s"))
        s.agent.inject(note("i"))

    @tool
    async def task() -> None:
        try:
            await gate.wait()
        finally:
            send()

    @tool
    def thread() -> None:
        try:
            s.host.await_from_thread(gate.wait)
        finally:
            s.host.from_thread(send)

    async with stage(Answer(calls=[Call(kind)]), "two", tools=[task, thread]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        assert s.ends == ["aborted user"]
        assert s.pending == (["f"], ["s", "i"])
        assert [one.text for one in s.agent.parked] == ["s", "f"]


@pytest.mark.rule("D4")
async def test_what_somebody_else_sends_meanwhile_is_replayed_although_the_tool_sent_too() -> None:
    gate = Gate()

    @tool
    async def parting() -> None:
        try:
            await gate.wait()
        finally:
            s.agent.followup(note("own"))

    async with stage(Answer(calls=[Call("parting")]), "two", "three", tools=[parting]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        s.agent.followup(note("other"))
        await s.agent.when_idle()
        assert s.ends == ["aborted user", "completed", "completed"]


@pytest.mark.rule("D4", "H4")
async def test_a_listener_told_during_convergence_is_nobodys_own_code() -> None:
    gate = Gate()

    def resend(told: Any) -> None:
        if told.message.id == "q":
            s.agent.followup(note("again"))

    async with stage(talk("x", gate), "two") as s:
        s.agent.scope.on(INBOX_DISCARDED, resend)
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.followup(note("q"))
        s.agent.cancel()
        await s.agent.when_idle()
        assert s.requests[-1][-1] == "user again"


@pytest.mark.rule("D5", "C2")
async def test_a_second_cancel_clears_the_latched_wake() -> None:
    gate = Gate()
    async with stage(talk("x", gate), "two") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        s.agent.followup(note("b"))
        s.agent.cancel()
        s.agent.send(note("c"), "next-turn", wakeup=False)
        await s.agent.when_idle()
        assert s.ends == ["aborted user"]
        assert s.pending == (["c"], [])


@pytest.mark.rule("D5")
async def test_a_second_cancel_that_keeps_the_inbox_keeps_the_latch() -> None:
    gate = Gate()
    async with stage(talk("x", gate), "two") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        s.agent.followup(note("b"))
        s.agent.cancel(keep_inbox=True)
        await s.agent.when_idle()
        assert s.ends == ["aborted user", "completed"]


@pytest.mark.rule("D5")
@pytest.mark.parametrize("how", ["remove", "clear", "splice"])
async def test_removing_the_last_message_that_could_use_the_wake_suppresses_the_replay(how: str) -> None:
    gate = Gate()
    async with stage(talk("x", gate), "two") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        s.agent.inject(note("i"))
        s.agent.followup(note("b"))
        if how == "remove":
            s.agent.inbox.remove("b")
        elif how == "clear":
            s.agent.inbox.clear()
        else:
            s.agent.inbox.splice("next-turn", 0, 1)
        s.agent.send(note("c"), "next-turn", wakeup=False)
        await s.agent.when_idle()
        assert s.ends == ["aborted user"]


# --- D6, D7 -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D6")
@pytest.mark.parametrize("phase", ["admission", "step", "turn_stopping"])
async def test_steering_enters_at_the_next_step_of_the_same_turn(phase: str) -> None:
    steered: list[str] = []

    def steer(payload: Any, *proceed: Any) -> Any:
        if s.agent.state.value == phase and not steered:
            steered.append(phase)
            s.agent.steer(note("s"))
        return proceed[0]() if proceed else None

    def speak(request: Any) -> str:
        steer(None)
        return "one"

    async with stage(speak, "two") as s:
        s.agent.scope.on(PRE_STEP, steer)
        s.agent.scope.on(TURN_STOPPING, steer)
        await s.ask("a")
        assert s.log[2:] == [
            "user a",
            "assistant 'one'",
            "step/end 1.1",
            "step/start 1.2",
            "user s",
            "assistant 'two'",
            "step/end 1.2",
            "turn/end 1 completed",
        ]


@pytest.mark.rule("D6")
async def test_steering_during_a_batch_skips_no_call_and_follows_all_results() -> None:
    gate = Gate()

    @tool
    async def first() -> None:
        await gate.wait()

    @tool
    async def second() -> str:
        return "ran"

    calls = [Call("first"), Call("second"), Call("second")]
    async with stage(Answer(calls=calls), tools=[first, second]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.steer(note("s"))
        gate.open()
        await s.agent.when_idle()
        assert s.requests[1][-4:] == ["result call_1", "result call_2", "result call_3", "user s"]
        assert s.results()["call_3"] == "ran"


@pytest.mark.rule("D7")
async def test_an_injection_while_idle_opens_nothing_and_enters_before_the_next_prompt() -> None:
    async with stage("one") as s:
        s.agent.inject(note("i"))
        await settled()
        assert s.agent.status == "idle"
        await s.ask("a")
        assert s.requests == [["user i", "user a"]]


@pytest.mark.rule("D7")
async def test_an_injection_during_the_final_answer_forces_no_step() -> None:
    gate = Gate()
    async with stage(talk(gate, "one"), "two") as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.inject(note("i"))
        gate.open()
        await s.agent.when_idle()
        assert (len(s.requests), s.pending) == (1, ([], ["i"]))


@pytest.mark.rule("D7")
async def test_an_injection_during_a_tool_rides_with_the_owed_step() -> None:
    gate = Gate()

    @tool
    async def slow() -> None:
        await gate.wait()

    async with stage(Answer(calls=[Call("slow")]), tools=[slow]) as s:
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.inject(note("i"))
        gate.open()
        await s.agent.when_idle()
        assert s.requests[1][-1] == "user i"
