"""Every call that can fail fails once: the log stays balanced, the failure is visible, the next wake works (L8, T9, N8)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
import trio

from tests.loop.test_containment import Odd, leaked_cancelled
from tests.stage import Gate, Stage, leaves, stage, talk
from treadle import Answer, Call, Host, ScriptedModel, Session, State, tool
from treadle.hooks import (
    LLM_STREAM,
    PRE_STEP,
    PROMPT_SUBMIT,
    REQUEST,
    REQUEST_ERROR,
    SYSTEM_PROMPT_ASSEMBLE,
    TOOLS_EXECUTE,
    TOOLS_POST_EXECUTE,
    TOOLS_PRE_EXECUTE,
    TURN_STOPPING,
)
from treadle.loop import scheduler
from treadle.models import ModelInfo, RetryPolicy
from treadle.session import StepEnd
from treadle.words.failures import innermost

KINDS = ["Exception", "BaseException", "Cancelled", "group"]
TURN_HOOKS = [PROMPT_SUBMIT, PRE_STEP, REQUEST, LLM_STREAM, SYSTEM_PROMPT_ASSEMBLE, TURN_STOPPING]
TOOL_HOOKS = [TOOLS_PRE_EXECUTE, TOOLS_EXECUTE, TOOLS_POST_EXECUTE]


class Once:
    """Raises the first time it is asked to."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.raised = False

    def __call__(self) -> None:
        if not self.raised:
            self.raised = True
            raise self.error


async def made(kind: str) -> BaseException:
    if kind == "Cancelled":
        return await leaked_cancelled()
    if kind == "group":
        return BaseExceptionGroup("several", [ValueError("one"), Odd("two")])
    return ValueError("bad") if kind == "Exception" else Odd("bad")


async def fails_the_turn(s: Stage, fail: Once) -> None:
    with trio.fail_after(5):
        await s.ask("a")
    assert fail.raised
    assert s.ends == ["error UNKNOWN"]
    assert [innermost(told.error) for told in s.errors] == [innermost(fail.error)]
    await works_again(s)


async def fails_the_call(s: Stage, fail: Once) -> None:
    with trio.fail_after(5):
        await s.ask("a")
    assert fail.raised
    assert s.ends == ["completed"]
    failed = [text for text in s.log if text.startswith("result") and not text.endswith("ok")]
    assert len(failed) == 1
    await works_again(s)


async def works_again(s: Stage) -> None:
    assert s.agent.state is State.IDLE
    before = len(s.log)
    with trio.fail_after(5):
        await s.ask("again")
    turn = len(s.ends)
    assert s.log[before:] == [
        f"turn/start {turn}",
        f"step/start {turn}.1",
        "user again",
        "assistant 'Done.'",
        f"step/end {turn}.1",
        f"turn/end {turn} completed",
    ]


def hook(fail: Once, *, asynchronous: bool) -> Callable[..., Any]:
    async def later(payload: Any, *proceed: Any) -> Any:
        await trio.lowlevel.checkpoint()
        fail()
        return await proceed[0]() if proceed else None

    def at_once(payload: Any, *proceed: Any) -> Any:
        fail()
        return proceed[0]() if proceed else None

    return later if asynchronous else at_once


@pytest.mark.rule("L8", "T9", "T10", "N8")
@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", TURN_HOOKS, ids=lambda point: point.name)
async def test_a_failing_hook_of_the_turn_ends_it_with_that_error(point: Any, kind: str, asynchronous: bool) -> None:
    fail = Once(await made(kind))
    async with stage() as s:
        s.agent.scope.on(point, hook(fail, asynchronous=asynchronous))
        await fails_the_turn(s, fail)


@pytest.mark.rule("L8", "T9", "H6")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_failing_recovery_ends_the_turn_with_its_own_error(kind: str) -> None:
    fail = Once(await made(kind))
    async with stage(talk(RuntimeError("model"))) as s:
        s.agent.scope.on(REQUEST_ERROR, hook(fail, asynchronous=False))
        await fails_the_turn(s, fail)
        assert s.log.count("attempt") == 1


@tool
async def work() -> str:
    return "done"


@pytest.mark.rule("L8", "K2", "N8")
@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", TOOL_HOOKS, ids=lambda point: point.name)
async def test_a_failing_hook_of_a_tool_becomes_an_error_result(point: Any, kind: str, asynchronous: bool) -> None:
    fail = Once(await made(kind))
    async with stage(Answer(calls=[Call("work"), Call("work")]), tools=[work]) as s:
        s.agent.scope.on(point, hook(fail, asynchronous=asynchronous))
        await fails_the_call(s, fail)
        code = "TOOL_FAILED" if point is TOOLS_EXECUTE else "HOOK_FAILED"
        assert f"result call_1 {code}" in s.log
        assert "result call_2 ok" in s.log


@pytest.mark.rule("L8", "K2", "K3", "N8")
@pytest.mark.parametrize("parallel", [True, False], ids=["parallel", "exclusive"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stage_of", ["body", "thread", "guard", "render", "final content"])
async def test_a_failing_stage_of_a_tool_becomes_an_error_result(stage_of: str, kind: str, parallel: bool) -> None:
    fail = Once(await made(kind))

    def passing(content: Any) -> Any:
        fail()
        return content

    options: dict[str, Any] = {"parallel": parallel}
    if stage_of == "render":
        options["render"] = passing
    if stage_of == "final content":
        options["final_content"] = passing

    async def task() -> str:
        if stage_of == "body":
            fail()
        return "done"

    def thread() -> str:
        fail()
        return "done"

    one = tool(thread if stage_of == "thread" else task, **options)
    async with stage(Answer(calls=[Call(one.name), Call(one.name)]), tools=[one]) as s:
        if stage_of == "guard":
            s.agent.tools.guard(lambda proposal: fail())
        await fails_the_call(s, fail)


class Faulty(ScriptedModel):
    """Fails where it is told to."""

    def __init__(self, where: str, fail: Once) -> None:
        super().__init__()
        self.where = where
        self.fail = fail

    @property
    def retry_policy(self) -> RetryPolicy | None:
        if self.where == "retry_policy":
            self.fail()
        return None

    async def model_info(self, model: str) -> ModelInfo:
        if self.where == "model_info":
            self.fail()
        return ModelInfo()

    def stream(self, request: Any) -> Any:
        if self.where == "stream":
            self.fail()
        return self.play(request)

    async def play(self, request: Any) -> Any:
        try:
            if self.where == "first chunk":
                self.fail()
            async with aclosing(super().stream(request)) as inner:  # type: ignore[type-var]
                async for chunk in inner:
                    yield chunk
                    if self.where == "later chunk":
                        self.fail()
            if self.where == "after the finish":
                self.fail()
        finally:
            if self.where == "close":
                self.fail()


@pytest.mark.rule("L8", "T9", "Q5", "N8")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["model_info", "stream", "first chunk", "later chunk"])
async def test_a_failing_adapter_ends_the_turn_with_its_error(where: str, kind: str) -> None:
    fail = Once(await made(kind))
    async with stage(model=Faulty(where, fail)) as s:
        await fails_the_turn(s, fail)


@pytest.mark.rule("L8", "H6")
@pytest.mark.parametrize("kind", KINDS)
async def test_an_adapter_that_cannot_say_its_policy_ends_the_turn_with_that_error(kind: str) -> None:
    fail = Once(await made(kind))
    model = Faulty("nowhere yet", fail)
    model.push(talk(RuntimeError("model")))
    async with stage(model=model, host=Host(retries=None)) as s:
        model.where = "retry_policy"
        s.agent.scope.on(REQUEST_ERROR, lambda failed, proceed: proceed())
        await fails_the_turn(s, fail)


@pytest.mark.rule("Q5", "N8")
@pytest.mark.parametrize("where", ["after the finish", "close"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_that_fails_behind_its_finish_does_not_end_the_agent(where: str, kind: str) -> None:
    fail = Once(await made(kind))
    async with stage(model=Faulty(where, fail)) as s:
        with trio.fail_after(5):
            await s.ask("a")
        assert len(s.ends) == 1
        if s.ends == ["error UNKNOWN"]:
            assert [told.error for told in s.errors] == [fail.error]
        await works_again(s)


@pytest.mark.rule("K7", "L8", "N1")
@pytest.mark.parametrize("kind", ["Exception", "BaseException"])
async def test_a_fault_of_the_scheduler_drains_and_ends_the_turn_with_results_for_every_call(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Once(await made(kind))
    finished: list[str] = []

    @tool(parallel=True)
    async def started() -> str:
        await trio.lowlevel.checkpoint()
        finished.append("started")
        return "real"

    parse = scheduler.parse

    def faulty(call: Any, tools: Any) -> Any:
        if call.call_id == "call_2":
            fail()
        return parse(call, tools)

    monkeypatch.setattr(scheduler, "parse", faulty)
    async with stage(Answer(calls=[Call("started"), Call("started"), Call("started")]), tools=[started]) as s:
        await fails_the_turn(s, fail)
        results = [text for text in s.log if text.startswith("result")]
        if kind == "Exception":
            assert finished[0] == "started"
            assert results[:3] == [
                "result call_1 ok",
                "result call_2 TOOL_NOT_STARTED",
                "result call_3 TOOL_NOT_STARTED",
            ]
        else:
            assert len(results) >= 3


@pytest.mark.rule("L8", "K7")
async def test_a_program_that_leaves_from_a_tool_of_a_parallel_batch_is_not_swallowed() -> None:
    @tool(parallel=True)
    async def leave() -> None:
        raise SystemExit(4)

    s = await leaves(SystemExit, lambda s: s.ask("a"), Answer(calls=[Call("leave"), Call("leave")]), tools=[leave])
    assert s.ends == ["error UNKNOWN"]


@pytest.mark.rule("L8")
@pytest.mark.parametrize("point", [PRE_STEP, TURN_STOPPING, TOOLS_PRE_EXECUTE], ids=lambda point: point.name)
async def test_a_hook_that_leaves_the_program_ends_the_host_with_a_balanced_log(point: Any) -> None:
    def leave(*payload: Any) -> Any:
        raise KeyboardInterrupt

    async def body(s: Stage) -> None:
        s.agent.scope.on(point, leave)
        await s.ask("a")

    s = await leaves(KeyboardInterrupt, body, Answer(calls=[Call("work")]), tools=[work])
    assert s.ends == ["error UNKNOWN"]
    assert s.agent.state is State.DISPOSED


@pytest.mark.rule("N7", "L8")
async def test_a_fault_in_the_driver_itself_ends_the_host_and_hangs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Session.commit

    def broken(session: Session, data: Any, *given: Any) -> Any:
        return 1 / 0 if isinstance(data, StepEnd) else commit(session, data, *given)

    async def body(s: Stage) -> None:
        monkeypatch.setattr(Session, "commit", broken)
        s.agent.followup("a")

    await leaves(ZeroDivisionError, body, "one")


@pytest.mark.rule("N7", "L8")
async def test_a_fault_in_the_driver_during_disposal_hangs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()

    async def body(s: Stage) -> None:
        s.agent.followup("a")
        await gate.reached()
        disposal = s.handle.dispose()
        monkeypatch.setattr(Session, "commit", lambda *given: 1 / 0)
        await disposal

    await leaves(ZeroDivisionError, body, talk("x", gate))


@pytest.mark.rule("N7", "O4")
async def test_cancelling_the_host_winds_its_agents_down_in_order() -> None:
    gate = Gate()
    kept: list[Stage] = []
    with trio.CancelScope() as scope:
        async with stage(talk("x", gate)) as opened:
            kept.append(opened)
            opened.agent.followup("a")
            await gate.reached()
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    s = kept[0]
    assert s.ends == ["aborted disposed"]
    assert s.agent.state is State.DISPOSED
