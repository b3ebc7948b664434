"""OpenAI's chat completions, and the many servers that speak them: vLLM, llama.cpp, Ollama, LiteLLM, OpenRouter."""

from __future__ import annotations

from typing import Any, Literal, Unpack

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

from .chat_replay import OF_CALLS, OF_MESSAGES, picked, sent_back
from .chat_stream import ChatDecoder
from .decoding import Decoder
from .encoding import calls_of, content_text, encode, result_text, safe_arguments, safe_id, wire_name, wire_parameters
from .history import Fragment, HistoryCache, ToolsCache
from .http_model import HTTPModel, HTTPOptions
from .shapes import as_object

ReasoningEcho = Literal["never", "calls", "always"]
"""Which answers carry their reasoning back: none, those that ask for tools, or all."""


class OpenAIChat(HTTPModel):
    """Speaks ``POST /chat/completions`` with streaming (Q5).

    Requests are valid for strict servers: ``content`` is null beside calls that came without text; an answer with
    neither text nor calls is left out; arguments are always a JSON object (``safe_arguments``); ids and names are
    ones that providers take; an error result says so in its text. What an answer or a call brought for its provider
    alone, such as Gemini's thought signatures, goes back with it, to the host that it came from only (Q10).

    Args:
        base_url: ends before ``/chat/completions``, as in ``https://api.openai.com/v1``.
        max_tokens_field: how the bound on output is named; by default ``max_completion_tokens`` at OpenAI itself,
            ``max_tokens`` elsewhere.
        stream_usage: whether to ask for token counts; some servers refuse the question.
        system_role: the role of system messages.
        reasoning_echo: which answers carry their reasoning back.
        reasoning_field: the field of a message that carries it.
        options: see ``HTTPOptions``.

    Raises:
        MisuseError: an option cannot be used.
    """

    default_name = "openai-chat"
    path = "/chat/completions"

    def __init__(
        self,
        base_url: str,
        *,
        max_tokens_field: str | None = None,
        stream_usage: bool = True,
        system_role: Literal["system", "developer"] = "system",
        reasoning_echo: ReasoningEcho = "never",
        reasoning_field: str = "reasoning_content",
        **options: Unpack[HTTPOptions],
    ) -> None:
        super().__init__(base_url, **options)
        at_openai = self._endpoint.host == "api.openai.com"
        self._max_tokens_field = max_tokens_field or ("max_completion_tokens" if at_openai else "max_tokens")
        self._stream_usage = stream_usage
        self._system_role = system_role
        self._echo = reasoning_echo
        self._reasoning_field = reasoning_field
        self._history = HistoryCache(self._fragment, _comma)
        self._tools = ToolsCache(_encode_tools)

    def _decoder(self) -> Decoder:
        return ChatDecoder(self._endpoint.host)

    def _body(self, request: ModelRequest) -> bytes:
        head = encode(self._settings(request.config))
        messages, _ = self._history.joined(request.session_id, request.messages)
        tools = self._tools.get(request.tools) if request.tools else b""
        return b"".join([head[:-1], tools, b',"messages":[', messages, b"]}"])  # what stays the same comes first

    def _settings(self, config: CallConfig) -> dict[str, Any]:
        """The body without messages and tools."""
        settings: dict[str, Any] = {"model": config.model, "stream": True}
        if self._stream_usage:
            settings["stream_options"] = {"include_usage": True}
        if config.max_tokens is not None:
            settings[self._max_tokens_field] = config.max_tokens
        if config.reasoning_effort is not None:
            settings["reasoning_effort"] = config.reasoning_effort
        return settings | self._extra

    def _fragment(self, message: Message) -> Fragment:
        match message:
            case UserMessage():
                return Fragment("user", encode({"role": "user", "content": content_text(message.content)}))
            case SystemMessage():
                text = content_text(message.content)
                return Fragment("system", encode({"role": self._system_role, "content": text}) if text else b"")
            case ToolResultMessage():
                result = message.result
                wire = {"role": "tool", "tool_call_id": safe_id(result.call_id), "content": result_text(result)}
                return Fragment("tool", encode(wire))
            case AssistantMessage():
                return Fragment("assistant", self._answer(message))

    def _answer(self, message: AssistantMessage) -> bytes:
        """An answer of the model; empty when it holds neither text nor calls."""
        calls = calls_of(message.content)
        thoughts = [block.text for block in message.content if type(block) is Reasoning]
        said = tuple(
            [block for block in message.content if type(block) is not ToolCall and type(block) is not Reasoning]
        )
        text = content_text(said)
        if not text and not calls:
            return b""
        wire: dict[str, Any] = {"role": "assistant", "content": text or None}
        if thoughts and (self._echo == "always" or (self._echo == "calls" and calls)):
            wire[self._reasoning_field] = "".join(thoughts)
        if calls:
            wire["tool_calls"] = [self._call(call, message.adapter == self._name) for call in calls]
        if message.adapter == self._name:
            wire |= sent_back(message.replay, (*OF_MESSAGES, "reasoning_details"), self._endpoint.host)
        return encode(wire)

    def _call(self, call: ToolCall, own: bool) -> dict[str, Any]:
        """A call, with what its provider wants back when it came from this adapter and this endpoint (Q10)."""
        function = {"name": wire_name(call.name), "arguments": safe_arguments(call.arguments)}
        wire: dict[str, Any] = {"id": safe_id(call.call_id), "type": "function", "function": function}
        if own and call.replay is not None:
            wire |= sent_back(call.replay, OF_CALLS, self._endpoint.host)
            inner = sent_back(call.replay, ("function",), self._endpoint.host).get("function")
            wire["function"] = {**function, **picked(as_object(inner), OF_CALLS)}
        return wire


def _comma(before: str, _: str) -> bytes:
    return b"," if before else b""


def _encode_tools(tools: tuple[ToolSchema, ...]) -> bytes:
    wire = [
        {
            "type": "function",
            "function": {
                "name": wire_name(tool.name),
                "description": tool.description,
                "parameters": wire_parameters(tool),
            },
        }
        for tool in tools
    ]
    return b',"tools":' + encode(wire)
