"""What is shown of a conversation: a stream of words, and notes between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from treadle.printable import printable

from .wrapping import Wrapper


class Out(Protocol):
    """Where styled text goes: a stream, or the rows above the line that is being typed."""

    def write(self, text: Text) -> None:
        """Go on with a text, which has its line ends in it; never blocks on a person, never raises ``OSError``."""
        ...


class Stream:
    """Writes to a stream: as it is, or in whole words when it is a terminal.

    Args:
        console: the stream.
        lost: told once that nothing more can be written, and why.

    Attributes:
        failure: why not.
    """

    def __init__(self, console: Console, lost: Callable[[OSError], None]) -> None:
        self.console = console
        self.failure: OSError | None = None
        self._lost = lost
        self._wrapper = Wrapper()

    def write(self, text: Text) -> None:
        """See ``Out``; what cannot be written is dropped, and ``lost`` told."""
        if self.failure is not None:
            return
        try:
            if self.console.is_terminal:
                self._wrap(text)
            else:
                self.console.file.write(text.plain)
            self.console.file.flush()
        except OSError as error:
            self.failure = error
            self._lost(error)

    def _wrap(self, text: Text) -> None:
        """Write rows; the begin of a word that turns out to be too long for its row is taken back."""
        width = self.console.width - 1
        shown = self._wrapper.row.plain
        rows = [*self._wrapper.take(text, width), self._wrapper.row]
        kept = min(len(shown), len(rows[0]))  # either is the begin of the other
        back = cell_len(shown[kept:])
        self.console.file.write("\b" * back + " " * back + "\b" * back)
        rows[0] = rows[0][kept:] if kept < len(rows[0]) else Text()
        self.console.print(Text("\n").join(rows), end="", soft_wrap=True, highlight=False)


class Screen:
    """Shows a conversation. What it is given may come from models and tools: it is made safe here (X3).

    Args:
        answers: where the model's words go.
        notes: where everything else goes.
        spaced: whether an empty row stands between turns.
    """

    def __init__(self, answers: Out, notes: Out, *, spaced: bool = False) -> None:
        self.spaced = spaced
        self._answers = answers
        self._notes = notes
        self._open: Out | None = None
        self._kind = ""

    def answer(self, text: str) -> None:
        """Go on with the model's answer."""
        self._stream("answer", self._answers, text, "")

    def thought(self, text: str) -> None:
        """Go on with the model's reasoning."""
        self._stream("thought", self._notes, text, "dim italic")

    def output(self, text: str) -> None:
        """Go on with what a running tool puts out."""
        self._stream("output", self._notes, text, "dim")

    def note(self, *parts: str | tuple[str, str]) -> None:
        """Show a line of its own; parts are texts, or texts with a style."""
        self.end_line()
        pairs = [(part, "") if isinstance(part, str) else part for part in parts]
        self._notes.write(Text.assemble(*[(printable(text), style) for text, style in pairs], "\n"))

    def end_line(self) -> None:
        """End the line that is open, if one is."""
        if self._open is not None:
            self._open.write(Text("\n"))
        self._open, self._kind = None, ""

    def end_turn(self) -> None:
        """Show that a turn is over."""
        self.end_line()
        if self.spaced:
            self._notes.write(Text("\n"))

    def _stream(self, kind: str, out: Out, text: str, style: str) -> None:
        if kind != self._kind:
            text = text.lstrip("\n")
            if not text:
                return
            self.end_line()
            self._kind = kind
        elif not text:
            return
        out.write(Text(printable(text), style=style))
        self._open = None if text.endswith("\n") else out
