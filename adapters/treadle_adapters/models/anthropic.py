"""Anthropic's Messages, and the servers that speak them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

import msgspec

from treadle import (
    AssistantMessage,
    Block,
    Message,
    MisuseError,
    ModelRequest,
    Reasoning,
    SystemMessage,
    Text,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from treadle.models import CallConfig, ModelInfo, ToolSchema

from .anthropic_stream import MessagesDecoder
from .decoding import Decoder
from .encoding import content_text, encode, result_text, safe_arguments, safe_id, wire_name, wire_parameters
from .history import Fragment, HistoryCache, ToolsCache
from .http_model import HTTPModel, HTTPOptions
from .shapes import as_list, as_object

BASE_URL = "https://api.anthropic.com"
"""Anthropic's own endpoint."""

API_KEY_ENV = "ANTHROPIC_API_KEY"
"""Where the key is looked for at Anthropic's own endpoint when none is given."""

VERSION = "2023-06-01"
"""The version of the protocol that is asked for."""

MAX_TOKENS = 8_192
"""Output asked for when the configuration sets no bound: the protocol demands one."""

LEAST_BUDGET = 1_024
"""The smallest budget for thinking that the protocol takes."""

THINKING_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_576}
"""Tokens for thinking by reasoning effort."""

CACHE_CONTROL: dict[str, dict[str, str]] = {"5m": {"type": "ephemeral"}, "1h": {"type": "ephemeral", "ttl": "1h"}}
"""A breakpoint, by how long what is cached up to it is kept without being used."""

_ROLE = {"user": b'{"role":"user","content":[', "assistant": b'{"role":"assistant","content":['}
_LEFT_OUT = b'{"role":"user","content":[{"type":"text","text":"(Earlier messages were left out.)"}]},'


class Anthropic(HTTPModel):
    """Speaks ``POST /v1/messages`` with streaming (Q5).

    Requests are valid for strict servers: neighbours of one role are merged, so that parallel results stand in one
    message; empty text is left out; an answer with neither text nor calls is left out; a call's input is always an
    object. Thinking goes back byte for byte, in its place, to the adapter of the same name only (Q10); a block whose
    replay data is damaged is left out.

    The system prompt is the latest system message, so ``system_prompt_mode`` is ``replace``. Usage counts the whole
    prompt, its cached parts included.

    Prompts are cached up to four breakpoints, as many as there may be: after the tools, after the system prompt, where the
    last request ended, and where this one ends. The third is where the provider wrote its entry the last time: it is found
    however many blocks a step adds, while a search backwards ends after twenty.

    Args:
        base_url: ends before ``/v1/messages``.
        thinking: how an effort is asked for: as a ``budget`` of tokens, or as an ``adaptive`` effort, which newer
            models want.
        thinking_budgets: the budget of each effort.
        cache: how long the provider keeps what it caches, ``None`` for no breakpoints. There are none either where
            ``extra_body`` has a ``cache_control`` of its own.
        options: see ``HTTPOptions``; at Anthropic's own endpoint the key is looked for in ``ANTHROPIC_API_KEY``.

    Raises:
        MisuseError: an option cannot be used.
    """

    default_name = "anthropic"
    path = "/v1/messages"
    unknown_model = ModelInfo(
        default_max_tokens=MAX_TOKENS, reasoning_efforts=("low", "medium", "high"), system_prompt_mode="replace"
    )

    def __init__(
        self,
        base_url: str = BASE_URL,
        *,
        thinking: Literal["budget", "adaptive"] = "budget",
        thinking_budgets: Mapping[str, int] = THINKING_BUDGETS,
        cache: Literal["5m", "1h"] | None = "5m",
        **options: Unpack[HTTPOptions],
    ) -> None:
        if base_url == BASE_URL and options.get("api_key") is None and options.get("api_key_env") is None:
            options["api_key_env"] = API_KEY_ENV
        super().__init__(base_url, **options)
        self._thinking = thinking
        self._budgets = dict(thinking_budgets)
        if cache not in (*CACHE_CONTROL, None):
            raise MisuseError(f"cache must be '5m', '1h' or None, not {cache!r}")
        self._cache = None if cache is None or "cache_control" in self._extra else CACHE_CONTROL[cache]
        self._mark = b"" if self._cache is None else b',"cache_control":' + encode(self._cache)
        self._history = HistoryCache(self._fragment, _glue)
        self._tools = ToolsCache(self._encode_tools)

    async def list_models(self) -> tuple[str, ...]:
        """See ``HTTPModel.list_models``; follows the pages of the listing."""
        found: list[str] = []
        after: dict[str, str] = {}
        while len(found) < 10_000:
            page = await self._get("/v1/models", {"limit": "1000", **after})
            ids = [as_object(item).get("id") for item in as_list(page.get("data"))]
            found += [item for item in ids if isinstance(item, str) and item]
            last = page.get("last_id")
            if not page.get("has_more") or not isinstance(last, str) or after.get("after_id") == last:
                break
            after = {"after_id": last}
        return tuple(found)

    def _headers(self) -> dict[str, str]:
        key = self._endpoint.credential.read()
        return {"anthropic-version": VERSION} | ({} if key is None else {"x-api-key": key})

    def _decoder(self) -> Decoder:
        return MessagesDecoder()

    def _body(self, request: ModelRequest) -> bytes:
        head = encode(self._settings(request.config, request.messages))
        messages, role = self._history.joined(request.session_id, request.messages)
        tools = self._tools.get(request.tools) if request.tools else b""
        told = self._marked(request.session_id, messages) if self._mark and role == "user" else [messages]
        end = b"]}]}" if role else b"]}"
        return b"".join([head[:-1], tools, b',"messages":[', *told, end])  # what stays the same comes first

    def _marked(self, session_id: str, messages: bytearray) -> list[bytes | bytearray]:
        """The messages with breakpoints in the last block of this request, and in that of the one before it.

        A request ends with what users and tools say. So the one before ended before the last answer, and there its entry is.
        """
        before = self._history.before_last(session_id, "assistant")
        stable = [messages[: before - 1], self._mark, b"}"] if before else []
        return [*stable, messages[before:-1], self._mark, b"}"]

    def _settings(self, config: CallConfig, messages: Sequence[Message]) -> dict[str, Any]:
        """The body without messages and tools."""
        limit = config.max_tokens or MAX_TOKENS
        settings: dict[str, Any] = {"model": config.model, "max_tokens": limit, "stream": True}
        prompts = [message for message in messages if type(message) is SystemMessage]
        if prompts and (prompt := content_text(prompts[-1].content)):
            block = {"type": "text", "text": prompt}
            settings["system"] = prompt if self._cache is None else [{**block, "cache_control": self._cache}]
        if config.reasoning_effort is not None and self._may_think(messages):
            settings |= self._asked_thinking(config, limit)
        return settings | self._extra

    def _asked_thinking(self, config: CallConfig, limit: int) -> dict[str, Any]:
        effort = config.reasoning_effort or ""
        if self._thinking == "adaptive":
            return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
        budget = self._budgets.get(effort, 0)
        free = config.max_tokens is None or "max_tokens" in config.defaulted
        if free and budget >= limit // 2:
            limit += budget
        budget = min(budget, limit // 2)
        if budget < LEAST_BUDGET:
            return {}
        return {"max_tokens": limit, "thinking": {"type": "enabled", "budget_tokens": budget}}

    def _may_think(self, messages: Sequence[Message]) -> bool:
        """Whether thinking may be asked for: not after calls that were made without it, also with input after them.

        What follows the results stands in one message with them, and still belongs to the loop. Answers that are left
        out of requests do not count.
        """
        for message in reversed(messages):
            if type(message) is AssistantMessage and self._answer_blocks(message):
                return not message.calls or any(self._thought(message, block) for block in message.content)
        return True

    def _fragment(self, message: Message) -> Fragment:
        match message:
            case UserMessage():
                return Fragment("user", _joined(_user_blocks(message.content)))
            case SystemMessage():
                return Fragment("", b"")
            case ToolResultMessage():
                return Fragment("user", _joined([_result_block(message)]))
            case AssistantMessage():
                return Fragment("assistant", _joined(self._answer_blocks(message)))

    def _answer_blocks(self, message: AssistantMessage) -> list[dict[str, Any]]:
        """An answer as blocks; none when it holds neither text nor calls."""
        blocks: list[dict[str, Any]] = []
        for block in message.content:
            if type(block) is Reasoning:
                thought = self._thought(message, block)
                blocks += [] if thought is None else [thought]
            elif type(block) is ToolCall:
                blocks.append(_call_block(block))
            elif (text := content_text((block,))).strip():
                blocks.append({"type": "text", "text": text})
        return blocks if any(block["type"] in ("text", "tool_use") for block in blocks) else []

    def _thought(self, message: AssistantMessage, block: Block) -> dict[str, Any] | None:
        """A thinking block as it came, if it is this adapter's and undamaged (Q10)."""
        if type(block) is not Reasoning or message.adapter != self._name:
            return None
        replay = as_object(block.replay)
        fields = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}.get(str(replay.get("type")))
        if fields is None or not all(isinstance(replay.get(name), str) for name in fields):
            return None
        return {"type": replay["type"], **{name: replay[name] for name in fields}}

    def _encode_tools(self, tools: tuple[ToolSchema, ...]) -> bytes:
        wire: list[dict[str, Any]] = [
            {"name": wire_name(tool.name), "description": tool.description, "input_schema": wire_parameters(tool)}
            for tool in tools
        ]
        if self._cache is not None:
            wire[-1]["cache_control"] = self._cache
        return b',"tools":' + encode(wire)


def _glue(before: str, role: str) -> bytes:
    if before == role:
        return b","
    if before:
        return b"]}," + _ROLE[role]
    return _ROLE[role] if role == "user" else _LEFT_OUT + _ROLE[role]


def _joined(blocks: list[dict[str, Any]]) -> bytes:
    return encode(blocks)[1:-1]


def _user_blocks(content: tuple[Block, ...]) -> list[dict[str, Any]]:
    texts = [block.text if type(block) is Text else content_text((block,)) for block in content]
    return [{"type": "text", "text": text} for text in texts if text.strip()] or [{"type": "text", "text": "(empty)"}]


def _result_block(message: ToolResultMessage) -> dict[str, Any]:
    result = message.result
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": safe_id(result.call_id, 64)}
    text = result_text(result)
    if text.strip():
        block["content"] = text
    if result.is_error:
        block["is_error"] = True
    return block


def _call_block(call: ToolCall) -> dict[str, Any]:
    arguments = msgspec.Raw(safe_arguments(call.arguments).encode())
    return {"type": "tool_use", "id": safe_id(call.call_id, 64), "name": wire_name(call.name), "input": arguments}
