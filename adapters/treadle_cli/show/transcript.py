"""A session's transcript on a terminal: who speaks stands left, what is said wraps right of it (X3: all of it escaped)."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from treadle.extensions.usage import Prices, Spent, UsageLedger
from treadle.printable import call_text, one_line, printable
from treadle_diagrams import duration
from treadle_diagrams.log.entries import (
    Answered,
    AnyEntry,
    Called,
    Dropped,
    Failed,
    Noted,
    Prompted,
    Retried,
    Routed,
    Said,
    Settled,
    TurnClosed,
    TurnOpened,
)
from treadle_diagrams.log.summary import turn_facts

from ..prices import cost_text, spent_text
from ..terminal.gutter import MARGIN, WHO, WIDEST

SHORT = 12
"""So many lines of a result are shown, unless all are asked for."""

_WAYS = {"steering": "↪ steering", "injected": "+ injected", "context": "+ context"}


class Transcript:
    """Prints the entries of a transcript, one by one.

    Args:
        console: where to.
        full: show long results and system prompts to their end.
        prices: by the model's name; what a turn cost is shown where they are known.
    """

    def __init__(self, console: Console, *, full: bool = False, prices: Prices | None = None) -> None:
        self.console = console
        self.full = full
        self.prices = prices or {}
        self._open_calls = 0

    def tell(self, entry: AnyEntry) -> None:
        """Print one entry."""
        match entry:
            case TurnOpened():
                self._turn(entry)
            case TurnClosed():
                self._turn_end(entry)
            case Said():
                self._message(entry)
            case Answered():
                self._answer(entry)
            case Failed():
                self._attempt(entry)
            case Called():
                self._call(entry)
            case Settled():
                self._result(entry)
            case _:
                self._aside(entry)

    # --- turns --------------------------------------------------------------------------------------------------------

    def _turn(self, entry: TurnOpened) -> None:
        clock = clock_text(entry.time)
        head = Text.assemble(("── ", "dim"), (f"turn {entry.turn}", "bold"), (f" {clock} ", "dim"))
        head.append("─" * max(3, self._width - head.cell_len), style="dim")
        self._print(Text())
        self._print(head)

    def _turn_end(self, entry: TurnClosed) -> None:
        good = entry.ended == "completed"
        facts = turn_facts(entry)
        cost = Spent(reported=entry.by_model).cost(self.prices)
        facts += [f"cost {cost_text(cost)}"] if cost is not None else []
        line = Text.assemble(
            (one_line(entry.why, 600), "green" if good else "yellow"), (f" · {' · '.join(facts)}", "dim")
        )
        self._say("■" if not good else "✓", line, "green" if good else "yellow")
        self._open_calls = 0

    def total(self, used: UsageLedger) -> None:
        """Print what the whole session used."""
        if not used.tree.attempts:
            return
        self._print(Text())
        self._say("Σ", Text(one_line(f"session: {spent_text(used.own, self.prices)}", 600), "dim"), "dim")
        if used.below.attempts:
            for whose, spent in (("sub-agents", used.below), ("together", used.tree)):
                self._say("", Text(one_line(f"{whose}: {spent_text(spent, self.prices)}", 600), "dim"))

    # --- who speaks ---------------------------------------------------------------------------------------------------

    def _message(self, entry: Said) -> None:
        head = Text()
        if entry.stands_for:
            head.append(f"{_stands_for(entry.stands_for)}\n", style="green")
        elif entry.way in _WAYS:
            waited = f", waited {duration(entry.waited)}" if entry.waited and entry.waited >= 100 else ""
            head.append(f"{_WAYS[entry.way]}{waited}  ", style="green")
        who, _, more = entry.sender.partition(" ")
        if more:
            head.append(f"{one_line(more, 40)}: ", style="dim")
        self._say(one_line(who, MARGIN - 2), head + self._text(entry.text), WHO.get(who, "bold"))

    def _answer(self, entry: Answered) -> None:
        who = "model"
        for part in entry.parts:
            if part.kind == "call" or not part.text.strip():
                continue
            style = "dim italic" if part.kind == "reasoning" else ""
            self._say(who, self._text(part.text, style), WHO["model"])
            who = ""
        if entry.interrupted:
            self._say("", Text("■ interrupted here", "yellow"))
        elif entry.finish not in ("", "stop", "tool-calls"):
            self._say("", Text(f"▲ {one_line(entry.finish, 60)}", "yellow"))

    def _attempt(self, entry: Failed) -> None:
        why = "■ interrupted before anything was kept" if entry.interrupted else f"✗ {entry.code}: {entry.why}"
        self._say("model", Text(one_line(why, 600), "yellow" if entry.interrupted else "red"), WHO["model"])
        for part in entry.parts:
            if part.text.strip():
                self._say("", self._text(part.text, "dim"))

    # --- tools --------------------------------------------------------------------------------------------------------

    def _call(self, entry: Called) -> None:
        self._open_calls += 1
        shown = call_text(entry.name, entry.arguments, 4_000 if self.full else 300)
        self._say("⚙", Text(one_line(shown, 4_000), "magenta"), "magenta")

    def _result(self, entry: Settled) -> None:
        line = Text()
        if self._open_calls != 1:
            line.append(f"{one_line(entry.name or entry.call_id, 60)}: ", style="magenta")
        if entry.is_error:
            line.append(f"{one_line(entry.code or 'error', 60)}: ", style="bold red")
        line += self._text(self._cut(entry.text), "red" if entry.is_error else "dim")
        if entry.took is not None and entry.took >= 20:
            line.append(f"  {duration(entry.took)}", style="dim")
        if entry.concludes:
            line.append("  ends the turn", style="yellow")
        self._say("↳", line, "magenta")
        self._open_calls = max(0, self._open_calls - 1)

    # --- the rest -----------------------------------------------------------------------------------------------------

    def _aside(self, entry: Prompted | Routed | Retried | Dropped | Noted) -> None:
        match entry:
            case Prompted(text=text):
                self._say("system", self._text(self._cut(text) or "(cleared)", "dim"), "dim bold")
            case Routed():
                tools = f", tools: {', '.join(entry.tools)}" if entry.tools else ""
                self._say("→", Text(one_line(f"{entry.route or 'no route'}{tools}", 600), "dim"), "dim")
            case Retried():
                self._say("", Text(f"… attempt {entry.attempt} follows in {entry.delay:.1f} s", "yellow"))
            case Dropped():
                self._say("", Text(f"{one_line(entry.fate, 60)}: “{one_line(entry.text, 200)}”", "yellow"))
            case Noted():
                self._say("·", Text(one_line(f"{entry.type} {entry.text}", 600), "dim"), "dim")

    # --- lines --------------------------------------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return max(40, min(self.console.width, WIDEST))

    def _text(self, text: str, style: str = "") -> Text:
        return Text(printable(text).strip("\n"), style=style)

    def _cut(self, text: str) -> str:
        """The beginning of a text, and how much more there is."""
        if self.full:
            return text
        lines = text.strip("\n").split("\n", SHORT)
        rest = lines[SHORT] if len(lines) > SHORT else ""
        shown = "\n".join(lines[:SHORT])
        if len(shown) > 2_000:
            shown, rest = shown[:2_000], shown[2_000:] + rest
        return f"{shown}\n… {len(rest):,} more characters (--full)" if rest else shown

    def _say(self, who: str, text: Text, style: str = "bold") -> None:
        """Lines with a margin; they are wrapped for people, and left whole for other programs."""
        text.expand_tabs(4)
        if self.console.is_terminal:
            lines = list(text.wrap(self.console, self._width - MARGIN))
        else:
            lines = list(text.split("\n", allow_blank=True))
        for number, line in enumerate(lines or [Text()]):
            margin = f"{who:>{MARGIN - 2}}  " if number == 0 else " " * MARGIN
            self._print(Text.assemble((margin, style), line))

    def _print(self, line: Text) -> None:
        line.rstrip()
        self.console.print(line, soft_wrap=True, highlight=False, markup=False, emoji=False)


def _stands_for(seqs: tuple[int, ...]) -> str:
    """What gave way to a message, by the numbers of the events: they are all still in the log."""
    if len(seqs) == 1:
        return f"⤺ in place of event {seqs[0]}"
    return f"⤺ in place of {len(seqs)} events, from {min(seqs)} to {max(seqs)}"


def clock_text(time: int) -> str:
    """Milliseconds since the epoch as a time of day, in UTC."""
    if not 0 <= time < 1 << 47:
        return str(time)
    return datetime.fromtimestamp(time / 1000, UTC).strftime("%H:%M:%S")
