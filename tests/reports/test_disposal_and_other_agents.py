"""Faults around disposal and agents beside each other that users met elsewhere: each test is named after the fault."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.stage import Gate, Stage, leaves, note, settled, stage, talk
from treadle import (
    AgentDisposed,
    AgentOptions,
    Answer,
    Call,
    Failure,
    ModelFailure,
    ScriptedModel,
    Signal,
    State,
    subagent,
    tool,
)
from treadle.errors import MaintenanceCancelled
from treadle.hooks import ASSISTANT_STREAM, PRE_STEP, SESSION_EVENT, FrameChunk
from treadle.models import RetryPolicy
from treadle.session import Replace, UserMessageAdded


@pytest.mark.rule("O4", "L9", "N7")
@pytest.mark.parametrize("where", ["mid-stream", "waiting to retry", "in a tool", "in maintenance"])
async def test_dispose_stops_the_request_and_everything_else_and_leaves_a_closed_turn(
    where: str, autojump_clock: MockClock
) -> None:
    gate, closed = Gate(), []

    @tool
    async def slow() -> None:
        await gate.wait()

    async def stream(request: Any) -> Any:
        try:
            await gate.wait()
            yield None
        finally:
            closed.append("stream")

    async def job(signal: Signal) -> None:
        await gate.wait()

    script = {
        "mid-stream": stream,
        "waiting to retry": talk(ModelFailure(Failure("busy", "RATE_LIMIT", 429, 30.0))),
        "in a tool": Answer(calls=[Call("slow")]),
        "in maintenance": "never",
    }[where]
    model = ScriptedModel([script], retry_policy=RetryPolicy(max_delay=60.0))
    async with stage(model=model, tools=[slow]) as s:
        running = None
        if where == "in maintenance":
            running = s.agent.run_maintenance(job)
        else:
            s.agent.followup(note("a"))
        if where == "waiting to retry":
            await trio.sleep(0.2)
            assert "llm/retry" in s.full_log
        else:
            await gate.reached()
        began = trio.current_time()
        disposal = s.handle.dispose()
        assert s.handle.dispose() is disposal
        await disposal
        assert trio.current_time() - began < 1
        assert s.ends == ([] if where == "in maintenance" else ["aborted disposed"])
        assert closed == (["stream"] if where == "mid-stream" else [])
        with pytest.raises(AgentDisposed):
            s.agent.followup(note("late"))
        if running is not None:
            with pytest.raises(MaintenanceCancelled):
                await running
        attempts = len(model.requests)
        await trio.sleep(120)
        assert len(model.requests) == attempts


@pytest.mark.rule("H5", "L8", "N7")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_a_callback_that_leaves_on_the_third_chunk_kills_no_dispatcher(kind: type[BaseException]) -> None:
    heard: list[int] = []

    def leave(told: Any) -> None:
        if isinstance(told.frame, FrameChunk) and told.frame.index == 2:
            raise kind

    async def body(s: Stage) -> None:
        s.agent.scope.on(ASSISTANT_STREAM, leave)
        s.agent.scope.on(SESSION_EVENT, lambda told: heard.append(told.event.seq))
        await s.ask("a")

    s = await leaves(kind, body, "one two three four")
    assert heard == list(range(len(s.agent.session)))
    assert len(s.ends) == 1
    assert s.agent.state is State.DISPOSED


@pytest.mark.rule("H5", "L8")
async def test_a_callback_that_leaks_a_cancellation_on_the_third_chunk_changes_nothing() -> None:
    heard: list[int] = []

    async def leak(told: Any) -> None:
        if isinstance(told.frame, FrameChunk) and told.frame.index == 2:
            with trio.CancelScope() as scope:
                scope.cancel()
                try:
                    await trio.lowlevel.checkpoint()
                except trio.Cancelled as error:
                    kept.append(error)
                    raise
            raise kept[0]

    kept: list[BaseException] = []
    async with stage("one two three four") as s:
        s.agent.scope.on(ASSISTANT_STREAM, leak)
        s.agent.scope.on(ASSISTANT_STREAM, lambda told: heard.append(getattr(told.frame, "index", -1)))
        await s.ask("a")
        await settled()
        assert s.ends == ["completed"]
        assert heard[:4] == [-1, 0, 1, 2]
        assert [told.error for told in s.errors] == kept
        with trio.fail_after(5):
            await s.handle.dispose()


@pytest.mark.rule("O6", "C4", "N7")
async def test_a_sub_agent_does_not_go_on_after_its_parent_was_cancelled() -> None:
    gate, effects = Gate(), []

    @tool
    async def act() -> None:
        await gate.wait()
        effects.append("side effect")

    async def equip(scope: Any, child: Any) -> None:
        child.tools.register(act)
        child.tools.register(subagent("deeper", options=AgentOptions("grandchild", "m"), setup=equip))

    one = subagent(options=AgentOptions("child", "m"), setup=equip)
    below = ScriptedModel([Answer(calls=[Call("deeper", {"prompt": "dig"})]), "never"])
    lowest = ScriptedModel([Answer(calls=[Call("act")]), "never"])
    logs: dict[str, list[Any]] = {}
    async with stage(Answer(calls=[Call("subagent", {"prompt": "go"})]), "next", tools=[one]) as s:
        s.host.on(
            SESSION_EVENT, lambda told: logs.setdefault(told.session.header.origin or "parent", []).append(told.event)
        )
        s.host.models.register("child", below)
        s.host.models.register("grandchild", lowest)
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        await s.agent.when_idle()
        ended = len(logs["subagent"])
        await settled()
        assert [text for text in s.log if text.startswith("result")] == ["result call_1 ABORTED"]
        assert len(logs["subagent"]) == ended
        assert [entry.type for entry in logs["subagent"]].count("turn/end") == 2
        assert (effects, len(below.requests), len(lowest.requests)) == ([], 1, 1)
        await s.ask("b")
        assert s.ends == ["aborted user", "completed"]


@pytest.mark.rule("N7", "C4", "O4")
@pytest.mark.parametrize("first", ["cancel A", "cancel B", "dispose A", "dispose B"])
async def test_agents_that_wait_for_each_other_stay_cancellable_and_disposable(first: str) -> None:
    waiting: list[str] = []

    @tool
    async def wait_for_other(which: str) -> str:
        waiting.append(which)
        await agents[which].when_idle()
        return "the other is idle"

    model = ScriptedModel(default="done")
    async with stage(model=model, tools=[wait_for_other]) as s:
        other = await s.host.agents.create(agent_options=s.agent.options)
        agents = {"A": s.agent, "B": other.agent}
        model.push(Answer(calls=[Call("wait_for_other", {"which": "B"})]))
        s.agent.followup("go")
        await settled()
        model.push(Answer(calls=[Call("wait_for_other", {"which": "A"})]))
        other.agent.followup("go")
        await settled()
        assert sorted(waiting) == ["A", "B"]
        act, name = first.split()
        with trio.fail_after(5):
            if act == "cancel":
                agents[name].cancel()
            else:
                await (s.handle if name == "A" else other).dispose()
            await s.agent.when_idle()
            await other.agent.when_idle()
            await other.dispose()


@pytest.mark.rule("M1", "L6", "S3")
async def test_maintenance_between_turns_neither_kills_the_turn_nor_stops_the_agent_and_its_history_counts() -> None:
    async def compact(signal: Signal) -> None:
        nodes = [node.seq for node in s.agent.session.surface.nodes]
        replaced = Replace(nodes[0], nodes[-1])
        s.agent.session.append(UserMessageAdded(note("summary")), surface_op=replaced, sources=nodes)

    def sweep(told: Any) -> None:
        if told.event.type == "turn/end" and told.event.data.turn == 1:
            s.agent.run_maintenance(compact)

    async with stage("one", "two") as s:
        s.agent.scope.on(SESSION_EVENT, sweep)
        s.agent.scope.on(PRE_STEP, lambda proposal, proceed: proceed())
        await s.ask("a")
        await s.ask("b")
        assert s.ends == ["completed", "completed"]
        assert s.requests[1] == ["user summary", "user b"]
