"""Hook points: modes, scopes, payloads (contract §9)."""

from __future__ import annotations

from typing import Any, get_args

import attrs
import pytest
import trio

from tests.stage import stage, talk
from treadle import Agent, Answer, AssistantMessage, Call, Host, MisuseError, tool
from treadle.errors import HookError, ScopeClosed
from treadle.hooks import (
    AGENT_CREATED,
    AGENT_DISPOSED,
    AGENT_ERROR,
    AGENT_STATUS,
    ASSISTANT_STREAM,
    CANCEL_REQUESTED,
    INBOX_CLAIMED,
    INBOX_DISCARDED,
    INBOX_INSERTED,
    LLM_STREAM,
    POINTS,
    PRE_STEP,
    REQUEST,
    SESSION_EVENT,
    SESSION_START,
    TOOLS_RESULT,
    TURN_STOPPING,
    Emit,
    Enter,
    Mode,
    Reject,
    Scope,
    Serial,
    Waterfall,
)
from treadle.hooks.dispatch import serial, waterfall
from treadle.kernel.effects import Notice
from treadle.loop.notices import TOLD

# --- H1, H2, H3 -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("H2", "H8")
def test_every_point_of_the_contract_exists_in_its_mode() -> None:
    modes = {point.name: point.mode.value for point in POINTS}
    emit = (
        "agent/status agent/inbox/inserted agent/inbox/claimed agent/inbox/discarded agent/inbox/updated agent/parked "
        "agent/assistant-stream agent/error agent/cancel-requested agent/disposed agent/session-start session/event "
        "tools/result agent-loop/config-start-failed agent-preset/selected agent/maintenance"
    )
    serial_points = "agent/created agent/turn-stopping session/flush"
    waterfalls = (
        "agent/prompt-submit agent/pre-step agent/request agent/request-error llm/stream system-prompt/assemble "
        "tools/pre-execute tools/execute tools/post-execute"
    )
    expected = dict.fromkeys(emit.split(), "emit")
    expected |= dict.fromkeys(serial_points.split(), "serial")
    expected |= dict.fromkeys(waterfalls.split(), "waterfall")
    assert modes == expected
    assert len(POINTS) == len(modes)


@pytest.mark.rule("H8")
@pytest.mark.parametrize(
    ("point", "fields"),
    [
        (AGENT_CREATED, "agent source signal"),
        (AGENT_STATUS, "agent status"),
        (INBOX_INSERTED, "agent message"),
        (INBOX_DISCARDED, "agent message"),
        (INBOX_CLAIMED, "agent message turn"),
        (ASSISTANT_STREAM, "agent frame"),
        (CANCEL_REQUESTED, "agent cause"),
        (AGENT_DISPOSED, "agent"),
        (SESSION_START, "agent source"),
        (PRE_STEP, "agent messages turn step signal"),
        (REQUEST, "agent turn step signal"),
        (TURN_STOPPING, "agent turn signal"),
    ],
)
def test_payloads_carry_what_the_contract_lists(point: Any, fields: str) -> None:
    assert [one.name for one in attrs.fields(point.payload)] == fields.split()


@pytest.mark.rule("H8")
@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_payloads_are_frozen_and_documented(point: Any) -> None:
    assert attrs.has(point.payload)
    assert point.payload.__doc__
    assert point.doc.endswith(".")
    assert repr(point) == f"<{point.mode.value} {point.name}>"
    values = [None] * len([one for one in attrs.fields(point.payload) if one.init])
    payload = point.payload(*values)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(payload, attrs.fields(point.payload)[0].name, 1)


@pytest.mark.rule("H1")
async def test_serial_awaits_in_order_and_the_first_failure_propagates() -> None:
    order: list[str] = []

    async def slow(payload: str) -> None:
        await trio.lowlevel.checkpoint()
        order.append(f"slow {payload}")

    def fail(payload: str) -> None:
        order.append("fail")
        raise ValueError("broken")

    scope, point = Scope("s"), Serial("p", str)
    for function in (slow, lambda payload: order.append("sync"), fail, lambda payload: order.append("never")):
        scope.on(point, function)
    with pytest.raises(ValueError, match="broken"):
        await serial(scope.heard[point], "payload")
    assert order == ["slow payload", "sync", "fail"]


@pytest.mark.rule("H1")
async def test_a_waterfall_listener_may_stop_change_and_continue() -> None:
    point: Waterfall[str, str] = Waterfall("w", str, "", str)
    scope = Scope("s")

    async def base() -> str:
        return "base"

    async def outer(payload: str, proceed: Any) -> str:
        return f"outer({await proceed()})"

    def inner(payload: str, proceed: Any) -> Any:
        return "inner" if payload == "stop" else proceed()

    scope.on(point, outer)
    scope.on(point, inner)
    assert await waterfall(point, scope.heard[point], "go", base) == "outer(base)"
    assert await waterfall(point, scope.heard[point], "stop", base) == "outer(inner)"


@pytest.mark.rule("H1")
async def test_a_waterfall_listener_that_returns_something_else_is_named() -> None:
    async with stage("one") as s:
        s.agent.scope.on(PRE_STEP, lambda proposal, proceed: None)  # type: ignore[arg-type,return-value]
        await s.ask("a")
        error = s.errors[0].error
        assert isinstance(error, HookError)
        assert "returned NoneType at agent/pre-step, which takes Enter or Reject" in str(error)
    async with stage("one") as s:
        s.agent.scope.on(REQUEST, lambda proposal, proceed: "gpt")  # type: ignore[arg-type,return-value]
        await s.ask("a")
        assert "returned str at agent/request, which takes CallConfig" in str(s.errors[0].error)


@pytest.mark.rule("H3")
async def test_an_agents_listener_hears_only_its_agent_and_a_hosts_hears_all() -> None:
    async with stage("one", "two") as s:
        other = await s.host.agents.create(agent_options=s.agent.options)
        own: list[Agent] = []
        every: list[Agent] = []
        s.agent.scope.on(AGENT_STATUS, lambda told: own.append(told.agent))
        s.host.on(AGENT_STATUS, lambda told: every.append(told.agent))
        await s.ask("a")
        other.agent.followup("b")
        await other.agent.when_idle()
        assert own == [s.agent] * 2
        assert every == [s.agent] * 2 + [other.agent] * 2
        await other.dispose()


@pytest.mark.rule("H3", "O5")
async def test_a_listener_dies_with_its_scope_and_registering_later_raises() -> None:
    heard: list[str] = []
    async with stage("one") as s:
        s.agent.scope.on(AGENT_STATUS, lambda told: heard.append(told.status))
        await s.ask("a")
        await s.handle.dispose()
        with pytest.raises(ScopeClosed):
            s.agent.scope.on(AGENT_STATUS, lambda told: None)
        with pytest.raises(ScopeClosed):
            s.agent.scope.defer(lambda: None)
        with pytest.raises(ScopeClosed):
            Scope("child", s.agent.scope)
        assert heard == ["running", "idle"]
        assert repr(s.agent.scope) == f"<Scope {s.agent.id} (ended)>"


@pytest.mark.rule("H3", "H1")
@pytest.mark.parametrize("mode", [Mode.EMIT, Mode.SERIAL, Mode.WATERFALL])
async def test_a_listener_that_is_ended_during_a_dispatch_is_not_called_any_more(mode: Mode) -> None:
    heard: list[str] = []

    def end_second(payload: Any, *proceed: Any) -> Any:
        stop()
        stop()
        return proceed[0]() if proceed else None

    def second(payload: Any, *proceed: Any) -> Any:
        heard.append("second")
        return proceed[0]() if proceed else None

    point = {Mode.EMIT: AGENT_STATUS, Mode.SERIAL: TURN_STOPPING, Mode.WATERFALL: PRE_STEP}[mode]
    async with stage("one") as s:
        s.agent.scope.on(point, end_second)  # type: ignore[call-overload]
        stop = s.agent.scope.on(point, second)  # type: ignore[call-overload]
        await s.ask("a")
        assert heard == []
        assert s.ends == ["completed"]


@pytest.mark.rule("H3")
async def test_a_listener_that_joins_during_a_dispatch_hears_from_the_next_one_on() -> None:
    heard: list[str] = []

    def join(told: Any) -> None:
        if told.status == "running":
            s.agent.scope.on(AGENT_STATUS, lambda again: heard.append(again.status))

    async with stage("one") as s:
        s.agent.scope.on(AGENT_STATUS, join)
        await s.ask("a")
        assert heard == ["idle"]


# --- others -------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("H2")
async def test_llm_stream_may_replace_the_adapters_stream() -> None:
    async def replace(proposal: Any, proceed: Any) -> Any:
        assert proposal.request.messages[0].text == "a"
        assert (proposal.turn, proposal.step) == (1, 1)
        return talk("from middleware")(proposal.request)

    async with stage("never") as s:
        s.agent.scope.on(LLM_STREAM, replace)
        await s.ask("a")
        assert s.log[3] == "assistant 'from middleware'"
        assert s.requests == []


@pytest.mark.rule("H2")
async def test_tools_result_is_told_after_the_result_is_recorded() -> None:
    @tool
    async def work() -> str:
        return "done"

    seen: list[Any] = []
    async with stage(Answer(calls=[Call("work"), Call("nope")]), tools=[work]) as s:
        s.agent.scope.on(
            TOOLS_RESULT, lambda told: seen.append((told.call.call_id, told.is_error, told.code, s.log[-1]))
        )
        await s.ask("a")
        assert seen == [
            ("call_1", False, None, "result call_1 ok"),
            ("call_2", True, "UNKNOWN_TOOL", "result call_2 UNKNOWN_TOOL"),
        ]


@pytest.mark.rule("H1")
async def test_a_scope_closes_children_first_and_clean_ups_in_reverse_and_reports_failures() -> None:
    order: list[str] = []
    failures: list[BaseException] = []

    def fail() -> None:
        order.append("fail")
        raise ValueError

    async def slowly() -> None:
        await trio.lowlevel.checkpoint()
        order.append("async")

    scope = Scope("outer")
    child = Scope("child", scope)
    child.defer(lambda: order.append("child"))
    scope.defer(lambda: order.append("first"))
    scope.defer(slowly)
    scope.defer(fail)
    await scope.close(failures.append)
    await scope.close(failures.append)
    assert order == ["child", "fail", "async", "first"]
    assert [type(error) for error in failures] == [ValueError]
    assert child.closed


async def test_a_scope_without_a_running_host_has_no_tasks() -> None:
    with pytest.raises(ScopeClosed, match="no running host"):
        Scope("alone").spawn(trio.sleep_forever)


@pytest.mark.rule("H1")
async def test_a_host_is_used_inside_its_block_and_once() -> None:
    host = Host()
    with pytest.raises(MisuseError, match="not running"):
        host.spawn(trio.sleep_forever)
    async with host:
        assert repr(host) == "<Host with 0 agents>"
        with pytest.raises(MisuseError, match="entered once"):
            await host.__aenter__()


@pytest.mark.rule("H2", "S4")
async def test_an_answer_as_heard_is_the_answer_as_recorded() -> None:
    heard: list[Any] = []
    async with stage("one two") as s:
        s.agent.scope.on(SESSION_EVENT, lambda told: heard.append(told.event))
        s.agent.scope.on(AGENT_ERROR, lambda told: None)
        await s.ask("a")
        assert heard == list(s.agent.session.events)
        assert isinstance(s.agent.session.history()[1], AssistantMessage)


def test_points_of_plugins_are_made_like_the_own_ones() -> None:
    emit: Emit[str] = Emit("mine/told", str, "Mine.")
    assert (emit.mode, emit.name) == (Mode.EMIT, "mine/told")
    assert Enter([]).messages == ()
    assert Reject() == Reject()


@pytest.mark.rule("I4", "H8")
def test_every_notice_of_the_kernel_is_told_at_a_point_of_its_own() -> None:
    assert set(TOLD) == set(get_args(Notice))
    assert len({told.point for told in TOLD.values()}) == len(TOLD)
