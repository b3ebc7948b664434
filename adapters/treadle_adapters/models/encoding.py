"""Parts of a request's messages that every protocol encodes alike, valid for strict servers (Q1, K3)."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

from treadle import Block, Text, ToolCall
from treadle.models import ToolResult, ToolSchema, text_of
from treadle.session import Opaque, encode_hook

from .shapes import as_list, as_object, as_text

INVALID_ARGUMENTS = "_invalid_arguments"
"""The key under which arguments that are no JSON object are told to the model again."""

_BAD_ID = re.compile(r"[^A-Za-z0-9_-]")
_BAD_NAME = re.compile(r"[^A-Za-z0-9_-]")
_WIRE_NAME = re.compile(r"(?!.*_[0-9a-f]{16}\Z)[A-Za-z0-9_-]{1,64}\Z")
_ENCODER = msgspec.json.Encoder(enc_hook=encode_hook)


def encode(value: Any) -> bytes:
    """Compact JSON; opaque members of the vocabulary encode to what was read."""
    return _ENCODER.encode(value)


def content_text(content: tuple[Block, ...]) -> str:
    """All of ``content`` as text. A block that is no text is named, so that the model knows something was there."""
    if all(type(block) is Text for block in content):
        return text_of(content)
    return "".join([block.text if type(block) is Text else f"[{_kind(block)}: not shown]" for block in content])


def _kind(block: Block) -> str:
    if isinstance(block, Opaque):
        return str(block.raw.get("type", "content"))[:40]
    return str(getattr(block, "__struct_config__").tag)[:40]  # noqa: B009  # blocks are tagged structs


def result_text(result: ToolResult) -> str:
    """What the model reads of a tool's result; an error says so, with its code."""
    text = content_text(result.content)
    if not result.is_error:
        return text
    return f"Error ({result.code}): {text}" if result.code else f"Error: {text}"


def safe_arguments(arguments: str) -> str:
    """A call's arguments as text that is always a JSON object.

    The raw text of a valid object is kept to the letter; empty text becomes ``{}``. Anything else, which some
    servers answer with a lasting refusal of the whole history, is wrapped: ``{"_invalid_arguments": "<raw text>"}``.
    The model sees what it wrote, and reads in the result that it was invalid (K3).
    """
    if not arguments.strip():
        return "{}"
    if parsed_arguments(arguments) is not None:
        return arguments
    return encode({INVALID_ARGUMENTS: arguments}).decode()


def parsed_arguments(arguments: str) -> dict[str, Any] | None:
    """A call's arguments as an object; ``None`` when they are none."""
    try:
        return msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def safe_id(call_id: str, longest: int = 40) -> str:
    """A call id that every provider takes; the same for a call and its result.

    Ids of other providers may be too long or hold characters that are refused; those become a digest.
    """
    if call_id and len(call_id) <= longest and not _BAD_ID.search(call_id):
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:32]


def wire_name(name: str) -> str:
    """A tool's name that every provider takes; the same where it is offered, and in calls of the history.

    Two names never share one: what is no plain name of up to 64 letters, digits, ``_`` and ``-`` gets a digest at its end,
    and so does a plain name that ends like one.
    """
    if _WIRE_NAME.match(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{_BAD_NAME.sub('_', name)[:47]}_{digest}"


def names_called(tools: tuple[ToolSchema, ...]) -> dict[str, str]:
    """The tools' own names by those that the provider knows them by, where the two differ."""
    return {wire: tool.name for tool in tools if (wire := wire_name(tool.name)) != tool.name}


_NOT_ON_TOP = frozenset(["$ref", "allOf", "anyOf", "const", "else", "enum", "if", "not", "oneOf", "then"])
_DEEPEST = 8


def wire_parameters(tool: ToolSchema) -> dict[str, Any]:
    """A tool's parameters as every provider takes them.

    They refuse alternatives on top of a schema: those become the properties that any of them has, of which those are
    required that all of them require. The tool's own schema says the rest when it is called (K3).
    """
    schema = tool.parameters
    if not schema.keys() & _NOT_ON_TOP:
        return schema if "type" in schema else {"type": "object", **schema}
    properties, required = _united(schema, schema.get("$defs", {}), 0)
    kept = {key: value for key, value in schema.items() if key not in _NOT_ON_TOP and key != "additionalProperties"}
    return kept | {"type": "object", "properties": properties, "required": sorted(required)}


def _united(schema: Any, definitions: dict[str, Any], depth: int) -> tuple[dict[str, Any], set[str]]:
    """The properties that a schema may allow, and those that it requires whatever else holds."""
    given = as_object(schema)
    properties, required = dict(as_object(given.get("properties"))), {*as_list(given.get("required"))}
    if depth == _DEEPEST:
        return properties, required
    pointed = as_text(given.get("$ref")).removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")
    for part in [*as_list(given.get("allOf")), definitions.get(pointed)]:
        more, needed = _united(part, definitions, depth + 1)
        properties, required = more | properties, required | needed
    for key in ("anyOf", "oneOf"):
        united = [_united(part, definitions, depth + 1) for part in as_list(given.get(key))]
        for more, _ in united:
            properties = more | properties
        if united:
            required |= set[str].intersection(*[needed for _, needed in united])
    return properties, required


def calls_of(content: tuple[Block, ...]) -> list[ToolCall]:
    """The tool calls of an answer."""
    return [block for block in content if type(block) is ToolCall]
