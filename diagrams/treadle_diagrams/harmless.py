"""Text from models, tools and files, made safe to draw: nothing in it acts, and nothing in it is hidden (X3)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, cast
from xml.sax.saxutils import escape

from treadle.models.messages import Block, Text
from treadle.sums import to_builtins

_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff\ufff9-\ufffb\ufffe\uffff]"
)
"""Controls, marks that turn the direction of text around, and what XML cannot hold; line ends and tabs may stay."""


def harmless(text: str) -> str:
    """The text with its control characters and direction marks written out; line ends and tabs are kept."""
    return _ODD.sub(_written_out, text.replace("\r\n", "\n"))


def _written_out(found: re.Match[str]) -> str:
    return f"[U+{ord(found.group()):04X}]"


def one_line(text: str, limit: int) -> str:
    """Harmless text on one line of at most ``limit`` characters; a cut is marked."""
    line = " ".join(harmless(text[: 8 * limit]).split())
    cut = len(line) > limit or len(text) > 8 * limit
    return line[: limit - 1] + "…" if cut else line


def markup(text: str) -> str:
    """Harmless text for HTML and XML, between tags as well as in quotes."""
    return escape(harmless(text), {'"': "&quot;", "'": "&#39;"})


def blocks_text(content: Iterable[Block]) -> str:
    """What blocks say; those that are no text are named in brackets."""
    return "".join([block.text if type(block) is Text else f"[{tag_of(block)}]" for block in content])


def tag_of(member: object) -> str:
    """The tag of a block, cause or source, known or not: what stands under ``type`` or ``kind``."""
    raw: Any = to_builtins(member)
    plain = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    return str(plain.get("type") or plain.get("kind") or type(member).__name__)


def call_text(name: str, arguments: str, limit: int = 200) -> str:
    """A tool call for people, on one line: ``name(key=value, …)``."""
    try:
        given: Any = json.loads(arguments or "{}") if len(arguments) < 100_000 else None
        if isinstance(given, dict):
            pairs = cast("dict[str, Any]", given).items()
            arguments = ", ".join([f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in pairs])
    except (ValueError, RecursionError):
        pass  # shown as it is
    return one_line(f"{name}({arguments})", limit)


def counted(count: int, what: str) -> str:
    """``1 turn``, ``2 turns``."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")
