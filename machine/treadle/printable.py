"""Text from models, tools and files, made safe to show: on a terminal, in a drawing, on a page (X3)."""

from __future__ import annotations

import json
import re
from typing import Any, cast

_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff\ufff9-\ufffb\ufffe\uffff]"
)
"""Control characters, marks that change the direction or the place of text, and what neither UTF-8 nor XML can hold."""


def printable(text: str) -> str:
    """The text with nothing in it that acts and nothing that is hidden; line ends and tabs are kept.

    Escape sequences could move a terminal's cursor, set its title or fake a prompt; a return could overwrite the line;
    direction marks could show text in an order other than its own. Such characters are written out instead: ``␛`` and
    the like where there is a sign for them, else their number, as in ``[U+202E]``. Markup is not escaped. (X3)
    """
    return _ACTING.sub(_written_out, text.replace("\r\n", "\n"))


def _written_out(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"[U+{code:04X}]"


def one_line(text: str, limit: int = 200) -> str:
    """Printable text on one line of at most ``limit`` characters; a cut is marked. (X3)"""
    line = " ".join(printable(text[: 8 * limit]).split())
    cut = len(line) > limit or len(text) > 8 * limit
    return line[: limit - 1] + "…" if cut else line


def call_text(name: str, arguments: str, limit: int = 200) -> str:
    """A tool call for people, printable and on one line: ``name(key=value, …)``. (X3)"""
    try:
        given: Any = json.loads(arguments or "{}") if len(arguments) < 100_000 else None
        if isinstance(given, dict):
            pairs = cast("dict[str, Any]", given).items()
            arguments = ", ".join([f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in pairs])
    except (ValueError, RecursionError):
        pass  # shown as it is
    return one_line(f"{name}({arguments})", limit)
