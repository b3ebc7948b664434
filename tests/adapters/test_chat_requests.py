"""Requests for chat completions are valid for strict servers, and cost what is new in them."""

import json
from typing import Any

import pytest

from tests.adapters.strict_rules import NAME
from tests.adapters.wires import request
from treadle import (
    AssistantMessage,
    Message,
    MisuseError,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from treadle.models import BLOCKS, CallConfig, ToolResult, ToolSchema
from treadle.words.messages import user_message
from treadle_adapters.models.openai_chat import OpenAIChat

URL = "http://provider.test/v1"
LOOK = ToolSchema("look", "Looks.", {"type": "object", "properties": {"q": {"type": "string"}}})


def body(*messages: Message, model: OpenAIChat | None = None, **asked: Any) -> dict[str, Any]:
    return json.loads((model or OpenAIChat(URL))._body(request(*messages, **asked)))


def sent(*messages: Message, model: OpenAIChat | None = None) -> list[dict[str, Any]]:
    return body(user_message("q", "u"), *messages, model=model)["messages"][1:]


def called(arguments: str, call_id: str = "c1", name: str = "look") -> dict[str, Any]:
    (message,) = sent(AssistantMessage((ToolCall(call_id, name, arguments),)))
    return message["tool_calls"][0]


def result(*content: Any, **options: Any) -> str:
    (message,) = sent(ToolResultMessage((ToolResult("c1", content, **options),)))
    assert (message["role"], message["tool_call_id"]) == ("tool", "c1")
    return message["content"]


@pytest.mark.rule("Q1")
def test_a_request_streams_asks_for_usage_and_names_its_model() -> None:
    assert body(user_message("hi", "u")) == {
        "model": "m-test",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hi"}],
    }


@pytest.mark.rule("Q4")
@pytest.mark.parametrize(
    ("model", "field"),
    [
        (OpenAIChat(URL), "max_tokens"),
        (OpenAIChat("https://api.openai.com/v1"), "max_completion_tokens"),
        (OpenAIChat(URL, max_tokens_field="max_output"), "max_output"),
    ],
)
def test_limits_and_effort_are_sent_under_the_servers_names(model: OpenAIChat, field: str) -> None:
    config = CallConfig(provider="p", model="m", max_tokens=9, reasoning_effort="low")
    got = body(model=model, config=config)
    assert got[field] == 9
    assert got["reasoning_effort"] == "low"


def test_more_of_the_body_can_be_given_and_usage_left_out() -> None:
    got = body(model=OpenAIChat(URL, stream_usage=False, extra_body={"temperature": 0.5, "seed": 1}))
    assert got["temperature"] == 0.5
    assert got["seed"] == 1
    assert "stream_options" not in got


@pytest.mark.parametrize("key", ["messages", "input", "tools", "stream", "model"])
def test_what_a_request_is_made_of_cannot_be_replaced(key: str) -> None:
    with pytest.raises(MisuseError, match="extra_body"):
        OpenAIChat(URL, extra_body={key: None})


def test_more_of_the_body_must_be_json() -> None:
    with pytest.raises(MisuseError, match="JSON"):
        OpenAIChat(URL, extra_body={"x": object()})


@pytest.mark.rule("K1")
def test_tools_are_sent_by_name_description_and_parameters_only() -> None:
    got = body(tools=(LOOK,))["tools"]
    function = {"name": "look", "description": "Looks.", "parameters": LOOK.parameters}
    assert got == [{"type": "function", "function": function}]
    assert "tools" not in body()


@pytest.mark.rule("Q3")
def test_system_messages_stand_where_they_are_and_empty_ones_nowhere() -> None:
    history = [SystemMessage((Text("be brief"),)), user_message("a", "1"), SystemMessage(()), user_message("b", "2")]
    assert [message["role"] for message in body(*history)["messages"]] == ["system", "user", "user"]
    developer = OpenAIChat(URL, system_role="developer")
    assert body(*history, model=developer)["messages"][0] == {"role": "developer", "content": "be brief"}


@pytest.mark.rule("N1")
def test_calls_without_text_have_null_content_and_results_follow_by_id() -> None:
    calls = AssistantMessage((ToolCall("c1", "look", "{}"), ToolCall("c2", "look", "{}")))
    results = [ToolResultMessage((ToolResult(call, (Text(call),)),)) for call in ("c1", "c2")]
    answer, first, second = sent(calls, *results)
    assert answer["content"] is None
    assert [call["id"] for call in answer["tool_calls"]] == ["c1", "c2"]
    assert first == {"role": "tool", "tool_call_id": "c1", "content": "c1"}
    assert second["tool_call_id"] == "c2"


def test_an_answer_with_text_and_calls_keeps_both() -> None:
    (answer,) = sent(AssistantMessage((Text("I "), Text("look."), ToolCall("c1", "look", "{}"))))
    assert answer["content"] == "I look."
    assert len(answer["tool_calls"]) == 1


@pytest.mark.parametrize("content", [(), (Reasoning("hm"),), (Text(""),)])
def test_an_answer_with_neither_text_nor_calls_is_not_sent(content: tuple[Any, ...]) -> None:
    assert sent(AssistantMessage(content)) == []


@pytest.mark.rule("K3")
@pytest.mark.parametrize("raw", ['{"q":1}', '{ "q" : "\\u00e9" }', '{"q":1,"q":2}'])
def test_arguments_that_are_an_object_are_sent_to_the_letter(raw: str) -> None:
    assert called(raw)["function"]["arguments"] == raw


@pytest.mark.rule("K3")
@pytest.mark.parametrize("raw", ["", "  "])
def test_empty_arguments_are_sent_as_an_empty_object(raw: str) -> None:
    assert called(raw)["function"]["arguments"] == "{}"


@pytest.mark.rule("K3")
@pytest.mark.parametrize(
    "raw", ['{"text":"unterm', '{"path": oops"}', '"{\\"q\\":1}"', "[]", "3", "null", "{}{}", "[" * 10_000, '{"a":NaN}']
)
def test_arguments_that_are_no_object_are_sent_as_an_object_that_carries_them(raw: str) -> None:
    assert json.loads(called(raw)["function"]["arguments"]) == {"_invalid_arguments": raw}


@pytest.mark.rule("K3")
@pytest.mark.parametrize("call_id", ["x" * 41, "bad id!", "ünicode", ""])
def test_an_id_that_servers_refuse_is_replaced_alike_in_call_and_result(call_id: str) -> None:
    call = AssistantMessage((ToolCall(call_id, "look", "{}"),))
    answer, told = sent(call, ToolResultMessage((ToolResult(call_id, (Text("x"),)),)))
    wire_id = answer["tool_calls"][0]["id"]
    assert wire_id == told["tool_call_id"] != call_id
    assert len(wire_id) <= 40
    assert wire_id.isascii()


@pytest.mark.parametrize(("name", "wire"), [("look", "look"), ("", "_"), ("a b!", "a_b_"), ("x" * 90, "x" * 47)])
def test_a_name_that_no_tool_has_is_made_one_that_servers_take(name: str, wire: str) -> None:
    made = called("{}", name=name)["function"]["name"]
    assert NAME.fullmatch(made)
    assert made.startswith(wire)


@pytest.mark.rule("K2", "C4")
def test_an_error_result_says_so_with_its_code() -> None:
    assert result(Text("fine")) == "fine"
    assert result(Text("no file"), is_error=True, code="TOOL_FAILED") == "Error (TOOL_FAILED): no file"
    assert result(Text("no file"), is_error=True) == "Error: no file"
    assert result() == ""


def test_content_that_is_no_text_is_named() -> None:
    image = BLOCKS.build({"type": "sketch", "data": "…"})
    assert result(Text("see "), image) == "see [sketch: not shown]"
    assert result(Reasoning("hm")) == "[reasoning: not shown]"
    (message,) = sent(UserMessage("u2", (image,)))
    assert message["content"] == "[sketch: not shown]"


@pytest.mark.parametrize(
    ("echo", "with_calls", "without"), [("never", False, False), ("calls", True, False), ("always", True, True)]
)
def test_reasoning_goes_back_where_it_is_wanted(echo: Any, with_calls: bool, without: bool) -> None:
    model = OpenAIChat(URL, reasoning_echo=echo)
    thought = Reasoning("First I \u2028look. ")
    calling, saying = sent(
        AssistantMessage((thought, ToolCall("c1", "look", "{}"))), AssistantMessage((thought, Text("x"))), model=model
    )
    assert calling.get("reasoning_content") == (thought.text if with_calls else None)
    assert saying.get("reasoning_content") == (thought.text if without else None)


# --- cost and cache ---------------------------------------------------------------------------------------------------


def steps(count: int) -> list[Message]:
    history: list[Message] = [SystemMessage((Text("s"),)), user_message("go", "u")]
    for number in range(count):
        history.append(AssistantMessage((Text("t"), ToolCall(f"c{number}", "look", '{"q":1}'))))
        history.append(ToolResultMessage((ToolResult(f"c{number}", (Text("r"),)),)))
    return history


class Counting(OpenAIChat):
    encoded = 0

    def _fragment(self, message: Message):
        self.encoded += 1
        return super()._fragment(message)


@pytest.mark.rule("Q1")
def test_each_message_is_encoded_once_for_all_steps_of_a_session() -> None:
    model, history = Counting(URL), steps(100)
    for end in range(2, len(history) + 1, 2):
        got = body(*history[:end], model=model)
        assert len(got["messages"]) == end
    assert model.encoded == len(history)


@pytest.mark.rule("Q1")
def test_a_cached_request_is_the_same_as_a_fresh_one() -> None:
    model, history = OpenAIChat(URL), steps(6)
    variants = [
        history[:4],
        history[:8],
        history[:8],
        [SystemMessage((Text("new"),)), *history[1:9]],  # the system prompt was replaced
        [history[0], user_message("summary", "s"), *history[7:]],  # a range was compacted
        [user_message("other", "o")],
        history[:2],
        [],
        [SystemMessage(()), *history[1:]],
        history,
    ]
    for variant in variants:
        fresh = OpenAIChat(URL)._body(request(user_message("q", "q"), *variant))
        assert model._body(request(user_message("q", "q"), *variant)) == fresh


@pytest.mark.rule("Q1")
def test_replacing_the_head_reuses_what_stays() -> None:
    model, history = Counting(URL), steps(50)
    body(*history, model=model)
    body(SystemMessage((Text("new"),)), *history[1:], model=model)
    assert model.encoded == len(history) + 1


def test_equal_messages_of_a_reloaded_session_are_not_mistaken_for_others() -> None:
    model = OpenAIChat(URL)
    first = body(*steps(3), model=model)
    assert body(*steps(3), model=model) == first


def test_sessions_used_longest_ago_are_forgotten_and_the_latest_is_kept() -> None:
    model = OpenAIChat(URL)
    model._history._kept_bytes = 3_000
    for number in range(20):
        body(user_message("x" * 1_000, "u"), model=model, session_id=f"s{number}")
        assert len(model._history) <= 3
    body(user_message("x" * 9_000, "u"), model=model, session_id="big")
    assert len(model._history) == 1
    assert model._history._size > 9_000


def test_many_lists_of_tools_do_not_pile_up() -> None:
    model = OpenAIChat(URL)
    for number in range(200):
        tool = ToolSchema(f"t{number}", "", {})
        assert body(model=model, tools=(tool,))["tools"][0]["function"]["name"] == f"t{number}"
    assert len(model._tools._lists) == 64
