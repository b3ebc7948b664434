"""A whole agent against a third party's idea of the protocols: npm's aimock, on this machine."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.adapters.agents import Talk, talking
from tests.adapters.aimock import AIMock
from tests.stage import Gate
from treadle import Aborted, Completed, Errored, Reasoning, tool
from treadle.models import RetryPolicy
from treadle.session import AssistantAttempt, RetryScheduled, RetryStarted
from treadle_adapters.models.anthropic import Anthropic
from treadle_adapters.models.http_model import HTTPModel
from treadle_adapters.models.openai_chat import OpenAIChat
from treadle_adapters.models.openai_responses import OpenAIResponses

pytestmark = pytest.mark.slow

SPEED = 50.0
"""How much faster than real time trio's clock runs while a retry waits."""

PATIENCE = 60.0
"""Seconds on trio's clock after which a test counts as hanging."""

Maker = Callable[..., HTTPModel]
MAKERS: dict[str, tuple[str, Maker]] = {
    "chat": ("gpt-4.1", lambda url, **options: OpenAIChat(f"{url}/v1", **options)),
    "messages": ("claude-sonnet-4-5", Anthropic),
    "responses": ("gpt-4.1", lambda url, **options: OpenAIResponses(f"{url}/v1", **options)),
}
REASONING = {"chat": "deepseek-reasoner", "messages": "claude-sonnet-4-5", "responses": "o3-mini"}


@pytest.fixture(params=list(MAKERS))
def wire(request: pytest.FixtureRequest) -> str:
    return request.param


@asynccontextmanager
async def agent(wire: str, server: AIMock, options: dict[str, Any] | None = None, **more: Any) -> AsyncIterator[Talk]:
    name, make = MAKERS[wire]
    with trio.fail_after(PATIENCE):
        async with talking(make(server.url, **(options or {})), **{"model": name, **more}) as talk:
            yield talk


def says(text: str, *, to: str, **more: Any) -> dict[str, Any]:
    """A fixture: the answer to a message that holds ``to``."""
    match = {"userMessage": to, **more.pop("when", {})}
    return {"match": match, "response": {"content": text, **more.pop("response", {})}, **more}


def calls(*given: tuple[str, str, dict[str, Any]], to: str, **response: Any) -> dict[str, Any]:
    """A fixture: tool calls, as long as the turn has no result."""
    wanted = [{"id": call_id, "name": name, "arguments": json.dumps(arguments)} for call_id, name, arguments in given]
    return {"match": {"userMessage": to, "hasToolResult": False}, "response": {"toolCalls": wanted, **response}}


def sent(server: AIMock, number: int = -1) -> list[dict[str, Any]]:
    """The messages of one request, as the server read them."""
    return server.journal()[number]["body"]["messages"]


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


AFTER = {"when": {"hasToolResult": True}}


@pytest.mark.rule("Q5", "K3")
async def test_a_tool_loop_sends_the_call_and_its_result_back(wire: str, aimock: AIMock) -> None:
    aimock.teach(calls(("call_a", "add", {"a": 1, "b": 2}), to="sum"), says("It is 3.", to="sum", **AFTER))
    async with agent(wire, aimock, tools=[add], system_prompt="Count well.") as talk:
        assert isinstance(await talk.ask("The sum, please."), Completed)
        assert [answer.message.text for answer in talk.answers] == ["", "It is 3."]
    assert [entry["response"]["status"] for entry in aimock.journal()] == [200, 200]
    assert [tool["function"]["name"] for tool in aimock.journal()[0]["body"]["tools"]] == ["add"]
    messages = sent(aimock)
    assert roles(messages) == ["system", "user", "assistant", "tool"]
    (call,) = messages[2]["tool_calls"]
    assert (call["id"], call["function"]["name"]) == ("call_a", "add")
    assert json.loads(call["function"]["arguments"]) == {"a": 1, "b": 2}
    assert (messages[3]["tool_call_id"], messages[3]["content"]) == ("call_a", "3")


@pytest.mark.rule("K4", "K5")
async def test_parallel_calls_run_at_once_and_their_results_go_back_in_the_models_order(
    wire: str, aimock: AIMock
) -> None:
    gates = {"first": Gate(), "second": Gate()}

    @tool(parallel=True)
    async def wait(name: str) -> str:
        """Wait until told."""
        await gates[name].wait()
        return f"{name} is done"

    wanted = [("call_1", "wait", {"name": "first"}), ("call_2", "wait", {"name": "second"})]
    aimock.teach(calls(*wanted, to="both"), says("Both are done.", to="both", **AFTER))
    async with agent(wire, aimock, tools=[wait]) as talk:
        talk.agent.followup("Do both.")
        for gate in gates.values():
            await gate.reached()
        gates["second"].open()
        gates["first"].open()
        assert isinstance(await talk.agent.when_idle(), Completed)
    results = [(message["tool_call_id"], message["content"]) for message in sent(aimock) if message["role"] == "tool"]
    assert results == [("call_1", "first is done"), ("call_2", "second is done")]


@pytest.mark.rule("Q10")
async def test_reasoning_is_kept_apart_from_the_answer_through_a_tool_loop(wire: str, aimock: AIMock) -> None:
    thought = "First I add, then I tell."
    aimock.teach(
        calls(("call_a", "add", {"a": 1, "b": 2}), to="sum", reasoning=thought),
        says("It is 3.", to="sum", response={"reasoning": "Now I tell."}, **AFTER),
    )
    effort = "low" if wire != "chat" else None
    async with agent(wire, aimock, tools=[add], model=REASONING[wire], reasoning_effort=effort) as talk:
        assert isinstance(await talk.ask("The sum, please."), Completed)
        thoughts = [
            block.text for answer in talk.answers for block in answer.message.content if type(block) is Reasoning
        ]
        assert thoughts == [thought, "Now I tell."]
        assert talk.answers[1].message.text == "It is 3."
    assert [entry["response"]["status"] for entry in aimock.journal()] == [200, 200]


@pytest.mark.rule("D6", "T1")
async def test_steering_in_the_middle_of_an_answer_stands_after_it_in_the_next_request(
    wire: str, aimock: AIMock
) -> None:
    story = "Once upon a time there was a river that ran to the sea."
    aimock.teach(
        says("A mountain, then.", to="mountain"),
        says(story, to="story", latency=20, chunkSize=4),
    )
    async with agent(wire, aimock) as talk:
        talk.agent.followup("A story.")
        await talk.streamed(4)
        talk.agent.steer("About a mountain.")
        assert isinstance(await talk.agent.when_idle(), Completed)
        assert [text for text in talk.log if text.startswith(("turn/start", "step/start"))] == [
            "turn/start 1",
            "step/start 1.1",
            "step/start 1.2",
        ]
    assert [message["content"] for message in sent(aimock)] == ["A story.", story, "About a mountain."]


@pytest.mark.rule("D6", "S4")
async def test_steering_while_a_tool_runs_comes_after_its_result(wire: str, aimock: AIMock) -> None:
    gate = Gate()

    async def work() -> str:
        """Work."""
        await gate.wait()
        return "worked"

    aimock.teach(calls(("call_w", "work", {}), to="work"), says("Hurried.", to="hurry"))
    async with agent(wire, aimock, tools=[work]) as talk:
        talk.agent.followup("Please work.")
        await gate.reached()
        talk.agent.steer("And hurry.")
        gate.open()
        assert isinstance(await talk.agent.when_idle(), Completed)
        assert talk.answers[-1].message.text == "Hurried."
    read = roles(sent(aimock))
    if wire == "messages":  # there both are one message, and aimock reads the text of it before the results
        read[2:] = sorted(read[2:])
    assert read == ["user", "assistant", "tool", "user"]


@pytest.mark.rule("C3", "C5", "N7")
async def test_cancelling_in_the_middle_of_an_answer_ends_at_once_and_the_partial_text_is_history(
    wire: str, aimock: AIMock
) -> None:
    aimock.teach(
        says("Fine.", to="again"),
        says("word " * 400, to="story", latency=20, chunkSize=5),
    )
    async with agent(wire, aimock) as talk:
        talk.agent.followup("A story.")
        await talk.streamed(5)
        began = trio.current_time()
        talk.agent.cancel()
        assert isinstance(await talk.agent.when_idle(), Aborted)
        assert trio.current_time() - began < 1.0
        partial = talk.answers[0]
        assert partial.interrupted
        assert isinstance(await talk.ask("And again."), Completed)
    assert [message["content"].strip() for message in sent(aimock)] == [
        "A story.",
        partial.message.text.strip(),
        "And again.",
    ]


def limited(times: int, retry_after: float) -> list[dict[str, Any]]:
    error = {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}
    refusal = {"error": error, "status": 429, "retryAfter": retry_after}
    return [{"match": {"userMessage": "go", "sequenceIndex": number}, "response": refusal} for number in range(times)]


@pytest.mark.rule("Q6", "Q7")
async def test_a_rate_limit_is_waited_out_as_long_as_the_server_asks(
    wire: str, aimock: AIMock, mock_clock: MockClock
) -> None:
    mock_clock.rate = SPEED
    aimock.teach(*limited(2, 3), says("At last.", to="go", when={"sequenceIndex": 2}))
    async with agent(wire, aimock, {"retry_policy": RetryPolicy(base_delay=0.01)}) as talk:
        began = trio.current_time()
        assert isinstance(await talk.ask("go"), Completed)
        assert trio.current_time() - began >= 6.0
        waits = talk.facts(RetryScheduled)
        assert [(wait.attempt, wait.delay, wait.failure.code) for wait in waits] == [
            (2, 3.0, "RATE_LIMIT"),
            (3, 3.0, "RATE_LIMIT"),
        ]
        assert all(wait.failure.status == 429 and wait.failure.retry_after == 3.0 for wait in waits)
        assert [started.attempt for started in talk.facts(RetryStarted)] == [2, 3]
        assert len(talk.facts(AssistantAttempt)) == 2
        assert talk.answers[-1].message.text == "At last."
    assert [entry["response"]["status"] for entry in aimock.journal()] == [429, 429, 200]
    assert sent(aimock, 0) == sent(aimock, 2)


@pytest.mark.rule("Q6")
async def test_a_rate_limit_that_asks_for_too_long_a_wait_ends_the_turn(wire: str, aimock: AIMock) -> None:
    aimock.teach(*limited(1, 600))
    async with agent(wire, aimock) as talk:
        ended = await talk.ask("go")
        assert isinstance(ended, Errored)
        assert (ended.failure.code, ended.failure.retry_after) == ("RATE_LIMIT", 600.0)
        assert talk.facts(RetryScheduled) == []
    assert len(aimock.journal()) == 1


@pytest.mark.rule("Q6", "C8")
async def test_a_cancel_during_the_wait_for_a_retry_makes_no_further_request(wire: str, aimock: AIMock) -> None:
    aimock.teach(*limited(1, 9))
    async with agent(wire, aimock) as talk:
        talk.agent.followup("go")
        with trio.fail_after(5.0):
            while not talk.facts(RetryScheduled):
                await trio.lowlevel.checkpoint()
        began = trio.current_time()
        talk.agent.cancel()
        assert isinstance(await talk.agent.when_idle(), Aborted)
        assert trio.current_time() - began < 1.0
    assert len(aimock.journal()) == 1


async def test_every_request_says_who_sends_it(wire: str, aimock: AIMock) -> None:
    aimock.teach(says("Hello.", to="Hi"))
    async with agent(wire, aimock, {"api_key": "sk-test"}) as talk:
        await talk.ask("Hi")
    (entry,) = aimock.journal()
    assert entry["headers"]["user-agent"].startswith("treadle/")
    assert entry["body"]["stream"] is True
