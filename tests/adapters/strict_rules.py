"""What the strictest servers ask of a request, for two protocols; the first broken rule is an ``AssertionError``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def read(body: bytes) -> dict[str, Any]:
    """The request's body: strict JSON in UTF-8, without lone surrogates."""
    text = body.decode("utf-8", "strict")
    parsed = json.loads(text, parse_constant=_refuse)
    json.dumps(parsed, ensure_ascii=False).encode("utf-8", "strict")
    return parsed


def _refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is not JSON")


def check_object(text: str) -> None:
    assert isinstance(json.loads(text, parse_constant=_refuse), dict), f"arguments are no object: {text!r}"


def check_tools(names: Sequence[str]) -> None:
    assert len(names) == len(set(names)), f"a tool is offered twice: {names}"
    assert all(NAME.fullmatch(name) for name in names), names


# --- chat completions -------------------------------------------------------------------------------------------------

CHAT_KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}


def check_chat(body: dict[str, Any]) -> None:
    """A request of ``/chat/completions``."""
    assert body["stream"] is True
    assert body["model"]
    assert body.get("tools") != [], "an empty list of tools"
    check_tools([tool["function"]["name"] for tool in body.get("tools", ())])
    messages = body["messages"]
    assert messages, "no messages"
    assert messages[-1]["role"] != "assistant", "an answer is the last message"
    owed: list[str] = []
    seen: set[str] = set()
    for message in messages:
        role = message["role"]
        assert message.keys() <= CHAT_KEYS[role], message
        if role == "tool":
            assert message["tool_call_id"] in owed, f"a result without its call: {message}"
            owed.remove(message["tool_call_id"])
            assert isinstance(message["content"], str)
            continue
        assert not owed, f"calls {owed} have no result before {message}"
        if role == "assistant":
            owed = _chat_calls(message, seen)
        else:
            assert isinstance(message["content"], str), message
            assert message["content"], f"empty content: {message}"
    assert not owed, f"calls {owed} have no result"


def _chat_calls(message: dict[str, Any], seen: set[str]) -> list[str]:
    calls = message.get("tool_calls")
    assert calls is None or calls, "an empty list of calls"
    content = message["content"]
    assert (isinstance(content, str) and content) or (content is None and calls), f"an empty answer: {message}"
    for call in calls or ():
        assert call.keys() == {"id", "type", "function"}, call
        assert ID.fullmatch(call["id"]), call
        assert len(call["id"]) <= 40, call
        assert call["id"] not in seen, f"an id is used twice: {call}"
        seen.add(call["id"])
        assert NAME.fullmatch(call["function"]["name"]), call
        check_object(call["function"]["arguments"])
    return [call["id"] for call in calls or ()]


# --- messages ---------------------------------------------------------------------------------------------------------


def check_messages(body: dict[str, Any], signatures: set[tuple[str, str]]) -> None:
    """A request of ``/v1/messages``; ``signatures`` are the thoughts that the server signed."""
    assert body["stream"] is True
    assert body["max_tokens"] > 0
    body = _without_breakpoints(body)
    for block in body.get("system", ()):
        _check_text(block)
    assert body.get("system") != [], "an empty system prompt"
    assert body.get("tools") != [], "an empty list of tools"
    check_tools([tool["name"] for tool in body.get("tools", ())])
    messages = body["messages"]
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"], f"the roles do not alternate: {roles}"
    owed: list[str] = []
    seen: set[str] = set()
    for message in messages:
        assert message.keys() == {"role", "content"}, message
        assert message["content"], f"empty content: {message}"
        if message["role"] == "user":
            _check_user(message["content"], owed)
            owed = []
        else:
            owed = _check_answer(message["content"], seen, signatures)
    _check_thinking(body)


CACHED = ("text", "tool_use", "tool_result")


def _without_breakpoints(body: dict[str, Any]) -> dict[str, Any]:
    """The request without its cache breakpoints, of which there are four at most, each on a block that can have one."""
    body = json.loads(json.dumps(body))
    blocks = [block for message in body["messages"] for block in message["content"]]
    marked = [block for block in [*blocks, *body.get("system", ()), *body.get("tools", ())] if "cache_control" in block]
    assert len(marked) <= 4, f"{len(marked)} cache breakpoints"
    for block in marked:
        assert block.get("type", "text") in CACHED, f"a breakpoint where none may be: {block}"
        assert block.pop("cache_control") == {"type": "ephemeral"}
    return body


def _check_user(content: list[dict[str, Any]], owed: list[str]) -> None:
    results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
    assert sorted(results) == sorted(owed), f"results {results} for calls {owed}"
    kinds = [block["type"] for block in content]
    assert kinds == sorted(kinds, reverse=True), f"results do not come first: {kinds}"
    for block in content:
        if block["type"] == "tool_result":
            assert block.keys() <= {"type", "tool_use_id", "content", "is_error"}, block
            assert block.get("content", "-").strip(), f"an empty text: {block}"
        else:
            _check_text(block)


def _check_text(block: dict[str, Any]) -> None:
    assert block.keys() == {"type", "text"}, block
    assert block["type"] == "text", block
    assert block["text"].strip(), f"an empty text: {block}"


def _check_answer(content: list[dict[str, Any]], seen: set[str], signatures: set[tuple[str, str]]) -> list[str]:
    ids: list[str] = []
    for block in content:
        if block["type"] == "tool_use":
            assert block.keys() == {"type", "id", "name", "input"}, block
            assert ID.fullmatch(block["id"]), block
            assert block["id"] not in seen, f"an id is used twice: {block}"
            assert NAME.fullmatch(block["name"]), block
            assert isinstance(block["input"], dict), block
            seen.add(block["id"])
            ids.append(block["id"])
        elif block["type"] == "thinking":
            assert (block["thinking"], block["signature"]) in signatures, f"a thought was changed: {block}"
        else:
            _check_text(block)
    assert any(block["type"] != "thinking" for block in content), "an answer of thoughts alone"
    return ids


def _check_thinking(body: dict[str, Any]) -> None:
    if "thinking" not in body:
        return
    assert 1024 <= body["thinking"]["budget_tokens"] < body["max_tokens"], body["thinking"]
    messages = body["messages"]
    if messages[-1]["content"][0]["type"] == "tool_result":
        assert messages[-2]["content"][0]["type"] == "thinking", "thinking was asked for in a loop without it"
