"""What a text, a message and a tool are worth in tokens, before anybody has counted them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from ...models import Block, Message, Reasoning, Text, ToolCall, ToolResult, ToolSchema

Tokenizer: TypeAlias = Callable[[str], int]
"""Counts the tokens of a text: a provider's own tokenizer, where one is at hand."""

SAMPLE = 8_192
"""Characters of a text that are looked at; of a longer one the beginning, the middle and the end, and what that gives is
scaled: the cost of an estimate is bounded."""

PER_MESSAGE = 4.0
"""Tokens around each message: its role, and where it begins and ends."""
PER_CALL = 8.0
"""Tokens around a call or a result: its name and its id."""
PER_TOOL = 8.0
"""Tokens around a tool."""

_PIECES = re.compile(
    r"([A-Za-z]+)|(\d+)|(\n\s*)|([^\S\n]{2,})|([!-/:-@\[-`{-~]+)|([\u2e80-\ud7ff\uf900-\uffef]+)|([^\x00-\x7f]+)"
)
_WORD, _NUMBER, _LINE, _INDENT, _SIGNS, _DENSE, _OTHER = range(1, 8)


def text_size(text: str) -> float:
    """How many tokens a text has, as tokenizers of byte pairs split it: an estimate, for any language.

    Words cost one token and more where they are long; digits, signs and line breaks count by themselves, and so do the
    characters of scripts that write words in one or two of them.
    """
    length = len(text)
    if length <= SAMPLE:
        return _counted(text)
    half, quarter, middle = SAMPLE // 2, SAMPLE // 4, length // 2
    seen = text[:half] + text[middle : middle + quarter] + text[-quarter:]
    return _counted(seen) * length / len(seen)


def _counted(text: str) -> float:
    total = 0.0
    for piece in _PIECES.finditer(text):
        size = piece.end() - piece.start()
        match piece.lastindex:
            case 1:  # a word
                total += 1.0 if size <= 7 else 1.0 + (size - 7) / 4.5
            case 2:  # digits
                total += size * 0.75
            case 3 | 4:  # a line break with what indents the next, or blanks
                total += 1.0
            case 5:  # signs
                total += 0.5 + size * 0.5
            case 6:  # scripts of many characters
                total += size
            case _:  # other alphabets
                total += size * 0.5
    return total


def block_size(block: Block, count: Callable[[str], float]) -> float:
    """What a block of a message is worth. Reasoning that no provider gets back counts nothing."""
    match block:
        case Text(text=text):
            return count(text)
        case ToolCall(name=name, arguments=arguments):
            return PER_CALL + count(name) + count(arguments)
        case ToolResult(content=content):
            return PER_CALL + sum([block_size(inner, count) for inner in content])
        case Reasoning(text=text, replay=replay):
            return 0.0 if replay is None else count(text)
        case _:
            return PER_CALL


def message_size(message: Message, count: Callable[[str], float]) -> float:
    """What a message is worth, with what stands around it."""
    return PER_MESSAGE + sum([block_size(block, count) for block in message.content])


def tool_size(tool: ToolSchema, count: Callable[[str], float]) -> float:
    """What a tool is worth, as it is told to the model."""
    parameters = msgspec.json.encode(tool.parameters).decode()
    return PER_TOOL + count(tool.name) + count(tool.description) + count(parameters)
