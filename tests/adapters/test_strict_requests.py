"""Agents that live at random, on a provider that refuses every request that is not valid to the letter."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.adapters.agents import Talk, talking
from tests.adapters.strict_rules import check_chat, check_messages, read
from tests.adapters.strict_server import Protocol, StrictServer
from treadle import Retries, Tool, ToolOutput, message, tool
from treadle.models import RetryPolicy
from treadle_adapters.models.anthropic import Anthropic
from treadle_adapters.models.http_model import HTTPModel
from treadle_adapters.models.openai_chat import OpenAIChat

pytestmark = pytest.mark.slow

SCENARIOS = 200
BATCH = 20
URL = "http://provider.test/v1"
LIFE = 3_600.0


def tools(chance: random.Random) -> list[Tool]:
    """Tools of every kind of ending."""

    @tool(parallel=True)
    async def quick(n: int = 0) -> str:
        return "" if n == 2 else f"quick {n}"

    @tool(parallel=True)
    async def slow(n: int = 0) -> str:
        await trio.sleep(chance.choice([0.1, 1, 3]))
        return f"slow {n}"

    @tool
    async def solo(n: int) -> str:
        await trio.sleep(0.5)
        return f"solo {n}"

    @tool
    async def fails() -> None:
        raise ValueError("it failed")

    @tool
    async def ends() -> ToolOutput:
        return ToolOutput("ended", concludes_turn=True)

    @tool
    async def adds() -> ToolOutput:
        return ToolOutput("  ", contexts=(message("a context"),))

    return [quick, slow, solo, fails, ends, adds]


async def live(talk: Talk, chance: random.Random) -> None:
    """Talk to the agent at random, also when it does not expect it."""
    agent = talk.agent
    texts = ["go on", "   ", "stop that", "\u2028", "why?"]
    deeds: list[Callable[[], Any]] = [
        lambda: agent.followup(chance.choice(texts)),
        lambda: agent.followup("and more"),
        lambda: agent.steer(chance.choice(texts)),
        lambda: agent.inject("by the way"),
        lambda: agent.cancel(keep_inbox=chance.random() < 0.5),
        lambda: setattr(agent, "system_prompt", chance.choice(["", "Be brief.", "Be long."])),
    ]
    for _ in range(chance.randint(4, 10)):
        chance.choices(deeds, weights=[4, 2, 3, 1, 2, 1])[0]()
        if chance.random() < 0.4:
            await agent.when_idle()
        else:
            await trio.sleep(chance.choice([0, 0.02, 0.3, 1, 4]))
    agent.followup("the last one")
    await agent.when_idle()


def model(protocol: Protocol, server: StrictServer) -> HTTPModel:
    policy = RetryPolicy(max_retries=2)
    if protocol == "chat":
        return OpenAIChat(URL, transport=server, retry_policy=policy)
    return Anthropic(URL, transport=server, retry_policy=policy)


def scenario(protocol: Protocol, seed: int) -> StrictServer:
    chance = random.Random(seed)
    server = StrictServer(protocol, random.Random(-seed - 1))

    async def run() -> None:
        options: dict[str, Any] = {"max_steps_per_turn": 6}
        if chance.random() < 0.5:
            options["reasoning_effort"] = "low"
        host = {"retries": Retries(chance.random)}
        with trio.fail_after(LIFE):
            async with talking(
                model(protocol, server), tools=tools(chance), system_prompt="Be kind.", host=host, **options
            ) as talk:
                await live(talk, chance)

    _run(run)
    return server


def _run(main: Callable[[], Awaitable[None]]) -> None:
    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.rule("S4", "N2", "Q1", "C4")
@pytest.mark.parametrize("first", range(0, SCENARIOS, BATCH))
@pytest.mark.parametrize("protocol", ["chat", "messages"])
@pytest.mark.sampled(2)
def test_every_request_of_agents_at_random_is_one_that_strict_servers_take(protocol: Protocol, first: int) -> None:
    requests = 0
    for seed in range(first, first + BATCH):
        server = scenario(protocol, seed)
        assert server.faults == [], f"seed {seed}"
        assert server.open == 0, f"seed {seed} left a connection open"
        requests += len(server.requests)
    assert requests > 5 * BATCH


# --- the rules themselves ---------------------------------------------------------------------------------------------

HEAD = {"model": "m", "stream": True, "max_tokens": 9}
USER = {"role": "user", "content": "x"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": ""}
BAD_CHAT: dict[str, list[Any]] = {
    "nothing": [],
    "an answer last": [USER, {"role": "assistant", "content": "y"}],
    "a call without its result": [USER, ASKS, USER],
    "a call without its result at the end": [USER, ASKS],
    "a result without its call": [USER, RESULT],
    "a result twice": [USER, ASKS, RESULT, RESULT],
    "an id twice": [USER, ASKS, RESULT, ASKS, RESULT],
    "empty text": [{"role": "user", "content": ""}],
    "an empty answer": [USER, {"role": "assistant", "content": ""}, USER],
    "arguments cut off": [
        USER,
        {**ASKS, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{"}}]},
        RESULT,
    ],
}


@pytest.mark.parametrize("messages", BAD_CHAT.values(), ids=BAD_CHAT)
def test_a_bad_chat_request_is_found(messages: list[Any]) -> None:
    check_chat({**HEAD, "messages": [USER, ASKS, RESULT]})
    with pytest.raises((AssertionError, ValueError)):
        check_chat({**HEAD, "messages": messages})


TEXT = {"role": "user", "content": [{"type": "text", "text": "x"}]}
USES = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]}
GIVES = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1"}]}
THINKS = {"type": "thinking", "thinking": "hm", "signature": "s"}
BAD_MESSAGES: dict[str, list[Any]] = {
    "an answer first": [USES, GIVES],
    "an answer last": [TEXT, USES],
    "two of one role": [TEXT, TEXT],
    "a call without its result": [TEXT, USES, TEXT],
    "a result without its call": [TEXT, {"role": "assistant", "content": TEXT["content"]}, GIVES],
    "a result after text": [TEXT, USES, {"role": "user", "content": [*TEXT["content"], *GIVES["content"]]}],
    "no content": [{"role": "user", "content": []}],
    "blank text": [{"role": "user", "content": [{"type": "text", "text": " \n"}]}],
    "an id twice": [TEXT, USES, GIVES, USES, GIVES],
    "a changed thought": [TEXT, {"role": "assistant", "content": [THINKS, *USES["content"]]}, GIVES],
}


@pytest.mark.parametrize("messages", BAD_MESSAGES.values(), ids=BAD_MESSAGES)
def test_a_bad_messages_request_is_found(messages: list[Any]) -> None:
    check_messages({**HEAD, "messages": [TEXT, USES, GIVES]}, set())
    with pytest.raises(AssertionError):
        check_messages({**HEAD, "messages": messages}, set())


@pytest.mark.parametrize("body", [b'{"a": NaN}', b'{"a": "\\ud800"}', b'{"a": "\xff"}', b"{"])
def test_a_body_that_is_no_strict_json_is_found(body: bytes) -> None:
    with pytest.raises((AssertionError, ValueError)):
        read(body)
