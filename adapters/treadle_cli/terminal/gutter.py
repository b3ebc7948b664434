"""A transcript with a margin: who speaks stands left, what is said wraps right of it, word by word."""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from treadle import State
from treadle.printable import printable
from treadle.testing import Row

MARGIN = 9
"""Where the words begin."""

MEANING = 44
"""How far right of that the meaning of a transition begins."""

WIDEST = 96
"""Cells of a line, at most."""

WHO = {"you": "bold green", "model": "bold blue", "tool": "bold magenta", "task": "bold cyan", "log": "bold yellow"}
"""Who may speak, and in which style their name is written."""

STATES = {
    State.IDLE: "green",
    State.ADMISSION: "cyan",
    State.STEP: "blue",
    State.TURN_STOPPING: "magenta",
    State.CANCEL_CONVERGENCE: "yellow",
    State.MAINTENANCE: "bright_cyan",
    State.DISPOSAL: "red",
    State.DISPOSED: "red",
}
"""The colour of each state."""


class Gutter:
    """Writes a transcript to a console.

    Args:
        console: where to.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._column = 0
        self._who: str | None = None

    @property
    def width(self) -> int:
        """How many cells a line has."""
        return max(40, min(self.console.width, WIDEST))

    def heading(self, title: str, what: str = "", number: int | None = None) -> None:
        """Begin an act: its number and title, and one line about what is shown."""
        self.end_line()
        head = Text.assemble(("── ", "dim"), (f"{number} " if number is not None else "", "bold"), (title, "bold"))
        head.append(" " + "─" * max(3, self.width - head.cell_len - 1), style="dim")
        self._print(Text.assemble("\n", head))
        if what:
            self._print(Text(what, style="italic"))
        self._print(Text())

    def say(self, who: str, text: str, style: str = "") -> None:
        """Have someone say a whole text, on lines of its own."""
        self.end_line()
        for word in words_of(text):
            self.word(who, word, style)
        self.end_line()

    def word(self, who: str, word: str, style: str = "") -> None:
        """Have someone go on by a word; it wraps, and who speaks is named when that changes."""
        word = printable(word).replace("\n", " ")
        if who != self._who:
            self.end_line()
            self._emit(Text(f"{who:>{MARGIN - 2}}  ", style=WHO.get(who, "bold")))
            self._who, self._column = who, MARGIN
        elif self._column > MARGIN and self._column + cell_len(word.rstrip()) > self.width:
            self._emit(Text("\n" + " " * MARGIN))
            self._column = MARGIN
        self._emit(Text(word, style=style))
        self._column += cell_len(word)

    def transition(self, row: Row, meaning: str) -> None:
        """Show a transition of the lifecycle and what it means."""
        self.end_line()
        arrow = "↺" if row.source is row.dest else "→"
        line = Text(" " * MARGIN)
        line.append("· ", style="dim")
        line.append(row.source.value, style=STATES[row.source])
        line.append(f" {arrow} ", style="dim")
        if row.source is not row.dest:
            line.append(row.dest.value, style=STATES[row.dest])
            line.append("  ")
        line.append(row.trigger.value, style="bold")
        line.append(" " * max(2, MARGIN + MEANING - line.cell_len))
        line.append(meaning, style="dim")
        self._print(line)

    def end_line(self) -> None:
        """End the line that is open, if one is."""
        if self._column:
            self._emit(Text("\n"))
        self._who, self._column = None, 0

    def _print(self, text: Text) -> None:
        self.console.print(text, soft_wrap=True, highlight=False)

    def _emit(self, text: Text) -> None:
        self.console.print(text, end="", soft_wrap=True, highlight=False)


def words_of(text: str) -> list[str]:
    """Split after each space, so that the parts join to the text."""
    parts = text.split(" ")
    return [part + " " for part in parts[:-1]] + [part for part in parts[-1:] if part]
