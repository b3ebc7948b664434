"""What the page's script needs to know, as JSON that nothing can break out of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from treadle import Event
from treadle.printable import one_line

from ..log.entries import AnyEntry
from ..log.letters import Letter, Mark
from ..log.passages import Reached
from ..log.spans import Span
from ..log.summary import ROOM, summary


def page_data(
    events: Sequence[Event],
    entries: Sequence[AnyEntry],
    spans: Sequence[Span],
    letters: Sequence[Letter],
    reached: Sequence[Reached],
) -> str:
    """Everything that changes while the page is scrubbed; times in milliseconds since the first event."""
    start = events[0].time if events else 0
    types = list(dict.fromkeys([entry.type for entry in events]))
    numbers = {name: number for number, name in enumerate(types)}
    told: dict[int, list[AnyEntry]] = {}
    for entry in entries:
        told.setdefault(entry.seq, []).append(entry)
    data = {
        "start": start,
        "first": events[0].seq if events else 0,
        "types": types,
        "events": [[entry.time - start, numbers[entry.type]] for entry in events],
        "summaries": {entry.seq: text for entry in events if (text := summary(entry, told.get(entry.seq, ())))},
        "states": [[at.seq, at.state.value, _key(at)] for at in reached],
        "spans": [span_data(span, start) for span in spans],
        "letters": [letter_data(letter, start) for letter in letters],
    }
    return embedded(data)


def _mark(at: Mark | None, start: int) -> list[int] | None:
    return None if at is None else [at.seq, at.time - start]


def span_data(span: Span, start: int) -> list[Any]:
    """Kind, label, begin, end, turn, outcome, time of the first piece."""
    first = None if span.first is None else span.first - start
    begin, end = _mark(span.begin, start), _mark(span.end, start)
    return [span.kind, one_line(span.label, ROOM), begin, end, span.turn, one_line(span.outcome, ROOM), first]


def letter_data(letter: Letter, start: int) -> list[Any]:
    """Text, sender, way, fate, acceptance, claim, end, turn."""
    words = [one_line(text, ROOM) for text in (letter.text, letter.sender, letter.way, letter.fate)]
    marks = [_mark(at, start) for at in (letter.accepted, letter.claimed, letter.settled)]
    return [*words, *marks, letter.turn]


def _key(at: Reached) -> str | None:
    return f"{at.passage.state.name}.{at.passage.trigger.name}" if at.passage is not None else None


def embedded(data: Any) -> str:
    """JSON that may stand inside a script element: no markup, no line separators, whatever the data says."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
