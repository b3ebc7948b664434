"""What was said, as the conventions write it. It is told only where somebody asks for it, and redacted on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from attrs import field, frozen, validators

from treadle import AssistantMessage, Message, Reasoning, SystemMessage, Text, ToolCall, ToolResultMessage, UserMessage
from treadle.models import Block, Finish, ToolResult, repair_text

from . import names
from .spans import Value

WITHHELD = "[withheld: its redaction failed]"
"""Stands for a text whose redaction raised: what cannot be redacted is not told."""


@frozen
class Content:
    """Asks for content: messages, arguments and results become attributes of the spans.

    Attributes:
        redact: is given every single text and returns what may be told of it; where it raises, nothing is told.
        limit: characters of one attribute. Of a long history the newest messages are kept, of a long text the start.
    """

    redact: Callable[[str], str] | None = None
    limit: int = field(default=32_000, validator=validators.gt(0))

    def text(self, text: str) -> str:
        """What may be told of a text."""
        if self.redact is not None:
            try:
                text = repair_text(self.redact(text))
            except Exception:
                return WITHHELD
        return text if len(text) <= self.limit else f"{text[: self.limit]}…"

    def value(self, text: str) -> Any:
        """What may be told of JSON text, as a value where it still is JSON."""
        told = self.text(text)
        try:
            return msgspec.json.decode(told or "{}")
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            return told

    # --- attributes ---------------------------------------------------------------------------------------------------

    def request(self, history: Iterable[Message]) -> dict[str, Value]:
        """What a model is asked: its instructions and the history."""
        system: list[Any] = []
        messages: list[Any] = []
        for message in history:
            parts = self._parts(message.content)
            if isinstance(message, SystemMessage):
                system += parts
            else:
                messages.append({"role": _role(message), "parts": parts})
        out: dict[str, Value] = {names.INPUT_MESSAGES: self._newest(messages)}
        if system:
            out[names.SYSTEM_INSTRUCTIONS] = _json(system)
        return out

    def answer(self, message: AssistantMessage, finish: Finish | None) -> dict[str, Value]:
        """What it answered."""
        kind = finish.kind if finish is not None else "error"
        reason = names.FINISHES.get(kind, kind)
        told = {"role": "assistant", "parts": self._parts(message.content), "finish_reason": reason}
        return {names.OUTPUT_MESSAGES: _json([told])}

    def call(self, arguments: str) -> dict[str, Value]:
        """What a tool is called with."""
        return {names.TOOL_ARGUMENTS: _json(self.value(arguments))}

    def result(self, content: tuple[Block, ...]) -> dict[str, Value]:
        """What a tool gave."""
        return {names.TOOL_RESULT: self._said(content)}

    # --- parts --------------------------------------------------------------------------------------------------------

    def _parts(self, content: Iterable[Block]) -> list[Any]:
        return [self._part(block) for block in content]

    def _part(self, block: Block) -> Any:
        match block:
            case Text(text=text):
                return {"type": "text", "content": self.text(text)}
            case Reasoning(text=text):
                return {"type": "reasoning", "content": self.text(text)}
            case ToolCall(call_id=call, name=name, arguments=arguments):
                return {"type": "tool_call", "id": call, "name": name, "arguments": self.value(arguments)}
            case ToolResult(call_id=call, content=content):
                return {"type": "tool_call_response", "id": call, "response": self._said(content)}
            case _:
                return {"type": type(block).__name__}

    def _said(self, content: Iterable[Block]) -> str:
        return self.text("".join([block.text if isinstance(block, Text) else "" for block in content]))

    def _newest(self, messages: list[Any]) -> str:
        told = [msgspec.json.encode(message).decode() for message in messages]
        room = self.limit
        first = len(told)
        while first > 0 and (room >= len(told[first - 1]) or first == len(told)):
            first -= 1
            room -= len(told[first])
        return f"[{','.join(told[first:])}]"


def _role(message: Message) -> str:
    if isinstance(message, ToolResultMessage):
        return "tool"
    return "user" if isinstance(message, UserMessage) else "assistant"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
