"""A sub-agent as a tool (contract O6, C4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import evolve
from trio.testing import MockClock

from tests.invariants import check_invariants
from tests.stage import Gate, Stage, line, note, settled, stage, talk
from treadle import (
    Agent,
    AgentOptions,
    Answer,
    Call,
    Failure,
    Host,
    MisuseError,
    ModelFailure,
    ScriptedModel,
    State,
    Tool,
    subagent,
    tool,
)
from treadle.hooks import AGENT_CREATED, AGENT_DISPOSED, PROMPT_SUBMIT, SESSION_EVENT, BlockPrompt, Scope
from treadle.models import AgentSource
from treadle.session import UserMessageAdded

JOB = Answer(calls=[Call("subagent", {"prompt": "count"})])


class Family:
    """A parent with the agents below it, and in which order things happened."""

    def __init__(self, s: Stage, child: ScriptedModel, grandchild: ScriptedModel) -> None:
        self.parent = s
        self.models = (child, grandchild)
        self.agents: list[Agent] = []
        self.order: list[str] = []
        s.host.on(AGENT_CREATED, self._created)
        s.host.on(AGENT_DISPOSED, lambda told: self.order.append(f"{self.name(told.agent)} disposed"))
        s.host.on(SESSION_EVENT, self._recorded)

    def _created(self, told: Any) -> None:
        self.agents.append(told.agent)

    def _recorded(self, told: Any) -> None:
        text = line(told.event)
        if text.startswith(("turn/end", "result")):
            self.order.append(f"{self.name(told.agent)} {text}")

    def name(self, agent: Agent) -> str:
        return ["parent", "child", "grandchild"][agent.session.header.delegation_depth]

    @property
    def child(self) -> Agent:
        return self.agents[0]

    def log(self, agent: Agent) -> list[str]:
        return [line(entry) for entry in agent.session.events]


@asynccontextmanager
async def family(
    script: list[Any],
    child: list[Any],
    grandchild: list[Any] | None = None,
    *,
    tools: list[Tool] | None = None,
    host: Host | None = None,
    **made: Any,
) -> AsyncIterator[Family]:
    """A parent whose children run on a model of their own, and theirs on another."""
    models = ScriptedModel(child), ScriptedModel(grandchild or [])

    async def equip(scope: Scope, agent: Agent) -> None:
        for one in tools or []:
            agent.tools.register(one)
        agent.tools.register(subagent("deeper", options=AgentOptions("grandchild", "m"), **made))

    one = subagent(options=AgentOptions("child", "m"), setup=equip, **made)
    async with stage(*script, tools=[one], host=host) as s:
        s.host.models.register("child", models[0])
        s.host.models.register("grandchild", models[1])
        opened = Family(s, *models)
        yield opened
        for agent, model in zip(opened.agents, models, strict=False):
            requests = [request for request in model.requests if request.session_id == agent.id]
            check_invariants(agent.session, requests)


@pytest.mark.rule("O6")
async def test_a_child_does_the_job_and_its_last_answer_is_the_one_result() -> None:
    @tool
    async def count() -> int:
        return 3

    child = [Answer("let me see", calls=[Call("count")]), "three"]
    async with family([JOB, "done"], child, tools=[count]) as f:
        await f.parent.ask("how many?")
        assert f.parent.results() == {"call_1": "three"}
        assert f.parent.requests[1][-1] == "result call_1"
        header = f.child.session.header
        assert (header.parent_session, header.origin, header.delegation_depth) == (f.parent.agent.id, "subagent", 1)
        assert header.cwd == f.parent.agent.session.header.cwd
        prompt = next(entry.data for entry in f.child.session.events if isinstance(entry.data, UserMessageAdded))
        assert (prompt.message.text, prompt.message.source) == ("count", AgentSource(f.parent.agent.id))
        assert f.child.parent is f.parent.agent
        assert f.order == [
            "child result call_1 ok",
            "child turn/end 1 completed",
            "child disposed",
            "parent result call_1 ok",
            "parent turn/end 1 completed",
        ]
        assert f.child.state is State.DISPOSED
        assert f.parent.host.agents.list() == [f.parent.agent]


@pytest.mark.rule("O6")
async def test_without_options_of_its_own_a_child_runs_on_those_of_its_parent() -> None:
    async with stage(JOB, "three", "done", tools=[subagent()]) as s:
        await s.ask("a")
        assert s.results() == {"call_1": "three"}
        assert [request.session_id == s.agent.id for request in s.model.requests] == [True, False, True]


@pytest.mark.rule("O6", "C4", "N1")
@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("inside", ["model", "tool"])
async def test_cancelling_the_parent_cancels_everything_below_and_waits_for_it(levels: int, inside: str) -> None:
    gate, effects = Gate(), []

    @tool
    async def work() -> None:
        await gate.wait()
        effects.append("done")

    busy: list[Any] = [Answer(calls=[Call("work")]), "never"] if inside == "tool" else [talk("half", gate), "never"]
    deeper = [Answer(calls=[Call("deeper", {"prompt": "dig"})]), "never"]

    async def equip(scope: Scope, agent: Agent) -> None:
        agent.tools.register(work)

    scripts = (busy, []) if levels == 1 else (deeper, busy)
    async with family([JOB, "never"], *scripts, tools=[work]) as f:
        f.parent.host.tools.register(work)
        f.parent.agent.followup(note("a"))
        await gate.reached()
        f.parent.agent.cancel()
        assert f.parent.agent.state is State.CANCEL_CONVERGENCE
        await f.parent.agent.when_idle()
        await settled()
        assert f.parent.log[4:] == ["call call_1", "result call_1 ABORTED", "step/end 1.1", "turn/end 1 aborted user"]
        assert [f.log(agent)[-1] for agent in f.agents] == ["turn/end 1 aborted parent"] * levels
        ends = [text for text in f.order if "turn/end" in text or "disposed" in text]
        below = ["child turn/end 1 aborted parent", "child disposed"]
        if levels == 2:
            below = ["grandchild turn/end 1 aborted parent", "grandchild disposed", *below]
        assert ends == [*below, "parent turn/end 1 aborted user"]
        assert effects == []
        assert sum(len(model.requests) for model in f.models) == levels
        assert f.parent.host.agents.list() == [f.parent.agent]


@pytest.mark.rule("O6", "C10")
async def test_a_child_that_shields_itself_is_waited_for_before_the_parents_turn_ends() -> None:
    gate = Gate()

    @tool
    async def stubborn() -> str:
        with trio.CancelScope(shield=True):
            await gate.wait()
        return "finished"

    async with family([JOB], [Answer(calls=[Call("stubborn")])], tools=[stubborn]) as f:
        f.parent.agent.followup(note("a"))
        await gate.reached()
        f.parent.agent.cancel()
        await settled()
        assert f.parent.ends == []
        assert f.parent.agent.converging is not None
        assert f.parent.agent.converging.what == "tools: subagent"
        gate.open()
        await f.parent.agent.when_idle()
        assert f.order[:2] == ["child result call_1 ok", "child turn/end 1 aborted parent"]


@pytest.mark.rule("O6")
async def test_cancelling_the_child_alone_gives_the_parent_an_error_and_does_not_cancel_it() -> None:
    gate = Gate()
    async with family([JOB, "went on"], [talk("half", gate)]) as f:
        f.parent.agent.followup(note("a"))
        await gate.reached()
        f.child.cancel()
        await f.parent.agent.when_idle()
        assert f.parent.ends == ["completed"]
        assert "result call_1 STOPPED" in f.parent.log
        assert f.log(f.child)[-1] == "turn/end 1 aborted user"
        assert f.parent.log[-3] == "assistant 'went on'"


@pytest.mark.rule("O6", "O4")
async def test_disposing_the_parent_disposes_the_child_first() -> None:
    gate = Gate()
    async with family([JOB], [talk("half", gate)]) as f:
        f.parent.agent.followup(note("a"))
        await gate.reached()
        await f.parent.handle.dispose()
        assert [text for text in f.order if "disposed" in text][-1] == "parent disposed"
        assert f.log(f.child)[-1].startswith("turn/end 1 aborted")
        assert f.parent.ends == ["aborted disposed"]
        assert f.parent.host.agents.list() == []


@pytest.mark.rule("O6", "K3")
@pytest.mark.parametrize(
    ("child", "end", "words"),
    [
        ([talk(ModelFailure(Failure("busy", "QUOTA")))], "QUOTA", "the agent failed: busy"),
        ([Answer(reasoning="hm")], "NO_ANSWER", "without an answer"),
        ([Answer("  \n")], "NO_ANSWER", "without an answer"),
        ([Answer("half", finish="max-tokens")], "ok", "half\n[cut off by the output limit]"),
        ([Answer("first"), ""], "ok", "first"),
    ],
    ids=["failed", "thought only", "blank", "cut off", "spoke"],
)
async def test_a_child_that_gives_no_proper_answer_says_so(child: list[Any], end: str, words: str) -> None:
    async with family([JOB, "done"], child) as f:
        await f.parent.ask("a")
        assert f"result call_1 {end}" in f.parent.log
        assert words in f.parent.results()["call_1"]
        assert f.parent.ends == ["completed"]


@pytest.mark.rule("O6", "H7")
@pytest.mark.parametrize("why", ["secrets", ""])
async def test_a_child_whose_prompt_is_blocked_says_why(why: str) -> None:
    async with family([JOB, "done"], []) as f:
        f.parent.host.on(
            PROMPT_SUBMIT,
            lambda submission, proceed: BlockPrompt(why) if submission.agent is not f.parent.agent else proceed(),
        )
        await f.parent.ask("a")
        assert "result call_1 BLOCKED" in f.parent.log
        assert (why or "a hook blocked it") in f.parent.results()["call_1"]


@pytest.mark.rule("O6", "O1")
async def test_a_child_that_cannot_be_set_up_is_an_error_result() -> None:
    async def fail(scope: Scope, agent: Agent) -> None:
        raise LookupError("no such tool")

    async with stage(JOB, "done", tools=[subagent(setup=fail)]) as s:
        await s.ask("a")
        assert "no such tool" in s.results()["call_1"]
        assert s.host.agents.list() == [s.agent]


@pytest.mark.rule("O6")
@pytest.mark.parametrize("bound", ["tool", "host"])
async def test_children_stand_no_deeper_than_the_limit(bound: str) -> None:
    deeper = [Answer(calls=[Call("deeper", {"prompt": "dig"})]), "could not"]
    host = Host(max_delegation_depth=1 if bound == "host" else None)
    async with family([JOB, "done"], deeper, host=host, max_depth=1 if bound == "tool" else None) as f:
        await f.parent.ask("a")
        assert "result call_1 DELEGATION_LIMIT" in f.log(f.child)
        assert f.parent.results() == {"call_1": "could not"}
        assert len(f.agents) == 1


@pytest.mark.rule("O6", "K4")
async def test_several_children_may_work_at_once(autojump_clock: MockClock) -> None:
    model = ScriptedModel(default="mine", pace=1.0)
    calls = [Call("subagent", {"prompt": str(index)}) for index in range(3)]
    async with stage(
        Answer(calls=calls), "done", tools=[subagent(options=AgentOptions("child", "m"), parallel=True)]
    ) as s:
        s.host.models.register("child", model)
        began = trio.current_time()
        await s.ask("a")
        assert s.results() == {"call_1": "mine", "call_2": "mine", "call_3": "mine"}
        assert trio.current_time() - began == pytest.approx(4.0)


@pytest.mark.rule("O6", "K1")
async def test_a_child_that_takes_too_long_is_disposed(autojump_clock: MockClock) -> None:
    async with stage(JOB, "done", tools=[]) as s:
        s.host.models.register("child", ScriptedModel([talk("half", Gate())]))
        s.agent.tools.register(evolve(subagent(options=AgentOptions("child", "m")), timeout=5))
        family_of = Family(s, ScriptedModel(), ScriptedModel())
        await s.ask("a")
        assert "result call_1 TOOL_TIMEOUT" in s.log
        assert family_of.order[:2] == ["child turn/end 1 aborted disposed", "child disposed"]


@pytest.mark.rule("O6")
@pytest.mark.parametrize("wrong", [0, -1, 1.5, True])
def test_a_depth_that_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(MisuseError, match="max_depth"):
        subagent(max_depth=wrong)
