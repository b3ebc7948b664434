"""OpenAI's Responses, used without storing anything at the provider."""

from __future__ import annotations

from typing import Any, Unpack

from treadle import (
    AssistantMessage,
    Message,
    ModelRequest,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from treadle.models import CallConfig, ToolSchema

from .decoding import Decoder
from .encoding import content_text, encode, result_text, safe_arguments, safe_id, wire_name, wire_parameters
from .history import Fragment, HistoryCache, ToolsCache
from .http_model import HTTPModel, HTTPOptions
from .responses_stream import KEPT_OF_REASONING, ResponsesDecoder
from .shapes import as_object

BASE_URL = "https://api.openai.com/v1"
"""OpenAI's own endpoint."""

API_KEY_ENV = "OPENAI_API_KEY"
"""Where the key is looked for at OpenAI's own endpoint when none is given."""


class OpenAIResponses(HTTPModel):
    """Speaks ``POST /responses`` with streaming and ``store: false`` (Q5).

    The whole history is sent each time; nothing is kept at the provider. With a reasoning effort, the encrypted
    reasoning of earlier answers goes back in its place, to the adapter of the same name only (Q10).

    Args:
        base_url: ends before ``/responses``.
        reasoning_summary: which summary of its reasoning to ask for, ``None`` for none.
        options: see ``HTTPOptions``; at OpenAI's own endpoint the key is looked for in ``OPENAI_API_KEY``.

    Raises:
        MisuseError: an option cannot be used.
    """

    default_name = "openai-responses"
    path = "/responses"

    def __init__(
        self, base_url: str = BASE_URL, *, reasoning_summary: str | None = "auto", **options: Unpack[HTTPOptions]
    ) -> None:
        if base_url == BASE_URL and options.get("api_key") is None and options.get("api_key_env") is None:
            options["api_key_env"] = API_KEY_ENV
        super().__init__(base_url, **options)
        self._summary = reasoning_summary
        self._history = HistoryCache(self._fragment, _comma)
        self._tools = ToolsCache(_encode_tools)

    def _decoder(self) -> Decoder:
        return ResponsesDecoder()

    def _body(self, request: ModelRequest) -> bytes:
        head = encode(self._settings(request.config))
        messages, _ = self._history.joined(request.session_id, request.messages)
        tools = self._tools.get(request.tools) if request.tools else b""
        return b"".join([head[:-1], tools, b',"input":[', messages, b"]}"])  # what stays the same comes first

    def _settings(self, config: CallConfig) -> dict[str, Any]:
        """The body without input and tools."""
        settings: dict[str, Any] = {"model": config.model, "stream": True, "store": False}
        if config.max_tokens is not None:
            settings["max_output_tokens"] = config.max_tokens
        if config.reasoning_effort is not None:
            settings["reasoning"] = {"effort": config.reasoning_effort}
            if self._summary is not None:
                settings["reasoning"]["summary"] = self._summary
            settings["include"] = ["reasoning.encrypted_content"]
        return settings | self._extra

    def _fragment(self, message: Message) -> Fragment:
        match message:
            case UserMessage():
                return Fragment("user", encode({"role": "user", "content": content_text(message.content)}))
            case SystemMessage():
                text = content_text(message.content)
                return Fragment("system", encode({"role": "system", "content": text}) if text else b"")
            case ToolResultMessage():
                result = message.result
                wire = {"type": "function_call_output", "call_id": safe_id(result.call_id, 64)}
                return Fragment("tool", encode(wire | {"output": result_text(result)}))
            case AssistantMessage():
                return Fragment("assistant", encode(self._items(message))[1:-1])

    def _items(self, message: AssistantMessage) -> list[dict[str, Any]]:
        """An answer as items; none when it holds neither text nor calls."""
        items: list[dict[str, Any]] = []
        for block in message.content:
            if type(block) is Reasoning:
                thought = self._thought(message, block)
                if thought is not None:
                    items.append(thought)
            elif type(block) is ToolCall:
                call = {"call_id": safe_id(block.call_id, 64), "name": wire_name(block.name)}
                items.append({"type": "function_call", **call, "arguments": safe_arguments(block.arguments)})
            elif text := content_text((block,)):
                said = {"type": "output_text", "text": text, "annotations": list[str]()}
                items.append({"type": "message", "role": "assistant", "content": [said]})
        while items and items[-1]["type"] == "reasoning":  # it must be followed by what it led to
            items.pop()
        return items

    def _thought(self, message: AssistantMessage, block: Reasoning) -> dict[str, Any] | None:
        """A reasoning item as it came, if it is this adapter's and undamaged (Q10)."""
        replay = as_object(block.replay)
        if message.adapter != self._name:
            return None
        if replay.get("type") != "reasoning" or not isinstance(replay.get("encrypted_content"), str):
            return None
        if not isinstance(replay.get("id"), str) or not isinstance(replay.get("summary"), list):
            return None
        return {name: replay[name] for name in KEPT_OF_REASONING if name in replay}


def _comma(before: str, _: str) -> bytes:
    return b"," if before else b""


def _encode_tools(tools: tuple[ToolSchema, ...]) -> bytes:
    wire = [
        {
            "type": "function",
            "name": wire_name(tool.name),
            "description": tool.description,
            "parameters": wire_parameters(tool),
        }
        for tool in tools
    ]
    return b',"tools":' + encode(wire)
