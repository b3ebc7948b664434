"""Scopes: visible here and below, shadowing by name, gone with their end, in reverse order (O5, H3, K10)."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.hosts import create, hosted
from treadle import MisuseError, Tool, tool
from treadle.errors import ScopeClosed
from treadle.hooks import AGENT_STATUS, TOOLS_RESULT, DenyCall, Scope
from treadle.tools.registry import guards


def named(name: str, text: str = "") -> Tool:
    return tool(lambda: text, name=name, description=text or name, parameters={"type": "object"})


def tree() -> tuple[Scope, Scope, Scope]:
    host = Scope("host")
    tenant = Scope("tenant", host)
    return host, tenant, Scope("agent", tenant)


@pytest.mark.rule("H3")
async def test_an_agents_own_listener_hears_its_agent_and_a_global_one_hears_all() -> None:
    async with hosted() as host:
        first, second = await create(host, "a"), await create(host, "b")
        own: list[str] = []
        everyone: list[str] = []
        first.agent.scope.on(AGENT_STATUS, lambda told: own.append(told.agent.id))
        host.on(AGENT_STATUS, lambda told: everyone.append(told.agent.id))
        for handle in (first, second):
            handle.agent.followup("go")
            await handle.agent.when_idle()
        assert own == ["a", "a"]
        assert everyone == ["a", "a", "b", "b"]


@pytest.mark.rule("H3")
async def test_a_listener_dies_with_its_scope_also_while_a_dispatch_runs() -> None:
    async with hosted() as host:
        feature = Scope("feature", host.scope)
        handle = await create(host, owner=feature)
        told: list[str] = []
        undo: list[Any] = []

        def first(_: object) -> None:
            told.append("first")
            undo[0]()

        feature.on(AGENT_STATUS, first)
        undo.append(feature.on(AGENT_STATUS, lambda _: told.append("second")))
        handle.agent.followup("go")
        await handle.agent.when_idle()
        assert told == ["first", "first"]


@pytest.mark.rule("K10")
def test_tools_shadow_by_name_and_restrictions_filter_only_what_is_inherited() -> None:
    host, tenant, agent = tree()
    from treadle.tools import ToolRegistry

    outer, inner = named("read", "outer"), named("read", "inner")
    ToolRegistry(host).register(outer)
    ToolRegistry(host).register(named("write"))
    ToolRegistry(host).register(named("run"))
    undo = ToolRegistry(tenant).register(inner)
    assert ToolRegistry(agent).get("read") is inner
    undo()
    assert ToolRegistry(agent).get("read") is outer
    free = ToolRegistry(agent).restrict(allow=["read", "write"])
    ToolRegistry(tenant).restrict(deny=["write"])
    ToolRegistry(agent).register(named("own"))
    assert [one.name for one in ToolRegistry(agent).list()] == ["own", "read"]
    ToolRegistry(agent).restrict(deny=["own"])
    assert [one.name for one in ToolRegistry(agent).list()] == ["own", "read"]
    free()
    assert [one.name for one in ToolRegistry(agent).list()] == ["own", "read", "run"]
    assert [one.name for one in ToolRegistry(host).list()] == ["read", "run", "write"]


@pytest.mark.rule("R1")
def test_tool_order_is_the_configured_one_and_else_by_name() -> None:
    from treadle.tools import ToolRegistry

    host, _, agent = tree()
    for name in ("b", "d", "a", "c"):
        ToolRegistry(host).register(named(name))
    assert [one.name for one in ToolRegistry(agent).list()] == ["a", "b", "c", "d"]
    ToolRegistry(host).set_order(["d", "missing", "b"])
    assert [one.name for one in ToolRegistry(agent).list()] == ["d", "b", "a", "c"]
    ToolRegistry(agent).register(named("0"))
    assert [one.name for one in ToolRegistry(agent).list()] == ["d", "b", "0", "a", "c"]


@pytest.mark.rule("O5")
async def test_clean_ups_run_in_reverse_and_children_go_first() -> None:
    host, tenant, agent = tree()
    told: list[str] = []

    async def slow() -> None:
        await trio.lowlevel.checkpoint()
        told.append("agent")

    tenant.defer(lambda: told.append("tenant 1"))
    tenant.defer(lambda: told.append("tenant 2"))
    taken_back = tenant.defer(lambda: told.append("never"))
    agent.defer(slow)
    taken_back()
    await host.close(lambda error: pytest.fail(str(error)))
    assert told == ["agent", "tenant 2", "tenant 1"]
    for scope in (host, tenant, agent):
        with pytest.raises(ScopeClosed):
            scope.defer(print)
    with pytest.raises(ScopeClosed):
        Scope("late", host)


@pytest.mark.rule("O5")
async def test_two_who_close_a_scope_both_wait_for_its_end() -> None:
    scope = Scope("x")
    gate = trio.Event()
    told: list[str] = []
    scope.defer(gate.wait)

    async def close(name: str) -> None:
        await scope.close(lambda error: None)
        told.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(close, "first")
        nursery.start_soon(close, "second")
        await wait_all_tasks_blocked()
        assert told == []
        gate.set()
    assert sorted(told) == ["first", "second"]
    await scope.close(lambda error: None)


@pytest.mark.rule("O5", "H5")
async def test_detached_listeners_end_with_their_scope(autojump_clock: MockClock) -> None:
    async with hosted() as host:
        handle = await create(host)
        ended: list[bool] = []

        async def listener(_: object) -> None:
            try:
                await trio.sleep_forever()
            finally:
                ended.append(True)

        handle.agent.scope.on(AGENT_STATUS, listener)
        handle.agent.followup("go")
        await handle.agent.when_idle()
        await wait_all_tasks_blocked()
        await handle.dispose()
        assert ended == [True, True]


@pytest.mark.rule("O11", "H3", "K10")
def test_a_joined_layer_lies_between_the_outer_scopes_and_the_own_one() -> None:
    from treadle.tools import ToolRegistry

    host, _, agent = tree()
    layer = Scope("layer", host)
    ToolRegistry(host).register(named("read", "host"))
    ToolRegistry(host).register(named("write", "host"))
    ToolRegistry(layer).register(named("read", "layer"))
    ToolRegistry(layer).restrict(deny=["write"])
    ToolRegistry(agent).register(named("own"))
    ToolRegistry(layer).guard(lambda proposal: DenyCall("no"))
    heard: list[str] = []
    layer.on(TOOLS_RESULT, lambda _: heard.append("layer"))
    agent.on(TOOLS_RESULT, lambda _: heard.append("own"))
    assert len(agent.heard[TOOLS_RESULT]) == 1
    leave = agent.join(layer)
    assert [one.description for one in ToolRegistry(agent).list()] == ["own", "layer"]
    assert len(guards(agent)) == 1
    for listener in agent.heard[TOOLS_RESULT]:
        listener.function(None)
    assert heard == ["layer", "own"]
    layer.on(TOOLS_RESULT, print)
    assert len(agent.heard[TOOLS_RESULT]) == 3
    ToolRegistry(layer).register(named("late"))
    assert ToolRegistry(agent).get("late") is not None
    with pytest.raises(MisuseError, match="joined"):
        agent.join(layer)
    leave()
    leave()
    assert sorted([one.description for one in ToolRegistry(agent).list()]) == ["host", "host", "own"]
    assert len(agent.heard[TOOLS_RESULT]) == 1
    assert guards(agent) == ()


@pytest.mark.rule("O11")
def test_a_scope_without_anything_of_its_own_sees_a_joined_layer_and_so_do_those_below() -> None:
    host, tenant, agent = tree()
    layer = Scope("layer", host)
    layer.on(TOOLS_RESULT, print)
    assert agent.heard[TOOLS_RESULT] == ()
    leave = tenant.join(layer)
    assert len(agent.heard[TOOLS_RESULT]) == 1
    leave()
    assert agent.heard[TOOLS_RESULT] == ()
    assert host.heard[TOOLS_RESULT] == ()


@pytest.mark.rule("O3", "O4", "O17")
async def test_an_owned_agent_ends_in_its_own_order_before_what_its_owner_registered() -> None:
    async with hosted() as host:
        feature = Scope("feature", host.scope)
        told: list[str] = []
        handle = await create(host, owner=feature)
        gate = trio.Event()

        async def upkeep(signal: Any) -> None:
            try:
                await gate.wait()
            finally:
                told.append("activity")

        feature.defer(lambda: told.append("feature"))
        handle.agent.scope.defer(lambda: told.append("agent's scope"))
        handle.agent.run_maintenance(upkeep)
        await wait_all_tasks_blocked()
        await feature.close(lambda error: pytest.fail(str(error)))
        assert told == ["activity", "agent's scope", "feature"]


def test_a_scope_shows_whether_it_has_ended() -> None:
    assert repr(Scope("x")) == "<Scope x>"


@pytest.mark.rule("O5")
async def test_what_outlives_a_scope_does_no_harm() -> None:
    host, _, agent = tree()
    layer = Scope("layer", host)
    undo = agent.on(TOOLS_RESULT, print)
    leave = agent.join(layer)
    await layer.close(lambda error: None)
    await agent.close(lambda error: None)
    undo()
    leave()
    host.ended_by(print)
    assert agent.heard[TOOLS_RESULT] == ()


@pytest.mark.rule("O5")
async def test_a_cancelled_clean_up_lets_the_cancellation_through() -> None:
    scope = Scope("x")
    scope.defer(trio.sleep_forever)
    with trio.CancelScope() as cancel:
        cancel.cancel()
        await scope.close(lambda error: pytest.fail(str(error)))
    assert cancel.cancelled_caught
