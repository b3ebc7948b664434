"""Content as the conventions write it: redacted, bounded, and JSON where it was JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from treadle import AssistantMessage, Reasoning, SystemMessage, Text, ToolCall, message
from treadle.models import Finish, ToolResult, ToolResultMessage
from treadle_adapters.traces import Content

CALL = ToolCall("c1", "look", '{"what": "round"}')
HISTORY = [
    SystemMessage((Text("Be kind."),)),
    message("What is there?", id="u1"),
    AssistantMessage((Reasoning("hm"), Text("I look."), CALL)),
    ToolResultMessage((ToolResult("c1", (Text("a wall"),)),)),
]


def told(attribute: Any) -> Any:
    return json.loads(attribute)


def test_a_request_tells_instructions_and_history() -> None:
    found = Content().request(HISTORY)
    assert told(found["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be kind."}]
    user, assistant, result = told(found["gen_ai.input.messages"])
    assert user == {"role": "user", "parts": [{"type": "text", "content": "What is there?"}]}
    assert assistant["role"] == "assistant"
    assert [part["type"] for part in assistant["parts"]] == ["reasoning", "text", "tool_call"]
    assert assistant["parts"][2] == {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"what": "round"}}
    assert result == {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "c1", "response": "a wall"}],
    }


def test_an_answer_tells_why_it_ended() -> None:
    (answer,) = told(Content().answer(HISTORY[2], Finish("tool-calls"))["gen_ai.output.messages"])  # type: ignore[arg-type]
    assert answer["finish_reason"] == "tool_call"


@pytest.mark.parametrize("arguments", ["", "{", '{"a": 1}', "[1]"])
def test_arguments_that_are_no_json_are_told_as_text(arguments: str) -> None:
    found = told(Content().call(arguments)["gen_ai.tool.call.arguments"])
    assert found == (
        {} if not arguments else {"a": 1} if arguments == '{"a": 1}' else [1] if arguments == "[1]" else found
    )
    assert isinstance(found, (dict, list, str))


def test_every_text_passes_the_redaction() -> None:
    given: list[str] = []

    def redact(text: str) -> str:
        given.append(text)
        return "*"

    content = Content(redact)
    whole = repr([content.request(HISTORY), content.call(CALL.arguments), content.result((Text("a wall"),))])
    for secret in ("kind", "there", "hm", "I look", "round", "wall"):
        assert secret not in whole
    assert len(given) == 8


def test_a_redaction_that_raises_withholds_the_text() -> None:
    def redact(_: str) -> str:
        raise ValueError

    assert Content(redact).text("secret") == "[withheld: its redaction failed]"


def test_an_attribute_is_bounded_and_keeps_the_newest() -> None:
    history = [message(f"{number} " + "x" * 100, id=str(number)) for number in range(100)]
    found = str(Content(limit=1_000).request(history)["gen_ai.input.messages"])
    assert len(found) < 1_200
    assert json.loads(found)[-1]["parts"][0]["content"].startswith("99 ")
    assert len(Content(limit=10).text("x" * 100)) == 11
    assert msgspec.json.decode(found)


def test_a_limit_is_positive() -> None:
    with pytest.raises(ValueError, match="limit"):
        Content(limit=0)
