"""The transcript of the page as HTML: readable without a script, everything in it escaped (X3)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..drawing.markup import markup
from ..drawing.units import duration
from ..log.entries import (
    Answered,
    AnyEntry,
    Called,
    Dropped,
    Entry,
    Failed,
    Noted,
    Part,
    Prompted,
    Retried,
    Routed,
    Said,
    Settled,
    TurnClosed,
    TurnOpened,
)
from ..log.summary import turn_facts
from ..log.usage import usage_text
from .bars import Bar, bars_svg

LONG = 4_000
"""Text beyond this many characters is folded."""

_WAYS = {"prompt": "", "steering": "steering", "injected": "injected", "context": "context"}


def transcript_html(entries: Sequence[AnyEntry], bars: Mapping[int, Sequence[Bar]]) -> str:
    """The whole transcript.

    Args:
        entries: what is told, in order.
        bars: by turn, what took time in it.
    """
    results = _results_by_call(entries)
    by_seq = {entry.seq: entry for entry in entries}
    inside = {id(result) for result in results.values()}
    ends = {entry.turn: entry for entry in entries if isinstance(entry, TurnClosed)}
    parts: list[str] = []
    open_turn = False
    for entry in entries:
        if isinstance(entry, TurnOpened):
            parts.append("</section>" if open_turn else "")
            parts.append(_turn_head(entry, ends.get(entry.turn), bars.get(entry.turn or 0, ())))
            open_turn = True
        elif isinstance(entry, TurnClosed):
            parts.append(_turn_foot(entry) + ("</section>" if open_turn else ""))
            open_turn = False
        elif isinstance(entry, Called):
            parts.append(_call(entry, results.get(entry.seq)))
        elif isinstance(entry, Said) and entry.stands_for:
            parts.append(_summary(entry, by_seq))
        elif id(entry) not in inside:
            parts.append(_entry(entry))
    return "\n".join([part for part in [*parts, "</section>" if open_turn else ""] if part])


def _results_by_call(entries: Iterable[AnyEntry]) -> dict[int, Settled]:
    """The result of each call, by the seq of the call."""
    calls: dict[str, int] = {}
    found: dict[int, Settled] = {}
    for entry in entries:
        if isinstance(entry, Called):
            calls[entry.call_id] = entry.seq
        elif isinstance(entry, Settled) and entry.call_id in calls:
            found[calls.pop(entry.call_id)] = entry
    return found


# --- turns ------------------------------------------------------------------------------------------------------------


def _turn_head(entry: TurnOpened, end: TurnClosed | None, bars: Sequence[Bar]) -> str:
    facts = "open" if end is None else " · ".join(turn_facts(end))
    ended = "open" if end is None else end.ended
    word = "" if ended in ("completed", "open") else f'<b class="ended">{markup(ended)}</b>'
    return (
        f'<section class="turn {_word(ended)}" data-turn="{entry.turn}"><h2 id="e{entry.seq}" data-seq="{entry.seq}">'
        f'<a href="#e{entry.seq}">turn {entry.turn}</a>{word}<small>{markup(facts)}</small></h2>{bars_svg(bars)}'
    )


def _turn_foot(entry: TurnClosed) -> str:
    return f'<p class="end" id="e{entry.seq}" data-seq="{entry.seq}">{markup(entry.why)}</p>'


# --- entries ----------------------------------------------------------------------------------------------------------


def _entry(entry: AnyEntry) -> str:
    match entry:
        case Said():
            return _said(entry)
        case Answered() | Failed():
            return _answer(entry)
        case Settled():
            return _article(entry, "tool", f"result of {entry.name or entry.call_id}", _result(entry, nested=False))
        case Prompted():
            return _article(entry, "system", "system prompt", text_html(entry.text) or "<p>cleared</p>")
        case Dropped():
            return _line(entry, "dropped", f"{entry.fate}: “{entry.text}”", entry.sender)
        case Retried():
            return _line(
                entry, "wait", f"attempt {entry.attempt} in {entry.delay:.1f} s, after {entry.code}: {entry.why}"
            )
        case Routed():
            tools = f" · tools: {', '.join(entry.tools)}" if entry.tools else ""
            return _line(entry, "route", f"{entry.reason} request to {entry.route or 'no route'}{tools}")
        case Noted():
            return _line(entry, "note", f"{entry.type} {entry.text}")
        case _:
            return ""


def _article(entry: Entry, kind: str, title: str, body: str, *more: str) -> str:
    marks = [*more]
    if entry.replaces is not None:
        first, last = entry.replaces
        marks.append(f"in place of #{first}–{last}")
    tail = "".join([f"<i>{markup(mark)}</i>" for mark in marks if mark])
    return (
        f'<article class="{kind}" id="e{entry.seq}" data-seq="{entry.seq}"><header><b>{markup(title)}</b>{tail}'
        f'<a href="#e{entry.seq}">#{entry.seq}</a></header>{body}</article>'
    )


def _line(entry: Entry, kind: str, text: str, sender: str = "") -> str:
    shown = text if len(text) <= LONG else text[:LONG] + "…"
    who = f"<b>{markup(sender)}</b> " if sender else ""
    return f'<p class="line {kind}" id="e{entry.seq}-{kind}" data-seq="{entry.seq}" dir="auto">{who}{markup(shown)}</p>'


def _said(entry: Said) -> str:
    waited = f"waited {duration(entry.waited)}" if entry.waited and entry.waited >= 100 else ""
    kind = "you" if entry.sender == "you" else "other"
    return _article(entry, f"{kind} {entry.way}", entry.sender, text_html(entry.text), _WAYS[entry.way], waited)


def _summary(entry: Said, by_seq: Mapping[int, AnyEntry]) -> str:
    """What took the place of older entries, which can be opened here, and stand where they were said."""
    old: list[str] = []
    for seq in entry.stands_for or ():
        who, text = _gist(by_seq.get(seq))
        shown = text if len(text) <= LONG else text[:LONG] + "…"
        old.append(f'<p class="line" dir="auto"><a href="#e{seq}">#{seq}</a> <b>{markup(who)}</b> {markup(shown)}</p>')
    opened = f'<details class="old"><summary>what it stands for: {len(old)}</summary>{"".join(old)}</details>'
    return _article(entry, "other summary", entry.sender, text_html(entry.text) + opened)


def _gist(entry: AnyEntry | None) -> tuple[str, str]:
    """Who speaks in an entry, and what is said."""
    match entry:
        case Said():
            return entry.sender, entry.text
        case Answered():
            said = [part.text if part.kind == "text" else f"calls {part.name}" for part in entry.parts
                    if part.kind != "reasoning"]  # fmt: skip
            return "model", "\n".join(said)
        case Settled():
            return entry.name or entry.call_id, entry.text
        case Prompted():
            return "system prompt", entry.text
        case _:
            return "", ""


def _answer(entry: Answered | Failed) -> str:
    body = "".join([_part(part) for part in entry.parts])
    calls = [part.name for part in entry.parts if part.kind == "call"]
    if calls and not body:
        body = f'<p class="line">calls {markup(", ".join(calls))}</p>'
    marks = ["interrupted"] if entry.interrupted else []
    if isinstance(entry, Failed) and not entry.interrupted:
        body = f'<p class="why">{markup(f"{entry.code}: {entry.why}")}</p>' + body
    if isinstance(entry, Answered) and entry.finish not in ("", "stop", "tool-calls"):
        marks.append(entry.finish)
    facts = [f"took {duration(entry.took)}"] if entry.took is not None else []
    if isinstance(entry, Answered) and entry.first is not None and entry.first >= 20:
        facts.append(f"first word after {duration(entry.first)}")
    facts += usage_text(entry.usage)
    foot = f"<footer>{markup(' · '.join(facts))}</footer>" if facts else ""
    kind = ("answer" if isinstance(entry, Answered) else "attempt") + (" cut" if entry.interrupted else "")
    title = "model" if isinstance(entry, Answered) else "model, failed attempt"
    return _article(entry, kind, title, body + foot, *marks)


def _part(part: Part) -> str:
    match part.kind:
        case "reasoning":
            return f"<details><summary>reasoning</summary>{text_html(part.text)}</details>"
        case "call":
            return ""
        case _:
            return text_html(part.text)


# --- tools ------------------------------------------------------------------------------------------------------------


def _call(entry: Called, result: Settled | None) -> str:
    given = text_html(_pretty(entry.arguments), "arguments") if entry.arguments not in ("", "{}") else ""
    body = given + (_result(result, nested=True) if result is not None else "")
    failed = " failed" if result is not None and result.is_error else ""
    took = duration(result.took) if result is not None and result.took is not None else ""
    return _article(entry, f"tool{failed}", entry.name, body, took)


def _result(result: Settled, *, nested: bool) -> str:
    marks = [result.code or "error"] if result.is_error else []
    marks += ["ends the turn"] if result.concludes else []
    head = "".join([f"<i>{markup(mark)}</i>" for mark in marks])
    place = f' id="e{result.seq}" data-seq="{result.seq}"' if nested else ""
    return f'<div class="result{" error" if result.is_error else ""}"{place}>{head}{text_html(result.text)}</div>'


def _pretty(arguments: str) -> str:
    """Arguments of a call, spread over lines where they are JSON of a bearable size."""
    if len(arguments) > LONG:
        return arguments
    try:
        given: Any = json.loads(arguments)
        spread = json.dumps(given, ensure_ascii=False, indent=1)
        return spread if len(spread) > 72 else json.dumps(given, ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments


# --- text -------------------------------------------------------------------------------------------------------------


def text_html(text: str, kind: str = "text") -> str:
    """A text as it is, in its own direction; what is beyond ``LONG`` is folded."""
    if not text.strip():
        return ""
    shown = f'<div class="{kind}" dir="auto">{markup(text[:LONG])}</div>'
    rest = text[LONG:]
    if not rest:
        return shown
    return (
        f'{shown}<details class="long"><summary>{len(rest):,} more characters</summary>'
        f'<div class="{kind}" dir="auto">{markup(rest)}</div></details>'
    )


def _word(tag: str) -> str:
    """A tag as a class name."""
    return "".join([letter if letter.isalnum() and letter.isascii() else "-" for letter in tag])
