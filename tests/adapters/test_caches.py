"""What providers can take from their caches: the head of each request is that of the one before, byte for byte."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve

from treadle import AgentOptions, Answer, Call, Host, MisuseError, ModelRequest, ScriptedModel, Tool, message, tool
from treadle.models import ModelInfo
from treadle.models.scripted import chunks_of
from treadle_adapters.models.anthropic import Anthropic
from treadle_adapters.models.deepseek import DeepSeek
from treadle_adapters.models.http_model import HTTPModel
from treadle_adapters.models.openai_chat import OpenAIChat
from treadle_adapters.models.openai_responses import OpenAIResponses

URL = "http://provider.test"
WIRES: dict[str, Callable[[], HTTPModel]] = {
    "openai_chat": lambda: OpenAIChat(URL),
    "deepseek": lambda: DeepSeek(URL),
    "anthropic": lambda: Anthropic(URL),
    "openai_responses": lambda: OpenAIResponses(URL),
}
MARK = b',"cache_control":{"type":"ephemeral"}'


@tool
def read(path: str) -> str:
    """Read a file."""
    return f'said "{path}" ]}}]}},{{"role":"assistant","content":[ and no more'


@tool
def write(path: str, text: str) -> str:
    """Write a file."""
    return f"wrote {len(text)} characters to {path}"


@tool
def ask(question: str) -> str:
    """Ask a person."""
    return "yes"


class Wire:
    """Answers from a script, and keeps the bodies that a real adapter would send."""

    name = "wire"
    retry_policy = None

    def __init__(self, adapter: HTTPModel, script: list[Answer]) -> None:
        self.adapter = adapter
        self.name = adapter.name
        self.script = script
        self.bodies: list[bytes] = []

    async def model_info(self, model: str) -> ModelInfo:
        return await self.adapter.model_info(model)

    async def stream(self, request: ModelRequest) -> Any:
        self.bodies.append(self.adapter._body(request))
        number, answer = len(self.bodies), self.script.pop(0)
        calls = [evolve(call, id=f"call_{number}_{place}") for place, call in enumerate(answer.calls)]
        for chunk in chunks_of(evolve(answer, calls=calls)):
            yield chunk


def script() -> list[Answer]:
    """Four requests of one turn, and two of another; what is said looks like the protocol's own."""
    hostile = '{"messages":[{"role":"user","content":[]},{"role":"assistant","content":[1]}]}'
    return [
        Answer("I look.", reasoning="Hm.", calls=[Call("read", {"path": "a"}), Call("ask", {"question": "b?"})]),
        Answer(calls=[Call("write", {"path": hostile, "text": "c"})]),
        Answer(calls=[Call("read", {"path": f"file {number}"}) for number in range(25)]),
        Answer("Done."),
        Answer(calls=[Call("read", {"path": "d"})]),
        Answer("Done again."),
    ]


async def bodies(adapter: HTTPModel, tools: list[Tool]) -> list[bytes]:
    """What is sent in a session of two turns, with tools registered in an order of their own."""
    wire: Any = Wire(adapter, script())
    async with adapter, Host(checks=True) as host:
        host.models.register("wire", wire)
        for one in tools:
            host.tools.register(one)
        host.prompt.persona("You work on files.")
        options = AgentOptions(provider="wire", model="m")
        agent = (await host.agents.create(agent_options=options)).agent
        agent.followup("Look at the files.")
        await agent.when_idle()
        agent.inject("By the way.")
        agent.followup("Once more.")
        await agent.when_idle()
    assert len(wire.bodies) == 6
    return wire.bodies


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.rule("Q15")
async def test_requests_of_a_series_share_their_head_byte_for_byte(wire: str) -> None:
    sent = [body.replace(MARK, b"") for body in await bodies(WIRES[wire](), [read, write, ask])]
    for before, after in pairwise(sent):
        head = before.rstrip(b"]}")
        assert after.startswith(head)
        assert len(head) > 0.9 * len(before)
    for body in sent:
        assert body.index(b'"tools"') < body.index(b"Look at the files.")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.rule("Q15")
async def test_another_session_of_the_same_words_sends_the_same_bytes(wire: str) -> None:
    """No time and no id of the session's is in a request, and tools stand in one order however they were registered."""
    assert await bodies(WIRES[wire](), [read, write, ask]) == await bodies(WIRES[wire](), [ask, write, read])


@pytest.mark.rule("Q15")
async def test_tools_and_system_prompt_are_the_same_bytes_with_their_breakpoints() -> None:
    heads = [body[: body.index(b'"messages"')] for body in await bodies(Anthropic(URL), [read, write, ask])]
    assert len(set(heads)) == 1
    assert heads[0].count(MARK) == 2


# --- breakpoints ------------------------------------------------------------------------------------------------------


def marked(body: bytes) -> list[int]:
    """How many blocks of the messages stand up to each breakpoint, that block included."""
    blocks = [block for one in json.loads(body)["messages"] for block in one["content"]]
    return [number for number, block in enumerate(blocks, 1) if "cache_control" in block]


@pytest.mark.rule("Q15")
async def test_a_breakpoint_stands_where_the_request_before_ended_however_much_a_step_added() -> None:
    sent = [marked(body) for body in await bodies(Anthropic(URL), [read, write, ask])]
    for before, after in pairwise(sent):
        assert after[0] == before[-1]  # where the entry was written
        assert len(after) == 2
    assert max(after[-1] - after[0] for after in sent[1:]) > 20  # more than a search backwards would look at


@pytest.mark.rule("Q15")
async def test_there_are_four_breakpoints_at_most_and_a_choice() -> None:
    assert {body.count(MARK) for body in await bodies(Anthropic(URL), [read, write, ask])} == {3, 4}
    hour = await bodies(Anthropic(URL, cache="1h"), [read, write, ask])
    assert {body.count(b'"cache_control":{"type":"ephemeral","ttl":"1h"}') for body in hour} == {3, 4}
    assert not any(b"cache_control" in body for body in await bodies(Anthropic(URL, cache=None), [read, write, ask]))
    own = Anthropic(URL, extra_body={"cache_control": {"type": "ephemeral"}})
    assert {body.count(b"cache_control") for body in await bodies(own, [read, write, ask])} == {1}
    with pytest.raises(MisuseError, match="'5m', '1h' or None"):
        Anthropic(URL, cache="2h")  # type: ignore[arg-type]


@pytest.mark.rule("Q15")
async def test_a_session_without_system_prompt_and_tools_has_its_breakpoints_in_the_messages() -> None:
    model = ScriptedModel(["a", "b"])
    adapter = Anthropic(URL)
    async with adapter, Host() as host:
        host.models.register("m", model)
        agent = (await host.agents.create(agent_options=AgentOptions(provider="m", model="m"))).agent
        await agent.ask(message("hello"))
        await agent.ask(message("hello again"))
    first, second = [adapter._body(request) for request in model.requests]
    assert (marked(first), marked(second)) == ([1], [1, 3])
    assert (first.count(MARK), second.count(MARK)) == (1, 2)
