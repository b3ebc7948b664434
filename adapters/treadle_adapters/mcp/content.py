"""From what a server answers to what the model reads and the log keeps."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from treadle import Block, Text, ToolOutput

from .blocks import Audio, Image, Resource

MOST_BINARY = 8 * 1024 * 1024
"""How many characters of base64 one result may hold, all its pictures, sounds and resources together."""


def output_of(result: types.CallToolResult) -> ToolOutput:
    """The result of a call."""
    value = result.structured_content
    content = blocks_of(result.content)
    if result.is_error:
        return ToolOutput(
            content or "the server says that the call failed, and not why", is_error=True, code="TOOL_FAILED"
        )
    return ToolOutput(content or None, value=value)


def blocks_of(content: list[Any]) -> tuple[Block, ...]:
    """Content of any kind as blocks; binary content beyond a bound is named instead."""
    left = MOST_BINARY
    found: list[Block] = []
    for item in content:
        block = _block(item)
        if not isinstance(block, Text):
            left -= len(block.data)
            if left < 0:
                size = len(block.data) * 3 // 4
                block = Text(f"[{type(block).__name__.lower()} of {size:,} bytes: too large, left out]")
        found.append(block)
    return tuple(found)


def _block(item: Any) -> Text | Image | Audio | Resource:
    match item:
        case types.TextContent():
            return Text(item.text)
        case types.ImageContent():
            return Image(item.data, item.mime_type)
        case types.AudioContent():
            return Audio(item.data, item.mime_type)
        case types.EmbeddedResource():
            return contents_block(item.resource)
        case types.ResourceLink():
            kind = f" ({item.mime_type})" if item.mime_type else ""
            told = f": {item.description}" if item.description else ""
            return Text(f"[resource {item.name}{kind} at {item.uri}{told}]")
        case _:
            return Text(f"[{getattr(item, 'type', type(item).__name__)}: not shown]")


def contents_block(contents: types.TextResourceContents | types.BlobResourceContents) -> Text | Image | Resource:
    """What a resource holds."""
    if isinstance(contents, types.TextResourceContents):
        return Text(contents.text)
    if (contents.mime_type or "").startswith("image/"):
        return Image(contents.blob, contents.mime_type or "")
    return Resource(str(contents.uri), contents.blob, contents.mime_type)
