"""Parents and children: a cancelled parent takes along what it awaits, children end first (O6)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.hosts import OPTIONS, hosted
from tests.invariants import check_invariants
from tests.stage import Gate, line, note, reason
from treadle import (
    Agent,
    AgentHandle,
    Answer,
    Call,
    EndReason,
    Host,
    ModelRequest,
    ScriptedModel,
    Tool,
    message,
    tool,
)
from treadle.hooks import AGENT_DISPOSED, SESSION_EVENT
from treadle.session import TurnEnd


def script(request: ModelRequest) -> Any:
    """Agents named ``parent`` delegate once, then say done; others use their tool once, then say done."""
    asked = request.messages[-1]
    if asked.role == "user" and not getattr(asked, "result", None):
        return Answer(calls=[Call("delegate" if request.session_id.startswith("parent") else "work")])
    return "done"


def ends(agent: Agent) -> list[str]:
    return [reason(entry.data.reason) for entry in agent.session.events if isinstance(entry.data, TurnEnd)]


def events_of(host: Host) -> list[str]:
    """What agents record from now on, one line each."""
    told: list[str] = []
    host.on(SESSION_EVENT, lambda one: told.append(f"{one.agent.id} {line(one.event)}"))
    return told


class Family:
    """A parent whose tool runs a child and awaits it; children may be parents themselves."""

    def __init__(self, host: Host, gate: Gate) -> None:
        self.host = host
        self.gate = gate
        self.handles: dict[str, AgentHandle] = {}
        self.effects: list[str] = []
        host.tools.register(self.delegate())
        host.tools.register(self.work())

    def delegate(self) -> Tool:
        @tool
        async def delegate(run: Any) -> str:
            depth = run.agent.session.header.delegation_depth
            name = "parent2" if depth == 0 and "deep" in run.agent.session.history()[-2].text else "child"
            child = await self.make(name, run.agent)
            child.followup(note("task"))
            end = await child.when_idle()
            return said(end)

        return delegate

    def work(self) -> Tool:
        @tool
        async def work() -> str:
            await self.gate.wait()
            self.effects.append("worked")
            return "worked"

        return work

    async def make(self, name: str, parent: Agent | None = None) -> Agent:
        handle = await self.host.agents.create(session_id=name, agent_options=OPTIONS, parent_agent=parent)
        self.handles[name] = handle
        return handle.agent

    def check(self) -> None:
        for handle in self.handles.values():
            check_invariants(handle.agent.session)


def said(end: EndReason | None) -> str:
    return "nothing" if end is None else reason(end)


async def family(deep: bool = False) -> AsyncIterator[Family]:
    async with hosted(model=ScriptedModel(default=script)) as host:
        made = Family(host, Gate())
        await made.make("parent")
        made.handles["parent"].agent.followup(note("deep" if deep else "go"))
        await made.gate.reached()
        yield made
        made.check()


@pytest.fixture
async def two() -> AsyncIterator[Family]:
    async for made in family():
        yield made


@pytest.fixture
async def three() -> AsyncIterator[Family]:
    async for made in family(deep=True):
        yield made


@pytest.mark.rule("O6", "C4", "N1")
@pytest.mark.parametrize("levels", [2, 3])
async def test_cancelling_a_parent_cancels_the_children_it_awaits(levels: int) -> None:
    async for made in family(deep=levels == 3):
        parent = made.handles["parent"].agent
        told = events_of(made.host)
        parent.cancel("user")
        await parent.when_idle()
        assert ends(parent) == ["aborted user"]
        below = ["parent2", "child"] if levels == 3 else ["child"]
        assert [ends(made.handles[name].agent) for name in below] == [["aborted parent"]] * (levels - 1)
        assert told[-1].startswith("parent turn/end")
        assert made.effects == []
        results = [text for text in told if text.startswith("parent result")]
        assert len(results) == 1
        made.gate.open()
        await wait_all_tasks_blocked()
        assert told[-1].startswith("parent turn/end")
        assert made.effects == []


@pytest.mark.rule("O6")
async def test_cancelling_the_child_alone_gives_the_parent_a_result_and_no_cancel(two: Family) -> None:
    parent, child = two.handles["parent"].agent, two.handles["child"].agent
    child.cancel("user")
    await parent.when_idle()
    assert ends(child) == ["aborted user"]
    assert ends(parent) == ["completed"]
    assert any("aborted user" in str(entry.data) for entry in parent.session.events)


@pytest.mark.rule("O6")
async def test_a_child_that_nobody_awaits_goes_on_when_its_parent_is_cancelled() -> None:
    async with hosted(model=ScriptedModel(default=script)) as host:
        made = Family(host, Gate())
        parent = await made.make("other")
        background = await made.make("child", parent)
        background.followup("task")
        await made.gate.reached()
        parent.followup("go")
        await wait_all_tasks_blocked()
        parent.cancel("user")
        made.gate.open()
        await background.when_idle()
        assert ends(background) == ["completed"]


@pytest.mark.rule("O6")
async def test_a_strangers_wait_that_times_out_cancels_no_child(two: Family, autojump_clock: MockClock) -> None:
    parent, child = two.handles["parent"].agent, two.handles["child"].agent
    with trio.move_on_after(1):
        await child.when_idle()
    assert ends(child) == []
    two.gate.open()
    await parent.when_idle()
    assert (ends(parent), ends(child)) == (["completed"], ["completed"])


@pytest.mark.rule("O6", "O4")
async def test_a_disposed_parent_disposes_its_children_first(three: Family) -> None:
    gone: list[str] = []
    three.host.on(AGENT_DISPOSED, lambda told: gone.append(told.agent.id))
    parent = three.handles["parent"]
    await parent.dispose()
    assert gone == ["child", "parent2", "parent"]
    assert [ends(three.handles[name].agent) for name in ("child", "parent2", "parent")] == [["aborted disposed"]] * 3
    assert three.host.agents.list() == []
    assert three.effects == []


@pytest.mark.rule("O6", "O4")
async def test_a_child_disposed_by_its_own_handle_leaves_its_parent_alone(two: Family) -> None:
    await two.handles["child"].dispose()
    parent = two.handles["parent"].agent
    await parent.when_idle()
    assert ends(parent) == ["completed"]
    assert two.host.agents.list() == [parent]


@pytest.mark.rule("O6")
async def test_a_creation_under_way_ends_with_its_parent() -> None:
    async with hosted() as host:
        parent = await host.agents.create(session_id="p", agent_options=OPTIONS)

        async def hang(scope: Any, agent: Agent) -> None:
            await trio.sleep_forever()

        failed: list[type[BaseException]] = []

        async def make() -> None:
            try:
                await host.agents.create(session_id="c", parent_agent=parent.agent, setup=hang)
            except Exception as error:
                failed.append(type(error))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(make)
            await wait_all_tasks_blocked()
            await parent.dispose()
        assert [one.__name__ for one in failed] == ["AgentDisposed"]
        assert host.agents.list() == []


@pytest.mark.rule("O6", "N7")
@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_agents_that_wait_for_each_other_can_be_ended_in_any_order(order: str, autojump_clock: MockClock) -> None:
    async with hosted(model=ScriptedModel(default=lambda request: Answer(calls=[Call("wait")]))) as host:
        handles = {name: await host.agents.create(session_id=name, agent_options=OPTIONS) for name in "ab"}

        @tool
        async def wait(run: Any) -> str:
            other = handles["b" if run.agent.id == "a" else "a"].agent
            await other.when_idle()
            return "x"

        host.tools.register(wait)
        for handle in handles.values():
            handle.agent.followup(message("go"))
        await wait_all_tasks_blocked()
        with trio.fail_after(5):
            handles[order[0]].agent.cancel("user")
            await handles[order[0]].agent.when_idle()
            await handles[order[1]].dispose()
            await handles[order[0]].dispose()
        for handle in handles.values():
            check_invariants(handle.agent.session)


@pytest.mark.rule("O6", "C6")
async def test_a_parent_cancelled_with_its_inbox_kept_keeps_the_childs(two: Family) -> None:
    parent, child = two.handles["parent"].agent, two.handles["child"].agent
    child.inject("context")
    parent.cancel("user", keep_inbox=True)
    await parent.when_idle()
    assert ends(child) == ["aborted parent"]
    assert [one.text for one in child.inbox.next_step] == ["context"]
