"""What is special about DeepSeek, Anthropic and OpenAI's Responses: requests, replay, streams, listings."""

import json
from typing import Any

import httpx
import msgspec
import pytest

from tests.adapters.wires import MemoryTransport, Outcome, bodies, memory, outcome, request
from treadle import (
    AssistantMessage,
    Event,
    Message,
    ModelFailure,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from treadle.models import BlockEnd, CallConfig, ModelInfo, ToolResult, ToolSchema, Usage
from treadle.session import AssistantMessageAdded, decode_event, encode_event
from treadle.words.messages import user_message
from treadle_adapters.models.anthropic import Anthropic
from treadle_adapters.models.deepseek import DeepSeek
from treadle_adapters.models.http_model import HTTPModel
from treadle_adapters.models.openai_chat import OpenAIChat
from treadle_adapters.models.openai_responses import OpenAIResponses

LOOK = ToolSchema("look", "Looks.", {"type": "object"})
ANTHROPIC = "http://a.test"
OPENAI = "http://a.test/v1"


def body(model: HTTPModel, *messages: Message, **asked: Any) -> dict[str, Any]:
    return json.loads(model._body(request(*messages, **asked)))


def reloaded(message: AssistantMessage) -> AssistantMessage:
    """The message as it comes back from a stored log."""
    stored = encode_event(Event("assistant/message", 0, 0, AssistantMessageAdded(message, "a1")))
    return decode_event(stored).data.message


def told(call_id: str, text: str = "r", **options: Any) -> ToolResultMessage:
    return ToolResultMessage((ToolResult(call_id, (Text(text),), **options),))


async def recorded(model: type[HTTPModel], name: str) -> Outcome:
    (found,) = [item for item in bodies() if item.name == name]
    async with model("http://a.test", transport=memory(found)) as adapter:
        return await outcome(adapter)


def lines(*events: dict[str, Any]) -> list[bytes]:
    return [f"event: {item.get('type', 'message')}\ndata: {json.dumps(item)}\n\n".encode() for item in events]


async def heard(model: type[HTTPModel], *events: dict[str, Any], **options: Any) -> Outcome:
    async with model("http://a.test", transport=MemoryTransport(lines(*events), **options)) as adapter:
        return await outcome(adapter)


# --- credentials of the providers' own endpoints ----------------------------------------------------------------------


@pytest.mark.rule("Q7")
@pytest.mark.parametrize(
    ("model", "variable", "header", "value"),
    [
        (DeepSeek, "DEEPSEEK_API_KEY", "authorization", "Bearer key-123456"),
        (Anthropic, "ANTHROPIC_API_KEY", "x-api-key", "key-123456"),
        (OpenAIResponses, "OPENAI_API_KEY", "authorization", "Bearer key-123456"),
    ],
)
async def test_at_its_own_endpoint_a_providers_usual_variable_is_read(
    model: type[HTTPModel], variable: str, header: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    transport = MemoryTransport()
    async with model(transport=transport) as adapter:  # type: ignore[call-arg]
        got = await outcome(adapter)
        assert got.code == "MISSING_CREDENTIAL"
        monkeypatch.setenv(variable, "key-123456")
        await outcome(adapter)
    async with model(transport=transport, api_key="key-123456") as adapter:  # type: ignore[call-arg]
        await outcome(adapter)
    assert [sent.headers[header] for sent in transport.requests] == [value, value]
    async with model("http://a.test", transport=transport) as adapter:
        await outcome(adapter)
    assert header not in transport.requests[-1].headers


def test_each_adapter_has_its_name_and_takes_another() -> None:
    names = [model("http://a.test").name for model in (OpenAIChat, DeepSeek, Anthropic, OpenAIResponses)]
    assert names == ["openai-chat", "deepseek", "anthropic", "openai-responses"]
    assert Anthropic(ANTHROPIC, name="claude").name == "claude"


# --- DeepSeek ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q10")
@pytest.mark.parametrize(("echo", "sent"), [("calls", "First I look."), ("always", "First I look."), ("never", None)])
async def test_reasoning_goes_back_beside_calls_exactly_also_after_a_reload(echo: Any, sent: str | None) -> None:
    got = await recorded(DeepSeek, "deepseek_reasoning_then_call.sse")
    assert got.message is not None
    history = [user_message("q", "u"), reloaded(got.message), told("call_00_x")]
    steered = [*history, user_message("and then?", "u2")]  # a turn that was cancelled, and the next one
    for messages in (history, steered):
        answer = body(DeepSeek("http://a.test", reasoning_echo=echo), *messages)["messages"][1]
        assert answer.get("reasoning_content") == sent
        assert answer["content"] == "Looking."


@pytest.mark.rule("Q5")
async def test_tokens_read_from_deepseeks_cache_are_counted() -> None:
    got = await recorded(DeepSeek, "deepseek_reasoning_then_call.sse")
    assert got.usage == Usage(11, 7, cache_read_tokens=3, reasoning_tokens=4)


@pytest.mark.rule("Q5")
async def test_an_answer_that_was_interrupted_for_want_of_resources_is_not_a_finished_one() -> None:
    got = await recorded(DeepSeek, "deepseek_insufficient_system_resource.sse")
    assert (got.text, got.finish) == ("par", "insufficient_system_resource")


async def test_an_answer_of_reasoning_alone_is_told_from_others_and_not_sent_back() -> None:
    got = await recorded(DeepSeek, "reasoning_only.sse")
    assert got.message is not None
    assert (got.text, got.reasoning) == ("", "thinking only")
    sent = body(DeepSeek("http://a.test"), user_message("q", "u"), got.message, user_message("go on", "u2"))
    assert [message["role"] for message in sent["messages"]] == ["user", "user"]


# --- Anthropic: requests ----------------------------------------------------------------------------------------------


MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.rule("Q1")
def test_a_messages_request_names_model_bound_system_and_tools() -> None:
    history = [SystemMessage((Text("be brief"),)), user_message("hi", "u")]
    got = body(Anthropic(ANTHROPIC), *history, tools=(LOOK,))
    assert got == {
        "model": "m-test",
        "max_tokens": 8_192,
        "stream": True,
        "system": [{"type": "text", "text": "be brief", **MARK}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", **MARK}]}],
        "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}, **MARK}],
    }


@pytest.mark.rule("Q3")
def test_the_latest_system_message_is_the_prompt_and_an_empty_one_clears_it() -> None:
    history: list[Message] = [SystemMessage((Text("old"),)), user_message("a", "1"), SystemMessage((Text("new"),))]
    assert body(Anthropic(ANTHROPIC, cache=None), *history)["system"] == "new"
    assert "system" not in body(Anthropic(ANTHROPIC), *history, SystemMessage(()))


@pytest.mark.rule("N1")
def test_neighbours_of_one_role_are_merged_results_first() -> None:
    calls = AssistantMessage((ToolCall("c1", "look", '{"q": 1}'), ToolCall("c2", "look", "")))
    history = [
        user_message("a", "1"),
        user_message("b", "2"),
        calls,
        told("c1"),
        told("c2", "bad", is_error=True, code="TOOL_FAILED"),
        user_message("steer", "3"),
    ]
    first, answer, last = body(Anthropic(ANTHROPIC, cache=None), *history)["messages"]
    assert [block["text"] for block in first["content"]] == ["a", "b"]
    assert [(block["id"], block["input"]) for block in answer["content"]] == [("c1", {"q": 1}), ("c2", {})]
    assert last["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "r"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "Error (TOOL_FAILED): bad", "is_error": True},
        {"type": "text", "text": "steer"},
    ]


@pytest.mark.rule("K3")
@pytest.mark.parametrize("raw", ['{"a', "[]", '"{}"', "null"])
def test_input_that_is_no_object_is_sent_as_an_object_that_carries_it(raw: str) -> None:
    history = [user_message("a", "1"), AssistantMessage((ToolCall("c1", "look", raw),)), told("c1")]
    (block,) = body(Anthropic(ANTHROPIC), *history)["messages"][1]["content"]
    assert block["input"] == {"_invalid_arguments": raw}


def test_no_empty_text_is_ever_sent() -> None:
    history = [
        UserMessage("1", (Text(" "),)),
        AssistantMessage((Text(""), Text(" \n"), ToolCall("c1", "look", "{}"))),
        told("c1", "  "),
        AssistantMessage((Text("  "),)),
        AssistantMessage((Reasoning("hm", {"type": "thinking", "thinking": "hm", "signature": "s"}),), "anthropic"),
        UserMessage("2", (Text(""), Text("x"))),
    ]
    first, answer, last = body(Anthropic(ANTHROPIC, cache=None), *history)["messages"]
    assert first["content"] == [{"type": "text", "text": "(empty)"}]
    assert [block["type"] for block in answer["content"]] == ["tool_use"]
    assert last["content"] == [{"type": "tool_result", "tool_use_id": "c1"}, {"type": "text", "text": "x"}]


def test_a_history_that_begins_with_an_answer_gets_a_user_message_before_it() -> None:
    messages = body(Anthropic(ANTHROPIC), AssistantMessage((Text("so"),)), user_message("go", "u"))["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]


@pytest.mark.rule("Q1")
def test_a_cached_messages_request_is_the_same_as_a_fresh_one() -> None:
    history: list[Message] = [SystemMessage((Text("s"),)), user_message("go", "u")]
    for number in range(5):
        history += [AssistantMessage((ToolCall(f"c{number}", "look", "{}"),)), told(f"c{number}")]
    variants = [history[:2], history[:4], history, [history[0], *history[2:]], history[:6], [history[1]]]
    for model in (Anthropic(ANTHROPIC), OpenAIResponses(OPENAI)):
        for variant in variants:
            fresh = type(model)(ANTHROPIC)._body(request(*variant))
            assert model._body(request(*variant)) == fresh
            json.loads(fresh)


@pytest.mark.rule("Q4")
@pytest.mark.parametrize(
    ("options", "config", "limit", "thinking"),
    [
        ({}, CallConfig(max_tokens=20_000, reasoning_effort="medium"), 20_000, 8_192),
        ({}, CallConfig(max_tokens=4_000, reasoning_effort="high"), 4_000, 2_000),
        ({}, CallConfig(max_tokens=1_500, reasoning_effort="high"), 1_500, None),
        ({}, CallConfig(max_tokens=8_192, reasoning_effort="high", defaulted=("max_tokens",)), 32_768, 16_384),
        ({}, CallConfig(max_tokens=8_192), 8_192, None),
        ({"thinking_budgets": {"high": 3_000}}, CallConfig(max_tokens=9_000, reasoning_effort="high"), 9_000, 3_000),
    ],
)
def test_an_effort_becomes_a_budget_within_the_bound(
    options: dict[str, Any], config: CallConfig, limit: int, thinking: int | None
) -> None:
    got = body(Anthropic(ANTHROPIC, **options), config=config)
    assert got["max_tokens"] == limit
    assert got.get("thinking", {}).get("budget_tokens") == thinking


def test_newer_models_are_asked_for_adaptive_thinking() -> None:
    config = CallConfig(max_tokens=9, reasoning_effort="low")
    got = body(Anthropic(ANTHROPIC, thinking="adaptive"), config=config)
    assert got["thinking"] == {"type": "adaptive"}
    assert got["output_config"] == {"effort": "low"}


@pytest.mark.rule("Q10")
def test_thinking_is_not_asked_for_in_a_tool_loop_that_began_without_it() -> None:
    config = CallConfig(max_tokens=9_000, reasoning_effort="low")
    thought = Reasoning("hm", {"type": "thinking", "thinking": "hm", "signature": "s"})
    call = ToolCall("c1", "look", "{}")
    begin = user_message("q", "u")
    for content, adapter, asked in (((call,), "other", False), ((thought, call), "anthropic", True)):
        looping = [begin, AssistantMessage(content, adapter), told("c1")]
        assert ("thinking" in body(Anthropic(ANTHROPIC), *looping, config=config)) is asked
        after = [*looping, AssistantMessage((Text(" "),)), user_message("next", "u2")]
        assert ("thinking" in body(Anthropic(ANTHROPIC), *after, config=config)) is asked
        after = [*looping, AssistantMessage((Text("done"),)), user_message("next", "u2")]
        assert "thinking" in body(Anthropic(ANTHROPIC), *after, config=config)


@pytest.mark.rule("Q4")
async def test_what_is_known_of_models_can_be_given_and_has_a_default() -> None:
    info = await Anthropic(ANTHROPIC).model_info("any")
    assert info.default_max_tokens == 8_192
    assert info.system_prompt_mode == "replace"
    given = ModelInfo(context_window=5)
    model = Anthropic(ANTHROPIC, models={"known": given})
    assert await model.model_info("known") is given
    assert await model.model_info("other") == info
    assert await OpenAIChat(OPENAI, models=given).model_info("any") is given


# --- Anthropic: replay ------------------------------------------------------------------------------------------------


@pytest.mark.rule("Q10")
async def test_thinking_goes_back_byte_for_byte_in_its_place_also_after_a_reload() -> None:
    got = await recorded(Anthropic, "anthropic_thinking_tool_roundtrip.sse")
    assert got.message is not None
    for message in (got.message, reloaded(got.message)):
        sent = body(Anthropic(ANTHROPIC), user_message("q", "u"), message, told("toolu_1"))["messages"][1]["content"]
        assert sent == [
            {"type": "thinking", "thinking": "weigh it", "signature": "c2lnLW9uZQ=="},
            {"type": "redacted_thinking", "data": "b3BhcXVl"},
            {"type": "text", "text": "Checking."},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"q": "k"}},
        ]


@pytest.mark.rule("Q10")
async def test_thinking_with_odd_characters_comes_back_unchanged() -> None:
    parts = ["  lead", " \u2028\u2029\x85 ", "\U0001f600", "trail  \n"]
    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        *[{"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": part}}
          for part in parts],
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "so"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]  # fmt: skip
    got = await heard(Anthropic, *events)
    assert got.message is not None
    sent = body(Anthropic(ANTHROPIC), user_message("q", "u"), reloaded(got.message))["messages"][1]["content"]
    assert sent[0] == {"type": "thinking", "thinking": "".join(parts), "signature": "c2ln"}
    assert sent[1] == {"type": "text", "text": "so"}


@pytest.mark.rule("Q10")
@pytest.mark.parametrize(
    "replay",
    [None, 5, "x", [], {}, {"type": "thinking"}, {"type": "thinking", "thinking": 5, "signature": "s"},
     {"type": "redacted_thinking"}, {"type": "tool_use", "id": "x"}],
)  # fmt: skip
def test_damaged_replay_data_costs_its_block_only(replay: Any) -> None:
    message = AssistantMessage((Reasoning("hm", replay), Text("so")), "anthropic")
    for model, key in ((Anthropic(ANTHROPIC), "messages"), (OpenAIResponses(OPENAI), "input")):
        message = msgspec.structs.replace(message, adapter=model.name)
        sent = body(model, user_message("q", "u"), message)[key][1]
        assert [part["text"] for part in sent["content"]] == ["so"]


@pytest.mark.rule("Q10")
def test_replay_data_goes_to_no_other_adapter() -> None:
    thinking = Reasoning("hm", {"type": "thinking", "thinking": "hm", "signature": "SECRET"})
    item = Reasoning("hm", {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SECRET"})
    for block, name in ((thinking, "anthropic"), (item, "openai-responses")):
        message = AssistantMessage((block, Text("so")), name)
        for model in (OpenAIChat(OPENAI), DeepSeek(OPENAI, reasoning_echo="always"), Anthropic(ANTHROPIC, name="b"),
                      OpenAIResponses(OPENAI, name="c")):  # fmt: skip
            assert b"SECRET" not in model._body(request(user_message("q", "u"), message))


@pytest.mark.rule("C5")
async def test_thinking_cut_off_before_its_signature_is_not_sent_back() -> None:
    events = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "half"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": ""}},
    ]
    got = await heard(Anthropic, *events, after="abort")
    assert got.code == "STREAM_CLOSED"
    assert got.blocks == (Reasoning("half"),)


# --- Anthropic: streams -----------------------------------------------------------------------------------------------

MESSAGE = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}
STOP = {"type": "message_stop"}


@pytest.mark.rule("Q5")
@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "max-tokens"), ("refusal", "refusal"),
        ("model_context_window_exceeded", "max-tokens"), ("pause_turn", "pause_turn"), ("tool_use", "stop"),
    ],
)  # fmt: skip
async def test_anthropics_stop_reasons_become_kinds(word: str, kind: str) -> None:
    got = await heard(Anthropic, {**MESSAGE, "delta": {"stop_reason": word}}, STOP)
    assert (got.finish, got.failure) == (kind, None)


@pytest.mark.rule("Q5")
async def test_the_cached_parts_of_the_prompt_count_as_prompt() -> None:
    start = {"input_tokens": 1, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 4, "output_tokens": 1}
    got = await heard(Anthropic, {"type": "message_start", "message": {"usage": start}}, MESSAGE, STOP)
    assert got.usage == Usage(35, 2, 30, 4)


@pytest.mark.rule("C5")
async def test_input_tokens_are_known_from_the_start_of_a_stream_that_breaks() -> None:
    got = await heard(Anthropic, {"type": "message_start", "message": {"usage": {"input_tokens": 9}}}, after="abort")
    assert got.usage == Usage(9)


async def test_input_given_at_the_start_of_a_call_is_its_arguments() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {"q": [1]}}
    got = await heard(
        Anthropic,
        {"type": "content_block_start", "index": 0, "content_block": call},
        {"type": "content_block_stop", "index": 0},
        {**MESSAGE, "delta": {"stop_reason": "end_turn"}},
    )
    assert (got.calls, got.finish) == ([("t1", "look", '{"q":[1]}')], "tool-calls")


async def test_a_message_that_is_not_streamed_is_read_whole() -> None:
    message = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
            {"type": "server_tool_use", "id": "x"},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    transport = MemoryTransport([json.dumps(message).encode()])
    async with Anthropic(ANTHROPIC, transport=transport) as model:
        got = await outcome(model)
    assert (got.reasoning, got.text, got.calls) == ("hm", "so", [("t1", "look", "")])
    assert (got.finish, got.usage) == ("tool-calls", Usage(1, 2))
    assert [chunk.replay for chunk in got.chunks if isinstance(chunk, BlockEnd) and chunk.replay] != []


@pytest.mark.rule("X3")
@pytest.mark.parametrize(
    "event",
    [
        {"type": "content_block_start", "index": None, "content_block": None},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "input_json_delta", "partial_json": "x"}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "signature_delta", "signature": "x"}},
        {"type": "content_block_delta", "index": 9, "delta": 5}, {"type": "content_block_stop", "index": [1]},
        {"type": "message_start", "message": 5}, {"type": "message_delta", "delta": None, "usage": []},
        {"type": "ping"}, {"type": 5}, {}, {"type": "future_event", "error": None},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {}}},
    ],
)  # fmt: skip
async def test_odd_events_of_messages_are_passed_over(event: dict[str, Any]) -> None:
    got = await heard(Anthropic, event, MESSAGE, STOP)
    assert (got.text, got.finish, got.failure) == ("", "stop", None)


@pytest.mark.rule("X3")
@pytest.mark.parametrize("field", ["id", "name"])
async def test_an_endless_id_or_name_is_refused(field: str) -> None:
    block = {"type": "tool_use", "id": "t", "name": "n", field: "x" * 600}
    got = await heard(Anthropic, {"type": "content_block_start", "index": 0, "content_block": block})
    assert got.code == "MALFORMED_RESPONSE"
    item = {"type": "function_call", "call_id": "t", "name": "n"} | {{"id": "call_id"}.get(field, field): "x" * 600}
    got = await heard(OpenAIResponses, {"type": "response.output_item.added", "item": item})
    assert got.code == "MALFORMED_RESPONSE"


@pytest.mark.rule("Q7")
@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("overloaded_error", "SERVER"), ("api_error", "SERVER"), ("rate_limit_error", "RATE_LIMIT"),
        ("authentication_error", "INVALID_CREDENTIAL"), ("permission_error", "INVALID_CREDENTIAL"),
        ("billing_error", "QUOTA"), ("invalid_request_error", "INVALID_REQUEST"), ("timeout_error", "TIMEOUT"),
        ("not_found_error", "INVALID_REQUEST"), ("request_too_large", "CONTEXT_WINDOW_EXCEEDED"),
    ],
)  # fmt: skip
async def test_each_error_of_anthropic_has_its_code(kind: str, code: str) -> None:
    got = await heard(Anthropic, {"type": "error", "error": {"type": kind, "message": "m"}})
    assert got.code == code


@pytest.mark.rule("Q7")
async def test_a_prompt_that_is_too_long_is_told_from_other_invalid_requests() -> None:
    error = {"type": "invalid_request_error", "message": "prompt is too long: 205000 tokens > 200000 maximum"}
    got = await heard(Anthropic, {"type": "error", "error": error})
    assert got.code == "CONTEXT_WINDOW_EXCEEDED"


# --- OpenAI's Responses -----------------------------------------------------------------------------------------------


@pytest.mark.rule("Q1")
def test_a_responses_request_is_stateless_and_whole() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e", "status": "completed"}
    history = [
        SystemMessage((Text("be brief"),)),
        user_message("q", "u"),
        AssistantMessage((Reasoning("hm", thought), Text("I look."), ToolCall("c1", "look", "")), "openai-responses"),
        told("c1", "bad", is_error=True),
        AssistantMessage((Reasoning("hm", thought),), "openai-responses"),
    ]
    config = CallConfig(provider="p", model="m", max_tokens=9, reasoning_effort="low")
    got = body(OpenAIResponses(OPENAI), *history, tools=(LOOK,), config=config)
    kept = {key: value for key, value in thought.items() if key != "status"}
    assert got == {
        "model": "m",
        "stream": True,
        "store": False,
        "max_output_tokens": 9,
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "input": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "q"},
            kept,
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
            },
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "Error: bad"},
        ],
        "tools": [{"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object"}}],
    }


def test_no_reasoning_is_asked_for_without_an_effort_and_no_summary_when_unwanted() -> None:
    assert not {"reasoning", "include"} & body(OpenAIResponses(OPENAI)).keys()
    config = CallConfig(model="m", reasoning_effort="low")
    got = body(OpenAIResponses(OPENAI, reasoning_summary=None), config=config)
    assert got["reasoning"] == {"effort": "low"}


def response(status: str = "completed", **more: Any) -> dict[str, Any]:
    kind = {"completed": "response.completed", "incomplete": "response.incomplete", "failed": "response.failed"}[status]
    return {"type": kind, "response": {"object": "response", "status": status, **more}}


REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": '{"q":1}'}
SAID = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "so"}]}
USAGE = {
    "input_tokens": 11,
    "output_tokens": 7,
    "input_tokens_details": {"cached_tokens": 3},
    "output_tokens_details": {"reasoning_tokens": 4},
}


@pytest.mark.rule("Q5", "Q10")
async def test_a_response_with_reasoning_text_and_calls_is_read_and_its_reasoning_kept() -> None:
    kept = {**REASONING, "encrypted_content": "e"}
    got = await heard(
        OpenAIResponses,
        {"type": "response.created", "response": {"status": "in_progress", "error": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1"}},
        {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "delta": "h"},
        {"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "summary_index": 1},
        {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "delta": "m"},
        {"type": "response.output_item.done", "output_index": 0, "item": kept},
        {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "id": "msg_1"}},
        {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "s"},
        {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "o"},
        {"type": "response.output_item.done", "output_index": 1, "item": SAID},
        {"type": "response.output_item.added", "output_index": 2, "item": {**CALL, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"q"'},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": ":1}"},
        {"type": "response.output_item.done", "output_index": 2, "item": CALL},
        response(usage=USAGE),
        {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "late"},
    )
    assert (got.reasoning, got.text, got.calls) == ("h\n\nm", "so", [("c1", "look", '{"q":1}')])
    assert (got.finish, got.usage) == ("tool-calls", Usage(11, 7, 3, None, 4))
    assert got.message is not None
    sent = body(OpenAIResponses(OPENAI), user_message("q", "u"), reloaded(got.message), told("c1"))["input"]
    assert sent[1] == kept
    assert [item.get("type") for item in sent[2:]] == ["message", "function_call", "function_call_output"]


@pytest.mark.rule("Q5")
async def test_items_that_only_come_whole_are_read_whole() -> None:
    done = [{"type": "response.output_item.done", "item": item} for item in (REASONING, SAID, CALL)]
    got = await heard(OpenAIResponses, *done, response())
    assert (got.reasoning, got.text, got.calls) == ("hm", "so", [("c1", "look", '{"q":1}')])


async def test_a_response_that_is_not_streamed_is_read_whole() -> None:
    whole = {"object": "response", "status": "completed", "error": None, "output": [REASONING, SAID, CALL]}
    transport = MemoryTransport([json.dumps({**whole, "usage": USAGE}).encode()])
    async with OpenAIResponses(OPENAI, transport=transport) as model:
        got = await outcome(model)
    assert (got.reasoning, got.text, got.calls) == ("hm", "so", [("c1", "look", '{"q":1}')])
    assert (got.finish, got.usage) == ("tool-calls", Usage(11, 7, 3, None, 4))


@pytest.mark.rule("Q5")
@pytest.mark.parametrize(
    ("details", "kind"),
    [
        ({"reason": "max_output_tokens"}, "max-tokens"), ({"reason": "content_filter"}, "content-filter"),
        ({"reason": "other"}, "other"), (None, "incomplete"),
    ],
)  # fmt: skip
async def test_an_incomplete_response_says_why(details: Any, kind: str) -> None:
    text = {"type": "response.output_text.delta", "item_id": "m", "delta": "par"}
    got = await heard(OpenAIResponses, text, response("incomplete", incomplete_details=details))
    assert (got.text, got.finish) == ("par", kind)


@pytest.mark.rule("Q7")
@pytest.mark.parametrize(
    ("event", "code"),
    [
        (response("failed", error={"code": "server_error", "message": "m"}), "SERVER"),
        (response("failed", error={"code": "rate_limit_exceeded", "message": "m"}), "RATE_LIMIT"),
        (response("failed"), "UNKNOWN"),
        ({"type": "error", "code": "insufficient_quota", "message": "m"}, "QUOTA"),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "m"}}, "INVALID_REQUEST"),
        ({"error": {"code": 500, "message": "m", "type": "server_error"}}, "SERVER"),
        ({"type": "response.completed", "response": {"status": "failed", "error": {"code": "server_error"}}}, "SERVER"),
        (response(), "EMPTY_RESPONSE"),
    ],
)  # fmt: skip
async def test_a_response_that_fails_says_why(event: dict[str, Any], code: str) -> None:
    assert (await heard(OpenAIResponses, event)).code == code


@pytest.mark.rule("Q5")
async def test_a_refusal_of_a_response_is_told_from_an_answer() -> None:
    got = await heard(OpenAIResponses, {"type": "response.refusal.delta", "delta": "no"}, response())
    assert (got.text, got.finish) == ("no", "refusal")
    refusing = {**SAID, "content": [{"type": "refusal", "refusal": "no"}]}
    got = await heard(OpenAIResponses, {"type": "response.output_item.done", "item": refusing}, response())
    assert (got.text, got.finish) == ("no", "refusal")


@pytest.mark.rule("Q7")
async def test_a_response_cut_off_before_its_end_is_no_answer() -> None:
    text = {"type": "response.output_text.delta", "item_id": "m", "delta": "par"}
    got = await heard(OpenAIResponses, text, {"type": "response.function_call_arguments.delta", "delta": "x"})
    assert (got.text, got.code) == ("par", "STREAM_CLOSED")


# --- listings ---------------------------------------------------------------------------------------------------------


async def test_an_endpoints_models_are_listed() -> None:
    listing = {"object": "list", "data": [{"id": "a"}, {"id": "b"}, {"no": "id"}, 5]}
    transport = MemoryTransport([json.dumps(listing).encode()])
    async with OpenAIChat(OPENAI, transport=transport, api_key="key-123456") as model:
        assert await model.list_models() == ("a", "b")
    assert str(transport.requests[0].url) == "http://a.test/v1/models"
    assert transport.requests[0].headers["authorization"] == "Bearer key-123456"
    assert transport.closed == 1


async def test_a_listing_in_pages_is_followed() -> None:
    def page(asked: httpx.Request) -> httpx.Response:
        after = asked.url.params.get("after_id")
        more = {None: ("a", True), "a": ("b", True), "b": ("c", False)}[after]
        return httpx.Response(200, json={"data": [{"id": more[0]}], "has_more": more[1], "last_id": more[0]})

    async with Anthropic(ANTHROPIC, transport=httpx.MockTransport(page)) as model:
        assert await model.list_models() == ("a", "b", "c")


async def test_a_listing_that_repeats_a_page_for_ever_is_left() -> None:
    def page(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"data": [{"id": "a"}], "has_more": True, "last_id": "a"})

    async with Anthropic(ANTHROPIC, transport=httpx.MockTransport(page)) as model:
        assert await model.list_models() == ("a", "a")


@pytest.mark.rule("Q7")
@pytest.mark.parametrize(
    ("status", "answer", "code"),
    [
        (200, b"<html>", "MALFORMED_RESPONSE"), (200, b"{}", "MALFORMED_RESPONSE"), (200, b"[1]", "MALFORMED_RESPONSE"),
        (401, b"{}", "INVALID_CREDENTIAL"), (404, b"not found", "INVALID_REQUEST"),
    ],
)  # fmt: skip
async def test_a_listing_that_fails_says_why(status: int, answer: bytes, code: str) -> None:
    transport = MemoryTransport([answer], status)
    async with OpenAIChat(OPENAI, transport=transport) as model:
        with pytest.raises(ModelFailure) as caught:
            await model.list_models()
    assert caught.value.failure.code == code
    assert transport.closed == 1


@pytest.mark.rule("X3")
async def test_a_listing_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle_adapters.models.http_model.LISTING_BYTES", 1_000)
    async with OpenAIChat(OPENAI, transport=MemoryTransport([b"[" * 100] * 1_000)) as model:
        with pytest.raises(ModelFailure) as caught:
            await model.list_models()
    assert caught.value.failure.code == "MALFORMED_RESPONSE"
