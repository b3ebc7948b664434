"""What a checkpoint keeps of a log: all that is derived of its events, at a point outside any turn (S11).

It is written as lines of JSON, each of them short, so that neither writing nor reading one holds up other threads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..errors import InvalidData
from ..kernel.pending import Entry
from ..session.log import Session
from ..session.repair import EndOfLog
from ..session.surface import Node
from ..sums import ENCODER, decode_hook
from ..words.events import RequestContext, RequestHeader, Target, type_named
from ..words.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, UserMessage
from .monitor import LogMonitor
from .state import Breach

NAMES, NODES = 5_000, 500
"""How many ids, and how many nodes, stand on one line."""
TARGETS: tuple[Target, ...] = ("next-turn", "next-step")
T = TypeVar("T")


class _Head(msgspec.Struct, frozen=True, gc=False, tag="head"):
    """Counts, and what the last events of their kind said.

    ``version``: the code that made it; ``types``: the event types that occur, as they are known.
    """

    version: str
    count: int
    turn: int
    inherited: int
    types: dict[str, str]
    preset: str | None
    not_resumed: tuple[str, str, int] | None
    header: RequestHeader | None
    context: RequestContext | None


class _Pending(msgspec.Struct, frozen=True, gc=False, tag="pending"):
    """What one list of the inbox holds."""

    target: Target
    messages: tuple[UserMessage, ...]


class _Names(msgspec.Struct, frozen=True, gc=False, tag="names"):
    """Some of the ids that were used: of recorded messages, of calls, of attempts."""

    of: str
    ids: tuple[str, ...]


class _Node(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A node of the surface: its number, and the message by its kind."""

    seq: int
    user: UserMessage | None = None
    assistant: AssistantMessage | None = None
    result: ToolResultMessage | None = None
    system: SystemMessage | None = None
    of_system: bool = False


class _Nodes(msgspec.Struct, frozen=True, gc=False, tag="nodes"):
    """Some of the nodes, in their order."""

    nodes: tuple[_Node, ...]


_DECODER = msgspec.json.Decoder(_Head | _Pending | _Names | _Nodes, dec_hook=decode_hook)


def state_of(session: Session, end: EndOfLog, monitor: LogMonitor, types: Iterable[str]) -> list[bytes]:
    """The lines of a checkpoint of a sound log that ends outside a turn.

    Args:
        session: the session that the log gives.
        end: what followed the log.
        monitor: what checked it.
        types: the types of its events.
    """
    log = monitor.log
    stray = log.not_resumed
    head = _Head(
        code(),
        len(session),
        log.turn.number,
        log.inherited,
        {tag: known_as(tag) for tag in types},
        session.preset,
        None if stray is None else (stray.rule, stray.message, stray.seq),
        log.header,
        log.context,
    )
    parts: list[Any] = [head]
    parts += [_Pending(target, _messages(end.inbox.list_of(target))) for target in TARGETS]
    for of, ids in (("recorded", session.recorded), ("calls", session.call_ids), ("attempts", log.attempt_ids)):
        parts += [_Names(of, tuple(some)) for some in _pieces(ids, NAMES)]
    lines = [ENCODER.encode(part) for part in parts]
    lines += [ENCODER.encode(_Nodes(tuple(map(_written, some)))) for some in _pieces(session.surface.nodes, NODES)]
    return lines


def restore(lines: Sequence[bytes], session: Session, end: EndOfLog, monitor: LogMonitor) -> dict[str, str] | None:
    """Put what a checkpoint says into an empty session, an empty end and an empty monitor.

    Returns:
        The types of the events that it stands for; ``None`` where it is of no use here: of another version, not
        understood, or of events that are understood otherwise by now. What was put in is worth nothing then.
    """
    log, head = monitor.log, None
    nodes = session.surface.nodes
    try:
        for line in lines:
            part = _DECODER.decode(line)
            match part:
                case _Nodes():
                    nodes += map(_read, part.nodes)
                case _Names():
                    _NAMED[part.of](session, log, part.ids)
                case _Pending():
                    end.inbox.splice(part.target, 0, 0, map(Entry, part.messages))
                    log.lists[part.target] = list(part.messages)
                    log.pending |= {message.id for message in part.messages}
                case _Head():
                    head = part
    except (msgspec.MsgspecError, UnicodeDecodeError, InvalidData, KeyError, RecursionError):
        return None
    if head is None or head.version != code() or any([known_as(tag) != said for tag, said in head.types.items()]):
        return None
    session.base, session.preset = head.count, head.preset
    surface = session.surface
    surface.messages = [node.message for node in nodes if node.message is not None]
    surface.system = tuple([node for node in nodes if node.system])
    end.begin(head.turn, head.header, head.context)
    log.seq, log.inherited, log.turn.number = head.count, head.inherited, head.turn
    log.header, log.context = head.header, head.context
    log.not_resumed = None if head.not_resumed is None else Breach(*head.not_resumed)
    log.nodes = [(node.seq, node.message) for node in nodes]
    log.history = list(surface.messages)
    return head.types


_NAMED: dict[str, Callable[[Session, Any, tuple[str, ...]], None]] = {
    "recorded": lambda session, log, ids: (session.recorded.update(dict.fromkeys(ids)), log.recorded.update(ids))[0],
    "calls": lambda session, log, ids: (session.call_ids.update(dict.fromkeys(ids)), log.call_ids.update(ids))[0],
    "attempts": lambda _, log, ids: log.attempt_ids.update(ids),
}


@cache
def code() -> str:
    """What tells the code that derives and checks apart from that of other versions: its digest."""
    digest = hashlib.sha256()
    core = Path(__file__).parent.parent
    for room in ("checks", "session", "kernel", "words"):
        for path in sorted((core / room).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def known_as(tag: str) -> str:
    """How an event type is known in this process: events that were read by another shape of it are read anew."""
    known = type_named(tag)
    if known is None:
        return "opaque"
    fields = [f"{field.name}:{field.type}:{field.required}" for field in msgspec.structs.fields(known.data)]
    return f"{known.surface} {known.since} {' '.join(fields)}"


def _messages(entries: Iterable[Entry]) -> tuple[UserMessage, ...]:
    return tuple([entry.message for entry in entries])


def _written(node: Node) -> _Node:
    message = node.message
    if type(message) is UserMessage:
        return _Node(node.seq, user=message)
    if type(message) is AssistantMessage:
        return _Node(node.seq, assistant=message)
    if type(message) is ToolResultMessage:
        return _Node(node.seq, result=message)
    return _Node(node.seq, system=message if type(message) is SystemMessage else None, of_system=node.system)


def _read(node: _Node) -> Node:
    message: Message | None = node.user or node.assistant or node.result or node.system
    return Node(node.seq, message, node.of_system)


def _pieces(items: Iterable[T], length: int) -> Iterator[list[T]]:
    left = iter(items)
    while piece := list(islice(left, length)):
        yield piece
