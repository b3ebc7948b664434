"""From whatever a tool returned or raised to a result that the log and the model can hold (K3, K9)."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec.structs import replace

from ..errors import InvalidData
from ..lossless import check_bytes, repair_text, text_is_lossless
from ..sums import ENCODER
from ..words.events import ToolResultAdded
from ..words.failures import clean_code, code_of, describe
from ..words.messages import BLOCKS, Block, Text, ToolBody, UserMessage, check_batch, check_user_message
from .definition import LARGEST_RESULT, Tool, ToolOutput
from .plain import plain

NO_OUTPUT = "(no output)"
"""What the model reads when a tool returned nothing."""


class Result(msgspec.Struct, frozen=True, eq=False):
    """A result on its way through the pipeline; ``refused`` and ``body`` are noted beside it (K2)."""

    content: tuple[Block, ...]
    is_error: bool = False
    code: str | None = None
    value: Any = None
    concludes_turn: bool = False
    contexts: tuple[UserMessage, ...] = ()
    refused: bool = False
    body: ToolBody | None = None

    def fact(self, call_id: str) -> ToolResultAdded:
        """As it is recorded."""
        return ToolResultAdded(
            call_id,
            self.content,
            self.is_error,
            self.code,
            self.concludes_turn and not self.is_error,
            self.value,
            self.refused,
            self.body,
            len(self.contexts),
        )

    def made_of(self, given: Result) -> Result:
        """This result with a note of what the body came to, where that is another one (K2)."""
        if (
            given.content == self.content
            and given.is_error == self.is_error
            and given.code == self.code
            and given.value == self.value
            and given.concludes_turn == self.concludes_turn
            and given.contexts == self.contexts
        ):
            return self
        concludes = given.concludes_turn and not given.is_error
        count = len(given.contexts)
        return replace(self, body=ToolBody(given.content, given.is_error, given.code, concludes, given.value, count))


def error_result(message: str, code: str) -> Result:
    """An error that the model reads (K2)."""
    return Result((Text(repair_text(message)),), True, clean_code(code, "TOOL_FAILED"))


def standing_in(fact: ToolResultAdded) -> Result:
    """The result that the kernel chose for a call without one of its own, on its way through the pipeline (C4)."""
    return Result(fact.content, fact.is_error, fact.code)


def raised(error: BaseException, default: str = "TOOL_FAILED") -> Result:
    """What a raising tool or stage gives: its own code if it has one (K3)."""
    return error_result(describe(error), code_of(error, default))


def normalize(tool: Tool, returned: Any) -> Result:
    """Turn a returned value into a result; never raises (K9)."""
    try:
        return _normalize(tool, returned)
    except Exception as error:
        return unshown(tool, error)


def unshown(tool: Tool, error: Exception) -> Result:
    """What is told of a tool that ran, and gave what the log or the model cannot hold (K9)."""
    told = str(error) if isinstance(error, InvalidData) else describe(error)
    return error_result(
        f"tool {tool.name!r} ran, but its output cannot be shown: {told}. It may have taken effect.", "INVALID_OUTPUT"
    )


def _normalize(tool: Tool, returned: Any) -> Result:
    output = returned if isinstance(returned, ToolOutput) else None
    given = output.value if output is not None else returned
    if output is None and _is_content(given):
        return Result(blocks_of([given] if isinstance(given, Block) else given))
    value = given if isinstance(given, str) else plain(given, _APART)
    if tool.output is not None and not (output is not None and output.is_error):
        value = _recordable(value)
        errors = tool.output.errors(value)
        if errors:
            return error_result(f"the tool's output does not fit its schema: {'; '.join(errors)}", "INVALID_OUTPUT")
    content = output.content if output is not None else None
    if content is None:
        content = tool.render(given) if tool.render is not None else _show(value)
    blocks = blocks_of(content)
    contexts = tuple([check_user_message(message) for message in output.contexts]) if output is not None else ()
    check_batch(contexts)
    if output is None:
        return Result(blocks, value=value if tool.output is not None else None)
    return Result(
        blocks,
        bool(output.is_error),
        clean_code(output.code, "TOOL_FAILED") if output.is_error or output.code is not None else None,
        _recordable(value),
        bool(output.concludes_turn),
        contexts,
    )


_APART = (Block, ToolOutput)
"""What is returned alone: in a value it would be shown as its fields."""


def _is_content(value: Any) -> bool:
    if not isinstance(value, (tuple, list)) or not value:
        return isinstance(value, Block)
    return all(isinstance(item, Block) for item in cast("list[Any]", value))


def detached(value: Any) -> Any:
    """A copy that nobody else holds, as reading the log gives it back: what is recorded never changes (S1).

    Raises:
        InvalidData: JSON cannot hold it, or it is too large.
    """
    return _recordable(value if isinstance(value, str) else plain(value, _APART))


def _recordable(value: Any) -> Any:
    """Plain JSON or any text, fit for the log (X3, S1)."""
    if isinstance(value, str):
        check_bytes(len(value), "the value of a result", LARGEST_RESULT)
        return repair_text(str.__str__(value))
    check_bytes(len(msgspec.json.encode(value)), "the value of a result")
    return value


def blocks_of(content: Any) -> tuple[Block, ...]:
    """Content as the log holds it: text, or blocks that are read back as they are.

    Raises:
        InvalidData: something else.
    """
    if isinstance(content, str):
        return (Text(str.__str__(content) or NO_OUTPUT),)
    blocks = tuple(content)
    for index, block in enumerate(blocks):
        if not isinstance(block, Block):
            raise InvalidData(f"{type(block).__name__} is no content block", f"$[{index}]")
        if type(block) is not Text:
            BLOCKS.check(block, f"$[{index}]")
        elif type(block.text) is not str:
            raise InvalidData(f"{type(block.text).__name__} is no text", f"$[{index}].text")
    others = [block for block in blocks if type(block) is not Text]
    if others:
        check_bytes(len(ENCODER.encode(others)), "what a result shows beside text")
    return blocks or (Text(NO_OUTPUT),)


def _show(value: Any) -> str:
    if value is None:
        return NO_OUTPUT
    if isinstance(value, str):
        return str.__str__(value)
    return msgspec.json.encode(value).decode("utf-8")


def limit(result: Result, most: int) -> Result:
    """Cut the text at a character boundary and say so; repair what UTF-8 cannot carry (K9, S1)."""
    if len(result.content) == 1:
        only = result.content[0]
        if type(only) is Text and len(only.text) * 4 <= most and text_is_lossless(only.text):
            return result
    left = most
    out: list[Block] = []
    changed = False
    for block in result.content:
        if type(block) is not Text:
            out.append(block)
            continue
        text = cut(block.text, left)
        left = max(0, left - len(text.encode("utf-8")))
        changed = changed or text is not block.text
        out.append(block if text is block.text else Text(text))
    return replace(result, content=tuple(out)) if changed else result


def cut(text: str, most: int) -> str:
    """``text`` itself when it fits into ``most`` bytes, else its beginning and a note of what is missing."""
    if len(text) * 4 <= most and text_is_lossless(text):
        return text
    whole = len(text)
    head = text[: most + 1]
    encoded = repair_text(head).encode("utf-8")
    if whole <= most and len(encoded) <= most:
        return text if text_is_lossless(text) else encoded.decode("utf-8")
    kept = encoded[: max(0, most)].decode("utf-8", "ignore")
    return f"{kept}\n[cut: {len(kept)} of {whole} characters shown]"
