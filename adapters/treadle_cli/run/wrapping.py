"""Rows of a terminal, made from text that comes in pieces: broken between words, wide characters counted."""

from __future__ import annotations

from rich.cells import cell_len, get_character_cell_size
from rich.text import Text

NARROWEST = 8
"""Cells of a row, at least: a narrower terminal breaks the rest itself."""
TAB = 4
"""Cells from one tab stop to the next."""


class Wrapper:
    """Wraps a stream. What may still be gone on with stays in ``row``.

    Attributes:
        row: the unfinished row, as it came: spaces at its end count once a word follows them.
    """

    def __init__(self) -> None:
        self.row = Text()

    def take(self, text: Text, width: int) -> list[Text]:
        """Go on with ``text``; returns the rows that it completes, each at most ``width`` cells wide."""
        text = self.row + text
        text.expand_tabs(TAB)
        *rows, self.row = rows_of(text, width)
        return [_trimmed(row) for row in rows]

    def shown(self, width: int) -> list[Text]:
        """The unfinished row as it is shown now; several when the terminal has become narrower."""
        *rows, last = rows_of(self.row, width)
        return [*[_trimmed(row) for row in rows], last if last.cell_len <= width else _trimmed(last)]


def rows_of(text: Text, width: int) -> list[Text]:
    """Break a text into rows at line ends and between words; a word that is wider than a row is broken, too.

    A space at which a row was broken stays at its end.
    """
    rows: list[Text] = []
    for line in text.split("\n", allow_blank=True) or [Text()]:
        rows += line.divide(_breaks(line.plain, max(NARROWEST, width)))
    return rows


def _breaks(line: str, width: int) -> list[int]:
    """Where a line is broken."""
    if cell_len(line) <= width:
        return []
    breaks: list[int] = []
    start = cells = gap = 0
    for at, character in enumerate(line):
        size = get_character_cell_size(character)
        if cells + size > width and character != " ":
            start = gap if gap > start else at
            breaks.append(start)
            cells = cell_len(line[start:at])
        cells += size
        if character == " ":
            gap = at + 1
    return breaks


def _trimmed(row: Text) -> Text:
    row = row.copy()
    row.rstrip()
    return row
