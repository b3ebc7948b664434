"""Text from models, tools and files, made safe to show on a terminal (X3)."""

from __future__ import annotations

import re

_KEPT = "\n\t"
_INVISIBLE = "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff]"
_DANGEROUS = re.compile(f"[\x00-\x1f]|{_INVISIBLE}")


def safe_text(text: str) -> str:
    """Make control characters visible instead of letting them act (X3).

    Escape sequences could move the cursor, set the window's title or fake a prompt; a return could overwrite the line;
    direction marks could show text in an order other than its own. Line ends and tabs are kept.
    """
    return _DANGEROUS.sub(_mark, text.replace("\r\n", "\n"))


def one_line(text: str, limit: int = 200) -> str:
    """Safe text on one line, cut to ``limit`` characters with a sign that it was cut."""
    line = " ".join(safe_text(text[: 8 * limit]).split())
    cut = len(line) > limit or len(text) > 8 * limit
    return line[: limit - 1] + "…" if cut else line


def _mark(found: re.Match[str]) -> str:
    character = found.group()
    if character in _KEPT:
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
