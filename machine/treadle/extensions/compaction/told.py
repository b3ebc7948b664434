"""History told as text, for whoever sums it up: whole as far as it can be, in pieces that fit a request."""

from __future__ import annotations

from collections.abc import Iterable

from ...models import AssistantMessage, Block, Message, Reasoning, Text, ToolCall, ToolResult, ToolResultMessage

MOST = 4_000
"""Characters of one result or one call's arguments that are told; of what is longer, its beginning and its end."""
CHARACTERS_PER_TOKEN = 3
"""Fewer than there are, so that a piece is rather too small."""


def told(message: Message) -> str:
    """A message as text, who says it first."""
    if isinstance(message, ToolResultMessage):
        result = message.result
        failed = " failed" if result.is_error else ""
        return f"result of {result.call_id}{failed}: {_middle_left_out(_words(result.content))}"
    who = "agent" if isinstance(message, AssistantMessage) else message.role
    return f"{who}: {_words(message.content)}"


def _words(content: Iterable[Block]) -> str:
    return "\n".join([said for block in content if (said := _said(block))])


def _said(block: Block) -> str:
    if isinstance(block, Text):
        return block.text
    if isinstance(block, ToolCall):
        return f"calls {block.name} ({block.call_id}): {_middle_left_out(block.arguments)}"
    if isinstance(block, ToolResult):
        return _words(block.content)
    return "" if isinstance(block, Reasoning) else f"[{type(block).__name__}]"


def _middle_left_out(text: str) -> str:
    if len(text) <= MOST:
        return text
    left = MOST // 2
    return f"{text[:left]}\n[… {len(text) - 2 * left:,} characters left out …]\n{text[-left:]}"


def pieces(messages: Iterable[Message], tokens: int) -> list[str]:
    """The messages as text, in pieces of at most so many tokens; a message that is longer alone is cut up."""
    most = max(tokens * CHARACTERS_PER_TOKEN, 1)
    found: list[str] = []
    run: list[str] = []
    size = 0
    for message in messages:
        text = told(message)
        if run and size + len(text) > most:
            found.append("\n\n".join(run))
            run, size = [], 0
        while len(text) > most:
            found.append(text[:most])
            text = text[most:]
        run.append(text)
        size += len(text) + 2
    if run:
        found.append("\n\n".join(run))
    return found
