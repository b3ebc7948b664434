"""A tool has one name on a wire: where it is offered, in calls of the history, and when it is called; no two share one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.adapters.strict_rules import NAME, check_tools
from tests.adapters.wires import MemoryTransport, outcome, request
from treadle import AssistantMessage, Message, Text, ToolCall, ToolResultMessage
from treadle.models import ToolResult, ToolSchema
from treadle.words.messages import user_message
from treadle_adapters.models.anthropic import Anthropic
from treadle_adapters.models.deepseek import DeepSeek
from treadle_adapters.models.encoding import wire_name
from treadle_adapters.models.http_model import HTTPModel
from treadle_adapters.models.openai_chat import OpenAIChat
from treadle_adapters.models.openai_responses import OpenAIResponses

URL = "http://provider.test/v1"
NAMES = [
    "look",
    "a/b",
    "a_b",
    "a.b",
    "server.tool",
    "server__tool",
    "dépôt",
    "工具",
    "x" * 64,
    "x" * 65,
    "x" * 64 + "y",
]
NAMES.append(wire_name("a/b"))
"""Names as users and servers of tools give them; the last one is what another of them becomes on a wire."""

TOOLS = tuple([ToolSchema(name, "Does it.", {"type": "object"}) for name in NAMES])


def events(*told: dict[str, Any]) -> bytes:
    return b"".join([f"event: {one.get('type', 'message')}\ndata: {json.dumps(one)}\n\n".encode() for one in told])


def chat(name: str) -> bytes:
    function = {"name": name, "arguments": "{}"}
    call = {"index": 0, "id": "c", "type": "function", "function": function}
    return events(
        {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    )


def responses(name: str) -> bytes:
    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": name, "arguments": "{}"}
    done = {"id": "r", "status": "completed", "output": [item]}
    return events(
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"arguments": ""}},
        {"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "fc", "arguments": "{}"},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    )


def messages(name: str) -> bytes:
    block = {"type": "tool_use", "id": "c", "name": name, "input": dict[str, Any]()}
    return events(
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    )


Wire = tuple[Callable[..., HTTPModel], Callable[[str], bytes], Callable[[dict[str, Any]], list[str]], str]


def of_chat(body: dict[str, Any]) -> list[str]:
    return [call["function"]["name"] for said in body["messages"] for call in said.get("tool_calls", ())]


def of_responses(body: dict[str, Any]) -> list[str]:
    return [item["name"] for item in body["input"] if item.get("type") == "function_call"]


def of_messages(body: dict[str, Any]) -> list[str]:
    blocks = [block for said in body["messages"] for block in said["content"]]
    return [block["name"] for block in blocks if block["type"] == "tool_use"]


WIRES: dict[str, Wire] = {
    "openai-chat": (OpenAIChat, chat, of_chat, "function"),
    "deepseek": (DeepSeek, chat, of_chat, "function"),
    "openai-responses": (OpenAIResponses, responses, of_responses, ""),
    "anthropic": (Anthropic, messages, of_messages, ""),
}


def history() -> list[Message]:
    calls = [ToolCall(f"c{number}", name, "{}") for number, name in enumerate(NAMES)]
    results = [ToolResultMessage((ToolResult(call.call_id, (Text("done"),)),)) for call in calls]
    return [user_message("go", "u"), AssistantMessage(tuple(calls)), *results]


@pytest.mark.rule("K1", "Q1")
@pytest.mark.parametrize("wire", WIRES)
async def test_a_tool_is_offered_under_the_name_that_its_calls_have_in_the_history(wire: str) -> None:
    make, answer, called, inside = WIRES[wire]
    transport = MemoryTransport([answer("look")])
    async with make(URL, transport=transport) as model:
        await outcome(model, request(*history(), tools=TOOLS))
    body = transport.sent()
    offered = [(tool[inside] if inside else tool)["name"] for tool in body["tools"]]
    check_tools(offered)
    assert called(body) == offered


@pytest.mark.rule("K1", "K3")
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", NAMES)
async def test_a_tool_is_called_by_its_own_name_whatever_the_provider_knows_it_by(wire: str, name: str) -> None:
    make, answer, _, _ = WIRES[wire]
    async with make(URL, transport=MemoryTransport([answer(wire_name(name))])) as model:
        got = await outcome(model, request(tools=TOOLS))
    assert [called for _, called, _ in got.calls] == [name]


@pytest.mark.slow
@pytest.mark.rule("K1")
@given(st.text(max_size=80), st.text(max_size=80))
def test_names_of_tools_are_valid_on_every_wire_and_stay_apart(one: str, other: str) -> None:
    assert NAME.fullmatch(wire_name(one))
    assert (wire_name(one) == wire_name(other)) == (one == other)
    assert wire_name(wire_name(one)) != wire_name(one) or wire_name(one) == one
