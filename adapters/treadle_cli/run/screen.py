"""Where a conversation is shown: a stream of words, notes between them, and the line being typed below."""

from __future__ import annotations

from collections.abc import Callable

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from treadle.printable import printable

PROMPT = "› "
ERASE = "\r\x1b[K"


class Screen:
    """Shows a conversation. What it is given may come from models and tools: it is made safe here (X3).

    While a line is being typed, output waits; it is shown once the line was entered or taken back.

    Args:
        answers: where the model's words go.
        notes: where everything else goes; the same console in a conversation, stderr for a single prompt.
        edits: whether the typed line is drawn here.
        echoed: whether the terminal echoes what is typed, so that an entered line is there already.
    """

    def __init__(self, answers: Console, notes: Console, *, edits: bool = False, echoed: bool = False) -> None:
        self.answers = answers
        self.notes = notes
        self.edits = edits
        self.echoed = echoed
        self._kind = ""
        self._at_start = True
        self._typed = ""
        self._asking = False
        self._drawn = False
        self._waiting: list[Callable[[], None]] = []

    # --- what is shown ------------------------------------------------------------------------------------------------

    def answer(self, text: str) -> None:
        """Go on with the model's answer."""
        self._put(lambda: self._stream("answer", text, ""))

    def thought(self, text: str) -> None:
        """Go on with the model's reasoning."""
        self._put(lambda: self._stream("thought", text, "dim italic"))

    def note(self, *parts: str | tuple[str, str]) -> None:
        """Show a line of its own; parts are texts, or texts with a style."""
        line = Text.assemble(*[(printable(part), "") if isinstance(part, str) else _safe(part) for part in parts])

        def show() -> None:
            self._end_line()
            self._print(self.notes, line, "\n")

        self._put(show)

    def end_line(self) -> None:
        """End the line that is open, if one is."""
        self._put(self._end_line)

    def _stream(self, kind: str, text: str, style: str) -> None:
        if kind != self._kind:
            self._end_line()
            text = text.lstrip("\n")
            if not text:
                return
            self._kind = kind
        self._print(self._console(kind), Text(printable(text), style=style), "")
        self._at_start = text.endswith("\n")

    def _end_line(self) -> None:
        if self._kind and not self._at_start:
            self._print(self._console(self._kind), Text(), "\n")
        self._kind, self._at_start = "", True

    def _console(self, kind: str) -> Console:
        return self.answers if kind == "answer" else self.notes

    def _print(self, console: Console, text: Text, end: str) -> None:
        if text.spans or text.style:
            console.print(text, end=end, soft_wrap=True, highlight=False)
        else:  # most words of an answer have no style, and there may be very many
            self._raw(console, text.plain + end)

    def _put(self, show: Callable[[], None]) -> None:
        if self._typed:
            self._waiting.append(show)
            return
        self._wipe()
        show()
        if self._asking:
            self._draw()

    # --- the line being typed -----------------------------------------------------------------------------------------

    def ask(self, asking: bool) -> None:
        """Show the prompt while nothing is under way, or stop showing it."""
        self._asking = asking
        if asking:
            self._draw()
        elif not self._typed:
            self._wipe()

    def typing(self, text: str) -> None:
        """The line being typed has changed."""
        self._typed = text
        if text or self._asking:
            self._draw()
        else:
            self._wipe()
        if not text:
            self._release()

    def entered(self, text: str) -> None:
        """A line was entered: it stays as it is, and what waited is shown."""
        self._typed = text
        if not self.echoed:
            self._draw(whole=True)
            self._raw(self.answers, "\n")
        self._typed, self._drawn = "", False
        self._release()

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for show in waiting:
            self._put(show)

    def _draw(self, *, whole: bool = False) -> None:
        if not whole and not self.edits and (not self.echoed or self._drawn):
            return
        if not self._drawn:
            self._end_line()
        text = printable(self._typed)
        room = max(8, self.answers.width - cell_len(PROMPT) - 1)
        if not whole and cell_len(text) > room:
            text = "…" + set_cell_size(text[::-1], room - 1)[::-1]
        if self._drawn and self.edits:
            self._raw(self.answers, ERASE)
        self._print(self.answers, Text.assemble((PROMPT, "bold green"), text), "")
        self._drawn = True

    def _wipe(self) -> None:
        if self._drawn:
            self._raw(self.answers, ERASE if self.edits else "\n")
            self._drawn = False

    def _raw(self, console: Console, text: str) -> None:
        console.file.write(text)
        console.file.flush()


def _safe(part: tuple[str, str]) -> tuple[str, str]:
    return printable(part[0]), part[1]
