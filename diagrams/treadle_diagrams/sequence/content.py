"""Who told whom what, read from a session's log: the content of a sequence diagram, without any place on paper.

What the log does not tell is not drawn: a hook is seen where it changed something, a cancel where its first trace is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from attrs import frozen

from treadle import Aborted, Blocked, ByDisposal, ByHook, ByUser, Cause, Event, MisuseError
from treadle.printable import call_text, one_line
from treadle.session import InboxSpliced, RequestHeader, StepStart, ToolCallStarted, ToolResultAdded, TurnEnd, TurnStart

from ..drawing.units import counted, duration
from ..log.clock import steadied
from ..log.entries import Answered, AnyEntry, Failed, Retried, Settled, TurnClosed
from ..log.letters import Letter, Mark, letters_of
from ..log.phrases import blocks_text, route_text, tag_of
from ..log.spans import Span, open_turns_of, spans_of
from ..log.transcript import transcript

Lane = Literal["sender", "inbox", "driver", "hooks", "model", "tools", "log"]
LANES: tuple[Lane, ...] = get_args(Lane)
Manner = Literal["call", "reply", "cut", "record", "cancel"]
"""How an arrow is meant: ``cut`` is an answer or a result that was broken off or failed."""

ROOM = 72
"""How many characters a label has."""


@frozen
class Arrow:
    """Someone tells someone something, at ``time`` milliseconds since the epoch."""

    time: int
    source: Lane
    dest: Lane
    text: str
    manner: Manner = "call"


@frozen
class Note:
    """Something that is said over one lane, or over all of them when a turn begins or ends."""

    time: int
    text: str
    lane: Lane | None = None


@frozen
class Shade:
    """Where a shaded stretch begins or ends: a convergence."""

    time: int
    begins: bool


Item = Arrow | Note | Shade


def sequence_of(events: Iterable[Event], turn: int | None = None) -> list[Item]:
    """The content of a sequence diagram.

    Args:
        events: the log, from its beginning and in order.
        turn: draw only this turn, with the deliveries that it took in.

    Raises:
        MisuseError: the log has no such turn.
    """
    events = steadied(events)
    turns = [entry.data.turn for entry in events if isinstance(entry.data, TurnStart)]
    if turn is not None and turn not in turns:
        has = f"turns {min(turns)} to {max(turns)}" if turns else "no turn at all"
        raise MisuseError(f"the log has no turn {turn}; it has {has}")
    placed = sorted(_placed(events), key=lambda one: one[:2])
    open_turns = open_turns_of(events)
    kept = [one for one in placed if turn is None or turn in (open_turns.get(one.seq), one.turn)]
    return _merged(kept)


class _Placed(NamedTuple):
    """An item and its place: behind which event, and where among the items of that event."""

    seq: int
    rank: int
    item: Item | Event
    turn: int | None = None


_OPENS, _STOPS, _SHADES, _MOVES, _REPLIES, _RECORDS, _CALLS, _ASKS, _CLEARS, _CLOSES = range(10)
"""The order of what one event tells. A record is an event until neighbours are drawn as one arrow."""


def _placed(events: Sequence[Event]) -> Iterator[_Placed]:
    spans = spans_of(events)
    for letter in letters_of(events):
        yield from _moves(letter)
    for entry in transcript(events):
        yield from _work(entry)
    for entry in events:
        yield from _events(entry)
    yield from _calls(events)
    yield from _requests(events, spans)
    yield from _stops(events, spans)


# --- the inbox --------------------------------------------------------------------------------------------------------

_SENDERS: dict[str, Lane] = {"tool": "tools", "hook": "hooks"}
_VERBS = {"prompt": "", "steering": "steer: ", "injected": "inject: ", "context": "context: "}


def _moves(letter: Letter) -> Iterator[_Placed]:
    """What happened to a message before it entered."""
    source = _SENDERS.get(letter.sender.partition(" ")[0], "sender")
    said = one_line(letter.text, ROOM - 12)
    moves: list[tuple[Mark | None, Item]] = []

    def move(mark: Mark | None, make: Item) -> None:
        moves.append((mark, make))

    at = letter.accepted
    move(at, Arrow(at.time, source, "inbox", f"{_VERBS[letter.way]}“{said}”"))
    for change in letter.changes:
        move(change, Note(change.time, f"changed: “{said}”", "inbox"))
    if letter.claimed is not None:
        move(letter.claimed, Arrow(letter.claimed.time, "inbox", "driver", f"claim “{said}”"))
    if letter.settled is not None and letter.fate == "discarded":
        move(letter.settled, Note(letter.settled.time, f"dropped: “{said}”", "inbox"))
    if letter.settled is not None and letter.fate == "left out":
        move(letter.settled, Arrow(letter.settled.time, "hooks", "driver", f"leaves out “{said}”"))
    for mark, item in moves:
        if mark is not None:
            yield _Placed(mark.seq, _MOVES, item, letter.turn)


# --- model, tools and hooks -------------------------------------------------------------------------------------------

_DENIED = {"DENIED", "NOT_APPROVED"}
_NOT_RUN = _DENIED | {"ABORTED_BEFORE_DISPATCH", "INVALID_ARGUMENTS", "TOOL_NOT_STARTED", "UNKNOWN_TOOL"}


def _work(entry: AnyEntry) -> Iterator[_Placed]:
    """Answers, results, waits and ends of turns."""
    time = entry.time
    match entry:
        case Answered():
            manner: Manner = "cut" if entry.interrupted else "reply"
            yield _Placed(entry.seq, _REPLIES, Arrow(time, "model", "driver", _answer(entry), manner))
        case Failed():
            why = "interrupted before anything was said" if entry.interrupted else f"{entry.code}: {entry.why}"
            yield _Placed(entry.seq, _REPLIES, Arrow(time, "model", "driver", one_line(why, ROOM), "cut"))
        case Settled():
            yield _Placed(entry.seq, _REPLIES, _result(entry))
        case Retried():
            text = f"waits {entry.delay:.1f} s, then attempt {entry.attempt}"
            yield _Placed(entry.seq, _CALLS, Note(time, text, "driver"))
        case TurnClosed():
            yield _Placed(entry.seq, _CLOSES, Note(time, _ended(entry)))
        case _:
            pass


def _answer(entry: Answered) -> str:
    said = " ".join([part.text for part in entry.parts if part.kind == "text"])
    calls = [part.name for part in entry.parts if part.kind == "call"]
    pieces = [f"“{one_line(said, ROOM - 24)}”"] if said.strip() else []
    pieces += [f"calls {', '.join(calls)}"] if calls else []
    pieces += ["interrupted"] if entry.interrupted else []
    return one_line(" · ".join(pieces) or "nothing", ROOM)


def _result(entry: Settled) -> Item:
    name = entry.name or entry.call_id
    if entry.code in _NOT_RUN:
        text = one_line(f"{name} is not run: {entry.code}", ROOM)
        return (
            Arrow(entry.time, "hooks", "driver", text, "cut")
            if entry.code in _DENIED
            else Note(entry.time, text, "driver")
        )
    text = f"{entry.code or 'error'}: {entry.text}" if entry.is_error else entry.text
    return Arrow(entry.time, "tools", "driver", one_line(text, ROOM) or "nothing", "cut" if entry.is_error else "reply")


def _ended(entry: TurnClosed) -> str:
    told = [one_line(f"turn {entry.turn}: {entry.why}", ROOM), counted(entry.steps, "step")]
    return " · ".join([*told, duration(entry.took)] if entry.took is not None else told)


def _events(entry: Event) -> Iterator[_Placed]:
    """What single events tell: that they were recorded, that a turn began, that a hook took part."""
    match entry.data:
        case InboxSpliced():
            return
        case TurnStart(turn=turn):
            yield _Placed(entry.seq, _OPENS, Note(entry.time, f"turn {turn}"))
        case StepStart(amended=amended) if amended:
            said = one_line("adds or changes: " + ", ".join([f"“{blocks_text(one.content)}”" for one in amended]), ROOM)
            yield _Placed(entry.seq, _REPLIES, Arrow(entry.time, "hooks", "driver", said))
        case TurnEnd(reason=Blocked(detail=detail)):
            said = one_line(f"block: {detail}" if detail else "reject the step", ROOM)
            yield _Placed(entry.seq, _REPLIES, Arrow(entry.time, "hooks", "driver", said, "cut"))
        case _:
            pass
    yield _Placed(entry.seq, _RECORDS, entry)


def _calls(events: Sequence[Event]) -> Iterator[_Placed]:
    """The calls whose tools ran, or at least began to."""
    codes = {entry.data.call_id: entry.data.code for entry in events if isinstance(entry.data, ToolResultAdded)}
    for entry in events:
        if isinstance(entry.data, ToolCallStarted) and codes.get(entry.data.call_id) not in _NOT_RUN:
            text = call_text(entry.data.name, entry.data.arguments, ROOM)
            yield _Placed(entry.seq, _CALLS, Arrow(entry.time, "driver", "tools", text))


def _requests(events: Sequence[Event], spans: Iterable[Span]) -> Iterator[_Placed]:
    routes = [(entry.seq, entry.data.config) for entry in events if isinstance(entry.data, RequestHeader)]
    for span in spans:
        if span.kind != "attempt":
            continue
        while len(routes) > 1 and routes[1][0] <= span.begin.seq:
            routes.pop(0)
        config = routes[0][1] if routes and routes[0][0] <= span.begin.seq else None
        route = route_text(config.provider, config.model) if config is not None else ""
        again = "" if span.label == "model" else f" · {span.label}"
        text = one_line(f"request {route}{again}", ROOM)
        yield _Placed(span.begin.seq, _ASKS, Arrow(span.begin.time, "driver", "model", text))


# --- stops ------------------------------------------------------------------------------------------------------------


def _stops(events: Sequence[Event], spans: Iterable[Span]) -> Iterator[_Placed]:
    """Cancels, and what is shaded until they have converged."""
    ends = {entry.data.turn: entry.data.reason for entry in events if isinstance(entry.data, TurnEnd)}
    for span in spans:
        if span.kind != "cancel":
            continue
        reason = ends.get(span.turn) if span.turn is not None else None
        cause = reason.reason if isinstance(reason, Aborted) else None
        yield _Placed(span.begin.seq, _STOPS, _cancel(span.begin.time, cause))
        yield _Placed(span.begin.seq, _SHADES, Shade(span.begin.time, True))
        if span.end is not None:
            yield _Placed(span.end.seq, _CLEARS, Shade(span.end.time, False))


def _cancel(time: int, cause: Cause | None) -> Arrow:
    match cause:
        case ByHook(reason=reason):
            return Arrow(time, "hooks", "driver", one_line(f"cancel: {reason}", ROOM), "cancel")
        case ByDisposal():
            return Arrow(time, "sender", "driver", "dispose", "cancel")
        case None | ByUser():
            return Arrow(time, "sender", "driver", "cancel", "cancel")
        case _:
            return Arrow(time, "sender", "driver", one_line(f"cancel, by {tag_of(cause)}", ROOM), "cancel")


# --- the log ----------------------------------------------------------------------------------------------------------


def _merged(placed: Iterable[_Placed]) -> list[Item]:
    """Draw events that were recorded without anything between them as one arrow to the log."""
    items: list[Item] = []
    waiting: list[Event] = []

    def write() -> None:
        if waiting:
            items.append(Arrow(waiting[-1].time, "driver", "log", _recorded(waiting), "record"))
            waiting.clear()

    for one in placed:
        if isinstance(one.item, Event):
            waiting.append(one.item)
            continue
        write()
        items.append(one.item)
    write()
    return items


def _recorded(entries: Sequence[Event]) -> str:
    first, last = entries[0].seq, entries[-1].seq
    seqs = f"#{first}" if first == last else f"#{first}–{last}"
    return one_line(f"{seqs} {', '.join(dict.fromkeys([entry.type for entry in entries]))}", ROOM)
