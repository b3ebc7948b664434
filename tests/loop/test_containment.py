"""Whatever a listener does starves nobody and ends nothing (contract §9 H5, §2 L8)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio

from tests.stage import Gate, Stage, leaves, line, note, settled, stage, talk
from treadle import AgentDisposed, Answer, Call, Host, Signal, State, tool
from treadle.errors import MaintenanceCancelled
from treadle.hooks import (
    AGENT_DISPOSED,
    AGENT_ERROR,
    AGENT_STATUS,
    ASSISTANT_STREAM,
    CANCEL_REQUESTED,
    CONFIG_START_FAILED,
    INBOX_INSERTED,
    POINTS,
    PRESET_SELECTED,
    SESSION_EVENT,
    SESSION_FLUSH,
    SESSION_START,
    Emit,
    FrameChunk,
    Scope,
)
from treadle.hooks.dispatch import emit

OF_THE_HOST = {AGENT_DISPOSED, SESSION_START, CONFIG_START_FAILED, PRESET_SELECTED}
EMITTED: list[Emit[Any]] = [point for point in POINTS if isinstance(point, Emit) and point not in OF_THE_HOST]
Listener = Callable[[Any], Any]


class Odd(BaseException):
    """Neither an ``Exception`` nor anything that means something."""


async def leaked_cancelled() -> BaseException:
    """A ``Cancelled`` that belongs to nobody any more."""
    kept: list[BaseException] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            kept.append(error)
            raise
    return kept[0]


@tool
async def work() -> str:
    return "done"


async def a_life(s: Stage, gate: Gate) -> None:
    """Everything that is told happens: maintenance, queueing, a tool turn, a cancelled turn that parks, a failing turn."""

    async def tidy(signal: Signal) -> None:
        await trio.lowlevel.checkpoint()

    with suppress(MaintenanceCancelled):
        await s.agent.run_maintenance(tidy)
    s.agent.inbox.append("next-turn", note("q"))
    s.agent.update_inbox("q", "edit", "edited")
    s.agent.inbox.remove("q")
    await s.ask("a")
    s.agent.followup(note("b"))
    await gate.reached()
    s.agent.followup(note("d"))
    s.agent.cancel(keep_inbox=True)
    await s.agent.when_idle()
    await s.ask("c")


def script(gate: Gate) -> list[Any]:
    return [Answer("on it", calls=[Call("work")]), "done", talk("x", gate), talk(ValueError("model")), "fine", "fine"]


def raising(error: BaseException) -> Listener:
    def listener(told: Any) -> None:
        raise error

    return listener


def raising_later(error: BaseException) -> Listener:
    async def listener(told: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise error

    return listener


async def never(told: Any) -> None:
    await trio.sleep_forever()


def payload_key(told: Any) -> str:
    """What was told, without identities."""
    parts = [type(told).__name__]
    for name in ("status", "message", "turn", "event", "frame", "failure", "call", "cause", "phase"):
        value = getattr(told, name, None)
        if name == "event" and value is not None:
            value = line(value)
        elif name == "frame" and value is not None:
            value = type(value).__name__
        if value is not None:
            parts.append(str(value))
    return " ".join(parts)


async def heard_without(point: Emit[Any]) -> list[str]:
    """What a listener hears in that life when nobody misbehaves."""
    heard: list[str] = []
    gate = Gate()
    async with stage(*script(gate), tools=[work], listen=False) as s:
        s.agent.scope.on(point, lambda told: heard.append(payload_key(told)))
        await a_life(s, gate)
    return heard


@pytest.mark.rule("H5", "L8", "N8")
@pytest.mark.parametrize("kind", ["Exception", "BaseException", "Cancelled", "async Exception", "async Cancelled"])
@pytest.mark.parametrize("point", EMITTED, ids=lambda point: point.name)
async def test_a_raising_listener_starves_nobody_and_its_failure_is_visible(
    point: Emit[Any], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    error: BaseException = {"Exception": ValueError("bad"), "BaseException": Odd("bad")}.get(
        kind.removeprefix("async "), ValueError("bad")
    )
    if kind.endswith("Cancelled"):
        error = await leaked_cancelled()
    expected = await heard_without(point)
    assert expected, "the scenario does not reach this point"
    heard: list[str] = []
    reported: list[BaseException] = []
    gate = Gate()
    caplog.set_level(logging.CRITICAL + 1, "treadle")
    async with stage(*script(gate), tools=[work], listen=False) as s:
        s.agent.scope.on(AGENT_ERROR, lambda told: reported.append(told.error))
        s.agent.scope.on(point, raising_later(error) if kind.startswith("async") else raising(error))
        if point is not AGENT_ERROR:
            s.agent.scope.on(point, lambda told: heard.append(payload_key(told)))
        await a_life(s, gate)
        await settled()
        assert s.ends == ["completed", "aborted user", "error UNKNOWN"]
        await s.ask("again")
        assert s.ends[-1] == "completed"
    if point is AGENT_ERROR:
        assert [str(one) for one in reported[:1]] == ["model"]
        assert reported[1] is error
    else:
        assert heard[: len(expected)] == expected
        assert [one for one in reported if one is error]


@pytest.mark.rule("H5", "N7")
@pytest.mark.parametrize("point", EMITTED, ids=lambda point: point.name)
async def test_an_async_listener_that_never_returns_delays_nothing_and_ends_with_its_scope(point: Emit[Any]) -> None:
    expected = await heard_without(point)
    heard: list[str] = []
    gate = Gate()
    async with stage(*script(gate), tools=[work], listen=False) as s:
        before = trio.lowlevel.current_statistics().tasks_living
        s.agent.scope.on(point, never)
        s.agent.scope.on(point, lambda told: heard.append(payload_key(told)))
        with trio.fail_after(5):
            await a_life(s, gate)
            assert heard == expected
            assert trio.lowlevel.current_statistics().tasks_living > before
            await s.handle.dispose()
        await settled()
        assert trio.lowlevel.current_statistics().tasks_living <= before


@pytest.mark.rule("H5", "H3")
@pytest.mark.parametrize("act", ["unsubscribe itself", "unsubscribe others", "subscribe"])
@pytest.mark.parametrize("point", EMITTED, ids=lambda point: point.name)
async def test_listeners_may_come_and_go_while_they_are_told(point: Emit[Any], act: str) -> None:
    expected = await heard_without(point)
    heard: list[str] = []
    extra: list[str] = []
    gate = Gate()

    def act_once(told: Any) -> None:
        if act == "unsubscribe itself":
            own()
        elif act == "unsubscribe others":
            other()
        else:
            s.agent.scope.on(point, lambda again: extra.append(payload_key(again)))

    async with stage(*script(gate), tools=[work], listen=False) as s:
        own = s.agent.scope.on(point, act_once)
        other = s.agent.scope.on(point, lambda told: extra.append("other"))
        s.agent.scope.on(point, lambda told: heard.append(payload_key(told)))
        await a_life(s, gate)
        assert heard == expected
        if act == "unsubscribe others":
            assert extra == []


@pytest.mark.rule("H5", "H4", "C9", "L9")
@pytest.mark.parametrize("act", ["followup", "steer", "inject", "cancel", "splice", "dispose"])
@pytest.mark.parametrize("point", EMITTED, ids=lambda point: point.name)
async def test_a_listener_that_reenters_leaves_a_balanced_log_heard_in_order(point: Emit[Any], act: str) -> None:
    left = [6]
    seqs: list[int] = []
    gate = Gate()

    def reenter(told: Any) -> None:
        if s.agent.state in (State.DISPOSAL, State.DISPOSED) or not left[0]:
            return
        left[0] -= 1
        name = f"{act} {left[0]}"
        if act == "cancel":
            s.agent.cancel()
        elif act == "splice":
            s.agent.inbox.splice("next-step", 0, 1, [note(name)])
        elif act == "dispose":
            s.handle.dispose()
        else:
            getattr(s.agent, act)(note(name))

    async def live() -> None:
        try:
            await a_life(s, gate)
        except AgentDisposed:
            assert act == "dispose"

    async with stage(*script(gate), tools=[work], listen=False) as s:
        s.agent.scope.on(point, reenter)
        s.agent.scope.on(SESSION_EVENT, lambda told: seqs.append(told.event.seq))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live)
            await settled()
            gate.open()
            await settled()
            nursery.cancel_scope.cancel()
        with trio.fail_after(5):
            await s.agent.when_idle()
            if act == "dispose":
                await s.handle.dispose()
        assert left[0] < 6
        assert seqs == list(range(len(seqs)))
        assert len(seqs) == len(s.agent.session) or act == "dispose"


@pytest.mark.rule("H5")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("point", EMITTED, ids=lambda point: point.name)
async def test_what_leaves_the_program_is_raised_after_the_dispatch_and_the_agents_are_wound_down(
    point: Emit[Any], kind: type[BaseException]
) -> None:
    heard: list[str] = []
    gate = Gate()
    raised: list[BaseException] = []

    def leave(told: Any) -> None:
        if not raised:
            raised.append(kind("out"))
            raise raised[0]

    async def body(s: Stage) -> None:
        s.agent.scope.on(point, leave)
        s.agent.scope.on(point, lambda told: heard.append(payload_key(told)))
        await a_life(s, gate)

    s = await leaves(kind, body, *script(gate), tools=[work], listen=False)
    assert raised
    assert heard
    assert s.agent.state is State.DISPOSED
    assert len([text for text in s.log if "start" in text]) == len([text for text in s.log if "/end" in text])


@pytest.mark.rule("H5")
async def test_an_async_listener_that_leaves_the_program_ends_the_host() -> None:
    async def leave(told: Any) -> None:
        raise SystemExit(3)

    async def body(s: Stage) -> None:
        s.agent.scope.on(INBOX_INSERTED, leave)
        s.agent.inject(note("i"))

    await leaves(SystemExit, body)


@pytest.mark.rule("H5", "N7")
async def test_async_listeners_with_tasks_of_their_own_end_quietly_with_their_scope() -> None:
    errors: list[BaseException] = []

    async def family(told: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)

    async with stage("one") as s:
        s.host.on(AGENT_ERROR, lambda told: errors.append(told.error))
        s.agent.scope.on(INBOX_INSERTED, family)
        s.agent.inject(note("i"))
        await settled()
        await s.handle.dispose()
        assert errors == []


@pytest.mark.rule("H5", "N7")
async def test_a_listener_that_shields_itself_is_waited_for_without_spinning(autojump_clock: Any) -> None:
    done: list[str] = []

    async def slow(told: Any) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(60)
        done.append("done")

    async with stage("one") as s:
        s.agent.scope.on(INBOX_INSERTED, slow)
        s.agent.inject(note("i"))
        await settled()
        await s.handle.dispose()
        assert done == ["done"]


@pytest.mark.rule("H5", "O5")
async def test_an_async_listener_told_while_its_scope_ends_does_not_run() -> None:
    ran: list[str] = []

    async def late(told: Any) -> None:
        await trio.lowlevel.checkpoint()
        ran.append("late")

    async with stage("one") as s:
        s.agent.scope.on(INBOX_INSERTED, late)
        s.agent.inject(note("i"))
        await s.agent.scope.close(lambda error: None)
        await settled()
        assert ran == []


@pytest.mark.rule("H5", "N8")
async def test_an_async_listener_before_the_host_runs_is_reported_and_not_leaked() -> None:
    class Told:
        pass

    point: Emit[Told] = Emit("p", Told)
    scope = Scope("alone")

    async def listener(told: Told) -> None: ...

    class Later:
        def __await__(self) -> Any:
            yield

    scope.on(point, listener)
    scope.on(point, lambda told: Later())
    reported: list[BaseException] = []
    emit(scope.heard[point], Told(), lambda one, error: reported.append(error))
    assert [type(error).__name__ for error in reported] == ["ScopeClosed", "ScopeClosed"]


@pytest.mark.rule("H5", "N8")
async def test_an_error_listener_that_fails_is_logged_and_the_next_one_hears(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[BaseException] = []
    async with stage("one", listen=False) as s:
        s.agent.scope.on(AGENT_STATUS, raising(ValueError("status")))
        s.agent.scope.on(AGENT_ERROR, raising(KeyError("error listener")))
        s.agent.scope.on(AGENT_ERROR, lambda told: heard.append(told.error))
        await s.ask("a")
        assert [str(error) for error in heard] == ["status", "status"]
        assert "a listener of agent/error failed" in caplog.text


@pytest.mark.rule("H5")
@pytest.mark.parametrize("point", [SESSION_START, AGENT_DISPOSED], ids=lambda point: point.name)
async def test_listeners_of_an_agents_beginning_and_end_are_contained_too(point: Emit[Any]) -> None:
    heard: list[str] = []
    async with Host() as host:
        host.on(point, raising(ValueError("bad")))
        host.on(point, lambda told: heard.append(told.agent.id))
        handle = await host.agents.create(session_id="s1")
        await handle.dispose()
        assert heard == ["s1"]


@pytest.mark.rule("H5", "C9")
async def test_a_frame_listener_that_reenters_is_told_in_order() -> None:
    order: list[str] = []

    def reenter(told: Any) -> None:
        order.append(type(told.frame).__name__)
        if isinstance(told.frame, FrameChunk) and told.frame.index == 0:
            s.agent.inject(note("i"))
            order.append("injected")

    async with stage("one two") as s:
        s.agent.scope.on(ASSISTANT_STREAM, reenter)
        s.agent.scope.on(INBOX_INSERTED, lambda told: order.append(f"inserted {told.message.text}"))
        await s.ask("a")
        assert order[1:5] == ["FrameStart", "FrameChunk", "injected", "inserted i"]
        assert order[-1] == "FrameEnd"


@pytest.mark.rule("H5", "N7")
async def test_a_listener_that_leaves_in_the_middle_of_a_turn_stops_the_agent_before_it_goes_on() -> None:
    def leave(told: Any) -> None:
        if told.event.type == "step/start":
            raise KeyboardInterrupt

    async def body(s: Stage) -> None:
        s.agent.scope.on(SESSION_EVENT, leave)
        await s.ask("a")

    s = await leaves(KeyboardInterrupt, body, "never")
    assert (s.ends, s.requests) == (["aborted disposed"], [])
    assert s.agent.state is State.DISPOSED


@pytest.mark.rule("H5", "N7")
async def test_who_leaves_while_a_turn_is_being_cancelled_stops_the_agent_although_a_wake_waits() -> None:
    gate = Gate()

    @tool
    async def stubborn() -> str:
        with trio.CancelScope(shield=True):
            await gate.wait()
        return "at last"

    def leave(told: Any) -> None:
        if told.event.type == "tool/result":
            raise KeyboardInterrupt

    async def body(s: Stage) -> None:
        s.agent.scope.on(SESSION_EVENT, leave)
        s.agent.followup(note("a"))
        await gate.reached()
        s.agent.cancel()
        s.agent.followup(note("b"))
        gate.open()

    s = await leaves(KeyboardInterrupt, body, Answer(calls=[Call("stubborn")]), "never", tools=[stubborn])
    assert len(s.requests) == 1
    assert s.agent.state is State.DISPOSED


@pytest.mark.rule("H5")
async def test_of_several_that_leave_one_is_raised() -> None:
    async def leave(told: Any) -> None:
        raise SystemExit(told.message.text)

    async def body(s: Stage) -> None:
        s.agent.scope.on(INBOX_INSERTED, leave)
        s.agent.scope.on(INBOX_INSERTED, leave)
        s.agent.inject(note("out"))

    await leaves(SystemExit, body)


@pytest.mark.rule("H5", "N7", "O4")
@pytest.mark.parametrize("point", [CANCEL_REQUESTED, SESSION_EVENT, AGENT_STATUS], ids=lambda point: point.name)
@pytest.mark.parametrize("by", ["the owner", "leaving the host"])
async def test_a_listener_that_leaves_while_its_agent_is_disposed_does_not_stop_the_disposal(
    point: Emit[Any], by: str
) -> None:
    gate = Gate()

    async def body(s: Stage) -> None:
        other = await s.host.agents.create(agent_options=s.agent.options)
        kept.append(other.agent)
        s.agent.followup("go")
        other.agent.followup("go")
        await gate.reached()
        for agent in (s.agent, other.agent):
            agent.scope.on(point, raising(KeyboardInterrupt()))
        if by == "the owner":
            with trio.CancelScope(shield=True):
                await s.handle.dispose()
        else:
            raise KeyboardInterrupt

    kept: list[Any] = []
    s = await leaves(KeyboardInterrupt, body, talk("x", gate), talk("y", Gate()), listen=False)
    assert [agent.state for agent in (s.agent, *kept)] == [State.DISPOSED] * 2


@pytest.mark.rule("H5", "P8")
async def test_a_flush_that_leaves_the_program_ends_the_host() -> None:
    async def flush(told: Any) -> None:
        raise SystemExit

    async def body(s: Stage) -> None:
        s.agent.scope.on(SESSION_FLUSH, flush)
        s.agent.followup("a")

    s = await leaves(SystemExit, body)
    assert s.ends == ["completed"]
