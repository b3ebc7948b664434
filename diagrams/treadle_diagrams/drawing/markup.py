"""Text as markup."""

from __future__ import annotations

from xml.sax.saxutils import escape

from treadle.printable import printable


def markup(text: str) -> str:
    """Printable text for HTML and XML, between tags as well as in quotes. (X3)"""
    return escape(printable(text), {'"': "&quot;", "'": "&#39;"})
