"""Sequence diagrams as Mermaid."""

from __future__ import annotations

import re
from collections.abc import Iterable

from treadle import Event

from .content import LANES, Arrow, Item, Note, Shade, sequence_of

_ARROWS = {"call": "->>", "reply": "-->>", "cut": "--x", "record": "-)", "cancel": "-x"}
_SHADE = "rect rgba(191, 135, 0, 0.18)"
_MEANT = re.compile(r"[#;%{}<>&$`\\\"]")


def sequence_mermaid(events: Iterable[Event], turn: int | None = None) -> str:
    """Draw a session's log as a Mermaid sequence diagram.

    Args:
        events: the log, from its beginning and in order; it may end anywhere, and break any rule.
        turn: draw only this turn.

    Raises:
        MisuseError: the log has no such turn.
    """
    lines = ["sequenceDiagram", *[f"    participant {lane}" for lane in LANES]]
    shaded = False
    for item in sequence_of(events, turn):
        if isinstance(item, Shade):
            if item.begins == shaded:
                continue
            shaded = item.begins
        lines += ["    " + line for line in _lines(item)]
    if shaded:
        lines.append("    end")
    return "\n".join(lines) + "\n"


def _lines(item: Item) -> list[str]:
    match item:
        case Arrow(source=source, dest=dest, manner=manner, text=text):
            return [f"{source}{_ARROWS[manner]}{dest}: {_text(text)}"]
        case Note(lane=None, text=text):
            return [f"Note over {LANES[0]},{LANES[-1]}: {_text(text)}"]
        case Note(lane=lane, text=text):
            return [f"Note over {lane}: {_text(text)}"]
        case Shade(begins=True):
            return [_SHADE, "Note over driver: converging"]
        case _:
            return ["end"]


def _text(text: str) -> str:
    """Text that Mermaid takes for nothing else: what could be syntax is written as its number; it wants some text."""
    return _MEANT.sub(lambda found: f"#{ord(found.group())};", text) or "…"
