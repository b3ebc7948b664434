"""Failed attempts and who owns their recovery (contract §9, H6)."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

from tests.stage import stage, talk
from treadle import Answer, Call, Failure, Host, ModelFailure, ScriptedModel, tool
from treadle.hooks import LLM_STREAM, REQUEST, REQUEST_ERROR, Retry
from treadle.models import BlockStart, Code, Finish, Finished, RetryPolicy, TextDelta, Usage, UsageReport

# --- H6 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("H6", "Q5")
async def test_request_error_gets_the_facts_and_the_failures_before() -> None:
    seen: list[Any] = []
    policy = RetryPolicy("normal", codes=frozenset())

    def look(failed: Any, proceed: Any) -> Retry | None:
        seen.append(failed)
        return Retry() if len(seen) < 3 else None

    script = [talk(ModelFailure(Failure(f"no {index}", Code.SERVER.value, 503))) for index in range(3)]
    model = ScriptedModel(script, retry_policy=policy)
    async with stage(model=model) as s:
        s.agent.scope.on(REQUEST_ERROR, look)
        await s.ask("a")
        assert [failed.failure.message for failed in seen] == ["no 0", "no 1", "no 2"]
        last = seen[-1]
        assert [one.message for one in last.prior] == ["no 0", "no 1"]
        assert (last.turn, last.step, last.provider, last.retry_policy) == (1, 1, "scripted", policy)
        assert (last.agent, last.signal.cancelled, last.failure.status) == (s.agent, False, 503)
        assert s.ends == ["error SERVER"]
        assert s.log.count("attempt") == 3


@pytest.mark.rule("H6")
async def test_prior_failures_belong_to_their_step() -> None:
    seen: list[int] = []

    def look(failed: Any, proceed: Any) -> Retry:
        seen.append(len(failed.prior))
        return Retry()

    @tool
    async def work() -> None: ...

    bad = talk(ModelFailure(Failure("no", "SERVER")))
    async with stage(bad, Answer(calls=[Call("work")]), bad, "done", tools=[work]) as s:
        s.agent.scope.on(REQUEST_ERROR, look)
        await s.ask("a")
        assert seen == [0, 0]


@pytest.mark.rule("H6")
async def test_the_default_of_request_error_is_terminal() -> None:
    async with stage(talk(ModelFailure(Failure("no", "SERVER")))) as s:
        s.agent.scope.on(REQUEST_ERROR, lambda failed, proceed: proceed())
        await s.ask("a")
        assert (len(s.requests), s.ends) == (1, ["error SERVER"])


@pytest.mark.rule("H6", "T9")
@pytest.mark.parametrize("where", ["request hook", "before the stream", "in the stream", "a group in the stream"])
async def test_request_error_does_not_run_for_failures_of_hooks_and_middleware(where: str) -> None:
    ran: list[str] = []

    def recover(failed: Any, proceed: Any) -> Any:
        ran.append(failed.failure.message)
        return proceed()

    def fail(*given: Any) -> Any:
        raise ValueError("middleware")

    async def wrap(proposal: Any, proceed: Any) -> Any:
        inner = await proceed()

        async def play() -> Any:
            async for chunk in inner:
                yield chunk
                await inner.aclose()
                if where == "a group in the stream":
                    raise ExceptionGroup("g", [ValueError("middleware")])
                raise ValueError("middleware")

        return play()

    async with stage("one") as s:
        s.agent.scope.on(REQUEST_ERROR, recover)
        if where == "request hook":
            s.agent.scope.on(REQUEST, fail)
        else:
            s.agent.scope.on(LLM_STREAM, fail if where == "before the stream" else wrap)
        await s.ask("a")
        assert ran == []
        assert s.ends == ["error UNKNOWN"]
        assert "middleware" in s.errors[0].failure.message


@pytest.mark.rule("H6")
async def test_request_error_runs_for_a_failure_of_the_provider_below_middleware() -> None:
    ran: list[str] = []

    def recover(failed: Any, proceed: Any) -> Any:
        ran.append(failed.failure.code)
        return Retry()

    async with stage(talk("x", ModelFailure(Failure("no", "SERVER"))), "fine") as s:
        s.agent.scope.on(LLM_STREAM, passing_on)
        s.agent.scope.on(REQUEST_ERROR, recover)
        await s.ask("a")
        assert (ran, s.ends) == (["SERVER"], ["completed"])


async def passing_on(proposal: Any, proceed: Any) -> Any:
    inner = await proceed()

    async def play() -> Any:
        async with aclosing(inner):
            async for chunk in inner:
                yield chunk

    return play()


@pytest.mark.rule("H6", "Q5")
async def test_a_stream_that_ends_early_below_middleware_is_the_providers_failure() -> None:
    async with stage(talk("half", finish=None), "fine") as s:
        s.agent.scope.on(LLM_STREAM, passing_on)
        s.agent.scope.on(REQUEST_ERROR, lambda failed, proceed: Retry())
        await s.ask("a")
        assert s.log[3:5] == ["attempt", "assistant 'fine'"]


@pytest.mark.rule("H6", "Q6", "H2")
async def test_middleware_may_look_at_the_first_chunk_without_a_second_provider_call() -> None:
    first: list[Any] = []

    async def peek(proposal: Any, proceed: Any) -> Any:
        stream = await proceed()
        first.append(await anext(stream))
        return stream

    words = [BlockStart(0, "text"), TextDelta(0, "x"), Finished(Finish("stop"))]
    async with stage([UsageReport(Usage(1)), *words]) as s:
        s.agent.scope.on(LLM_STREAM, peek)
        await s.ask("a")
        assert (first, len(s.requests)) == ([UsageReport(Usage(1))], 1)
        assert s.log[3] == "assistant 'x'"


@pytest.mark.rule("H6", "Q5")
async def test_request_error_runs_for_a_stream_below_middleware_that_breaks_the_protocol() -> None:
    ran: list[str] = []

    def recover(failed: Any, proceed: Any) -> Any:
        ran.append(failed.failure.code)
        return proceed()

    async with stage(["no chunk"]) as s:
        s.agent.scope.on(LLM_STREAM, passing_on)
        s.agent.scope.on(REQUEST_ERROR, recover)
        await s.ask("a")
        assert (ran, s.ends) == (["MALFORMED_RESPONSE"], ["error MALFORMED_RESPONSE"])


@pytest.mark.rule("H6")
async def test_without_a_listener_a_failed_attempt_is_terminal() -> None:
    async with stage(talk(ModelFailure(Failure("no", "SERVER"))), "never", host=Host(retries=None)) as s:
        await s.ask("a")
        assert (len(s.requests), s.ends) == (1, ["error SERVER"])
