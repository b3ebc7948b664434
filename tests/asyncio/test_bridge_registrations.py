"""What asyncio code registers through the bridge: tools, listeners, guards, prompt parts, models, sessions, presets."""

import asyncio
import gc
import threading
from contextvars import ContextVar
from typing import Any

import pytest
import trio

from tests.asyncio.test_bridge import bridged, create, ends
from tests.hosts import OPTIONS
from tests.stage import line
from treadle import (
    AgentBusy,
    AgentDisposed,
    Answer,
    Call,
    Host,
    MemoryStore,
    MisuseError,
    ScriptedModel,
    SessionNotFound,
    message,
)
from treadle.agent import current_initiator
from treadle.asyncio import Bridge
from treadle.errors import BridgeClosed, PresetError
from treadle.extensions.budgets import BUDGET_WARNING, Budgets, BudgetWarning, Limits
from treadle.hooks import AGENT_STATUS, PRE_STEP, DenyCall, Enter
from treadle.models import CallConfig, ToolSchema
from treadle.presets import ModelSelection, PresetDefinition
from treadle.session import InboxSpliced

NOTE: ContextVar[str] = ContextVar("note", default="none")


@pytest.mark.rule("K10", "K2", "O7")
def test_tools_and_guards_of_one_agent_are_registered_from_asyncio_and_run_in_its_loop() -> None:
    calls = [Answer(calls=[Call("look", {"what": what})]) for what in ("moon", "sun")]

    @bridged(*calls, "done")
    async def _(bridge: Bridge) -> None:
        loop = asyncio.get_running_loop()
        agent = (await create(bridge, "a")).agent
        other = (await create(bridge, "b")).agent
        seen: list[Any] = []

        @bridge.tool
        async def look(what: str) -> str:
            """Look at something."""
            assert asyncio.get_running_loop() is loop
            inside = await asyncio.gather(*[asyncio.to_thread(current_initiator), whose()])
            seen.append((what, *inside))
            return f"saw {what}"

        async def whose() -> Any:
            here = bridge.agents.current_initiator()
            assert here is not None
            return bridge.agents.require_initiator().native

        class NoSun:
            async def __call__(self, proposal: Any) -> DenyCall | None:
                assert asyncio.get_running_loop() is loop
                await asyncio.sleep(0)
                return DenyCall("too bright") if "sun" in proposal.call.arguments else None

        await agent.tools.register(look)
        lift = await agent.tools.guard(NoSun())
        assert [one.name for one in await agent.tools.list()] == ["look"]
        assert await agent.tools.get("look") is look
        assert await other.tools.list() == await bridge.tools.list() == ()
        with pytest.raises(MisuseError, match="look"):
            await agent.tools.register(look)
        assert bridge.agents.current_initiator() is None
        with pytest.raises(MisuseError):
            bridge.agents.require_initiator()
        agent.followup("go")
        await agent.when_idle()
        assert seen == [("moon", agent.native, agent.native)]
        results = [line(entry) for entry in agent.session.events if entry.type == "tool/result"]
        assert len(results) == 2
        assert results[0].endswith(" ok")
        assert not results[1].endswith(" ok")
        await lift()
        await lift()


@pytest.mark.rule("K10", "R1")
def test_restrictions_and_the_order_of_tools_are_set_from_any_thread() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        for name in ("a", "b", "c"):
            await bridge.tools.register(bridge.tool(lambda: "x", name=name, description=name))
        await bridge.tools.set_order(["c"])
        undo = await asyncio.to_thread(lambda: agent.tools.restrict(deny=iter(["a"])).result(5))
        assert [one.name for one in await agent.tools.list()] == ["c", "b"]
        await asyncio.to_thread(lambda: undo().result(5))
        await agent.tools.restrict(allow=iter(["a"]))
        assert [one.name for one in await agent.tools.list()] == ["a"]


@pytest.mark.rule("H2", "H3", "H9", "T2")
def test_listeners_of_one_agent_hear_it_only_and_are_cancelled_with_its_turn() -> None:
    @bridged("done")
    async def _(bridge: Bridge) -> None:
        agent, other = (await create(bridge, "a")).agent, (await create(bridge, "b")).agent
        heard: list[Any] = []
        held = asyncio.Event()

        async def decide(payload: Any, proceed: Any) -> Any:
            heard.append((payload.agent, current_initiator()))
            if len(heard) > 1:
                return await proceed()
            held.set()
            try:
                return await asyncio.sleep(1000)
            except asyncio.CancelledError:
                heard.append("cancelled")
                raise

        undo = await agent.hooks.on("agent/pre-step", decide)
        assert agent.hooks.point("agent/pre-step") is PRE_STEP
        assert PRE_STEP in bridge.hooks.points
        with pytest.raises(MisuseError, match="no hook point"):
            bridge.hooks.on("agent/nothing", decide)
        agent.followup("go")
        await held.wait()
        agent.cancel()
        await agent.when_idle()
        assert heard == [(agent.native, agent.native), "cancelled"]
        assert ends(agent) == ["aborted user"]
        other.followup("go")
        await other.when_idle()
        assert len(heard) == 2
        agent.followup("again")
        await agent.when_idle()
        assert len(heard) == 3
        await undo()
        agent.followup("once more")
        await agent.when_idle()
        assert len(heard) == 3


@pytest.mark.rule("H1", "C4")
def test_the_rest_of_a_waterfall_is_cancelled_with_the_asyncio_listener_that_awaits_it() -> None:
    @bridged("done")
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        at, order = threading.Event(), list[str]()

        async def outer(payload: Any, proceed: Any) -> Any:
            try:
                return await proceed()
            finally:
                order.append("outer")

        async def inner(payload: Any, proceed: Any) -> Any:
            at.set()
            try:
                return await trio.sleep_forever()
            finally:
                order.append("inner")

        await bridge.on(PRE_STEP, outer)
        await bridge.call(agent.native.hooks.on, PRE_STEP, inner)
        agent.followup("go")
        await asyncio.to_thread(at.wait)
        await agent.cancel()
        await agent.when_idle()
        assert order == ["inner", "outer"]
        assert ends(agent) == ["aborted user"]


@pytest.mark.rule("O7")
def test_context_variables_travel_both_ways() -> None:
    @bridged("done")
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        notes: list[str] = []

        async def outer(payload: Any, proceed: Any) -> Any:
            NOTE.set("from the loop")
            return await proceed()

        def inner(payload: Any, proceed: Any) -> Any:
            notes.append(NOTE.get())
            return Enter(payload.messages)

        await agent.hooks.on(PRE_STEP, outer)
        await agent.hooks.on(PRE_STEP, inner)
        agent.followup("go")
        await agent.when_idle()
        NOTE.set("asked")
        assert await bridge.call(NOTE.get) == "asked"

        async def cross() -> str:
            NOTE.set("from the host")

            async def read() -> str:
                return NOTE.get()

            return await bridge.in_loop(read)()

        assert await bridge.run(cross) == "from the host"
        assert NOTE.get() == "asked"
        assert notes == ["from the loop"]


@pytest.mark.rule("H1")
def test_a_function_that_is_brought_to_the_loop_already_is_registered_all_the_same() -> None:
    @bridged("done")
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        idle = asyncio.Event()

        async def status(payload: Any) -> None:
            if payload.status == "idle":
                idle.set()

        await agent.hooks.on(AGENT_STATUS, bridge.in_loop(status))
        agent.followup("go")
        await idle.wait()


@pytest.mark.rule("R1", "R3")
def test_prompt_parts_are_provided_by_asyncio_functions() -> None:
    model = ScriptedModel(default="done")

    @bridged(model=model)
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        loop = asyncio.get_running_loop()
        turns: list[int] = []

        async def weather(assembly: Any) -> str:
            assert asyncio.get_running_loop() is loop
            turns.append(assembly.turn)
            await asyncio.sleep(0)
            return "It rains."

        async def day(assembly: Any) -> str:
            return "Monday"

        async def more(assembly: Any) -> list[ToolSchema]:
            return [ToolSchema("far", "Far away.", {"type": "object"})]

        await bridge.prompt.persona("Be kind.")
        await agent.prompt.section("day", "Today is {{day}}.", order=1)
        await agent.prompt.variable("day", day)
        await agent.prompt.section("late", weather, order=2, template=False)
        undo = await agent.prompt.context("weather", weather)
        await agent.prompt.tool_schemas("far", more)
        with pytest.raises(MisuseError):
            await agent.prompt.section("day", "again")
        agent.followup("go")
        await agent.when_idle()
        request = model.requests[-1]
        assert request.messages[0].text == "Be kind.\n\nToday is Monday.\n\nIt rains."
        assert [one.text for one in request.messages[1:]] == ["It rains.", "go"]
        assert [one.name for one in request.tools] == ["far"]
        assert turns == [1, 1]
        await undo()
        assert (agent.system_prompt, agent.prompt.own_persona()) == ("", "")
        await agent.prompt.replace_persona("Be short.")
        assert agent.system_prompt == agent.prompt.own_persona() == "Be short."
        assert agent.native.system_prompt == "Be short."


@pytest.mark.rule("Q4", "O10")
def test_models_and_the_default_model_are_chosen_from_asyncio() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        adapter = ScriptedModel(["hello"])
        before = bridge.models.revision
        undo = await bridge.models.register("other", adapter)
        assert bridge.models.providers == ("scripted", "other")
        assert bridge.models.route("other") is adapter
        assert bridge.models.revision == before + 1
        with pytest.raises(MisuseError):
            await bridge.models.register("other", adapter)
        assert (await bridge.models.prepare(CallConfig("other", "small"))).adapter is adapter
        await bridge.default_model.save(ModelSelection("other", "small"))
        chosen = bridge.default_model.current()
        assert chosen is not None
        assert chosen.provider == "other"
        agent = (await bridge.agents.create()).agent
        agent.followup("go")
        await agent.when_idle()
        assert ends(agent) == ["completed"]
        await undo()
        assert bridge.models.providers == ("scripted",)


@pytest.mark.rule("S9", "S5", "P3")
def test_sessions_are_listed_forked_resumed_and_deleted_from_asyncio() -> None:
    @bridged("one", "two", store=MemoryStore())
    async def _(bridge: Bridge) -> None:
        assert bridge.store is not None
        async with await create(bridge, "a") as agent:
            agent.followup("go")
            await agent.when_idle()
            assert bridge.sessions.get("a") is agent.session
            assert bridge.sessions.list() == [agent.session]

            def count(seen: int, entry: Any) -> int:
                return seen + (type(entry.data) is InboxSpliced)

            counted = await bridge.sessions.register_projection("splices", 0, count)
            assert await bridge.sessions.project("splices", agent.session) == 2
            assert bridge.sessions.inbox.name == "inbox"
        assert bridge.sessions.get("a") is None
        assert await bridge.sessions.project_stored("splices", "a") == 2
        await bridge.sessions.unregister_projection(counted)
        assert (await bridge.store.fork("a", "b")).id == "b"
        assert {one.header.id for one in (await bridge.store.list()).sessions} == {"a", "b"}
        held = await bridge.agents.resume("b", agent_options=OPTIONS)
        assert held.recovery is not None
        assert repr(held).startswith("<BridgedHandle <BridgedAgent b")
        held.agent.followup("more")
        await held.agent.when_idle()
        assert len(ends(held.agent)) == 2
        await held.dispose()
        assert (await bridge.store.open_read("b")).events == (await bridge.store.inspect("b")).events
        assert await bridge.store.revision("a") != await bridge.store.revision("b")
        await bridge.store.delete("a")
        with pytest.raises(SessionNotFound):
            await bridge.store.open_read("a")


@pytest.mark.rule("O9", "O11", "O12")
def test_presets_are_declared_chosen_and_leased_from_asyncio() -> None:
    @bridged("done")
    async def _(bridge: Bridge) -> None:
        presets = bridge.presets

        def clock(composition: Any, zone: str) -> None:
            composition.provide("clock", zone)

        forget = await presets.component("clock", clock)
        undo = await presets.register(PresetDefinition("kind", "- persona: Be kind.\n- clock: UTC"))
        await presets.register(PresetDefinition("broken", "- nothing"))
        assert [(one.id, one.error is None) for one in await presets.list()] == [("kind", True), ("broken", False)]
        assert presets.read_document("kind").document.startswith("- persona")
        assert len((await presets.inventory())[0].components) == 2
        presets.default, presets.chooser = "kind", "locked"
        roster = await presets.roster()
        assert (roster.default, roster.chooser) == (presets.default, presets.chooser) == ("kind", "locked")
        assert (await presets.resolve()).id == "kind"
        with pytest.raises(PresetError):
            await presets.resolve("none")
        agent = (await create(bridge)).agent
        assert await presets.select(agent, "kind") == "kind"
        assert presets.composed_preset(agent.scope) == "kind"
        assert presets.service_for(agent, "clock") == "UTC"
        assert (await presets.recompose(agent.scope, "kind")).id == "kind"
        async with await presets.acquire_scope() as lease:
            assert lease.preset.id == "kind"
            assert lease.service("clock") == "UTC"
            assert not lease.scope.closed
        await lease.release()
        await undo()
        await forget()
        assert [one.id for one in await presets.list()] == ["broken"]


@pytest.mark.rule("O12")
def test_a_preset_that_came_too_late_for_its_caller_is_taken_back() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        at, on = threading.Event(), threading.Event()

        async def slow(composition: Any) -> None:
            at.set()
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(on.wait)

        await bridge.presets.component("slow", slow)
        declaring = asyncio.create_task(bridge.presets.register(PresetDefinition("late", "- slow")))
        await asyncio.to_thread(at.wait)
        declaring.cancel()
        await asyncio.sleep(0)
        on.set()
        with pytest.raises(asyncio.CancelledError):
            await declaring
        await bridge.call(lambda: None)
        assert await bridge.presets.list() == ()


@pytest.mark.rule("O6", "O3")
def test_parents_children_and_scopes_are_seen_from_asyncio() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        parent = (await create(bridge, "p")).agent
        child = (await create(bridge, "c", parent_agent=parent, owner=parent.scope)).agent
        assert child.parent is not None
        assert child.parent.native is parent.native
        assert parent.parent is None
        assert [one.id for one in bridge.agents.children(parent)] == ["c"]
        assert bridge.agents.is_owned_by("c", parent)
        assert len(bridge.agents) == 2


@pytest.mark.rule("M1", "O4")
def test_maintenance_and_disposal_are_taken_in_the_call() -> None:
    @bridged("done")
    async def _(bridge: Bridge) -> None:
        handle = await create(bridge)
        agent = handle.agent
        go = asyncio.Event()

        async def tidy(signal: Any) -> str:
            await go.wait()
            return "tidy"

        running = agent.run_maintenance(tidy)
        receipt = agent.followup("go")
        with pytest.raises(AgentBusy):
            await agent.run_maintenance(tidy)
        waiting = asyncio.ensure_future(running)
        await asyncio.sleep(0)
        waiting.cancel()
        assert receipt.fate is None
        go.set()
        assert await running == "tidy"
        await receipt.outcome()
        assert receipt.fate == (await receipt).fate
        ending = handle.dispose()
        refused = agent.followup("late")
        await ending
        await ending
        with pytest.raises(AgentDisposed):
            await refused
        assert refused.fate is None
        with pytest.raises(AgentDisposed):
            await agent.run_maintenance(tidy)


@pytest.mark.rule("N8")
def test_a_clean_up_that_fails_is_told_to_whoever_awaits_the_end() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        handle = await create(bridge)

        def fail() -> None:
            raise OSError("no")

        await bridge.call(handle.agent.scope.defer, fail)
        ending = handle.dispose()
        for _ in range(2):
            with pytest.raises(BaseExceptionGroup) as caught:
                await ending
            assert isinstance(caught.value.exceptions[0], OSError)


@pytest.mark.rule("N8", "L9")
def test_registering_at_a_bridge_that_is_not_open_raises_in_the_call() -> None:
    host = Host(store=MemoryStore())
    bridge = Bridge(host)

    async def listen(payload: Any) -> None:
        return None

    with pytest.raises(BridgeClosed, match="not open"):
        bridge.on(AGENT_STATUS, listen)
    with pytest.raises(BridgeClosed, match="not open"):
        bridge.prompt.persona("x")

    async def read() -> None:
        assert bridge.store is not None
        with pytest.raises(BridgeClosed, match="not open"):
            await bridge.store.list()

    asyncio.run(read())


@pytest.mark.rule("D8")
def test_an_inbox_and_its_agent_can_be_shown() -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        agent = (await create(bridge)).agent
        await agent.inbox.splice("next-step", 0, 0, [message("m")])
        assert repr(agent.inbox) == "<BridgedInbox next-turn=0 next-step=1>"
        shown = await bridge.call(agent._repr_html_)
        assert shown is None or "<" in shown


@pytest.mark.rule("D1")
def test_a_reply_that_failed_and_was_looked_at_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    @bridged()
    async def _(bridge: Bridge) -> None:
        with pytest.raises(MisuseError):
            await bridge.tools.register("no tool")  # type: ignore[arg-type]
        gc.collect()

    assert not caplog.records


@pytest.mark.rule("B1", "B3")
def test_budgets_hold_a_bridged_host_and_asyncio_hears_of_warnings() -> None:
    async def main() -> None:
        host = Host()
        host.models.register("scripted", ScriptedModel(["one", "two", "three"]))
        Budgets(session=Limits(calls=2), warn_at=1.0).install(host)
        heard: list[BudgetWarning] = []
        async with asyncio.timeout(20), Bridge(host) as bridge:
            await bridge.on(BUDGET_WARNING, heard.append)
            agent = (await create(bridge, "a")).agent
            for text in ("a", "b", "c"):
                await agent.ask(text)
            found = ends(agent)
        assert [(one.account, one.amount) for one in heard] == [("session", 2)]
        assert found == ["completed", "completed", "error BUDGET"]

    asyncio.run(main())
