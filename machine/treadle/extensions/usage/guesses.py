"""How long things are, in characters: by that, tokens that nobody reported are estimated."""

from __future__ import annotations

from typing import Any

from ...models import Block, Text, ToolCall
from ...session import AssistantAttempt, AssistantMessageAdded, SystemMessageAdded, ToolResultAdded, UserMessageAdded


def node_size(data: Any) -> int:
    """The characters that an event adds to what the model reads."""
    if isinstance(data, (UserMessageAdded, SystemMessageAdded, AssistantMessageAdded)):
        return _said(data.message.content)
    return _said(data.content) if isinstance(data, ToolResultAdded) else 0


def answer_size(data: AssistantMessageAdded | AssistantAttempt) -> int:
    """The characters that a model wrote in an attempt, reasoning included."""
    stream = data.stream
    if stream is None:
        return _said(data.message.content) if isinstance(data, AssistantMessageAdded) else 0
    return sum([len(text) for segment in stream.segments for text in segment.texts])


def _said(content: tuple[Block, ...]) -> int:
    total = 0
    for block in content:
        if isinstance(block, Text):
            total += len(block.text)
        elif isinstance(block, ToolCall):
            total += len(block.name) + len(block.arguments)
    return total
