"""Reads the end of a session's log, or what lies before some event, without what lies before that."""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import msgspec

from treadle import Event, SessionCorrupt, TreadleError
from treadle.session import InboxSpliced, TurnEnd, TurnStart

from .file import LineReader, SessionFile

MOST = 1 << 26
"""So many bytes at most are looked at for a place to begin."""
WIDER = 2
"""So many times more is read for a place that needs nothing of what precedes."""
_LOOK = 1 << 16


class _Numbered(msgspec.Struct):
    seq: int


_NUMBERED = msgspec.json.Decoder(_Numbered)


def read_end(path: Path, size: int, before: int | None = None, text: bytes | None = None) -> SessionFile:
    """Read the last events of a session's file, from a place on where a turn begins.

    Args:
        path: the file.
        size: about how many bytes of it are read.
        before: the number of the first event behind what is read; the end of the log unless given.
        text: what the file holds, where that is compressed.

    Raises:
        SessionCorrupt: the header cannot be read, or the beginning of what is read.
        SessionFormatUnsupported: it is in another format (P5).
        OSError: the file cannot be read.
    """
    with path.open("rb") if text is None else BytesIO(text) as file:
        reader = LineReader(path)
        first_line = file.readline()
        reader.take(first_line)
        if reader.header is None:
            reader.finish()
            raise SessionCorrupt("the file has no header line", path=str(path), line=1)
        begin, end = len(first_line), file.seek(0, os.SEEK_END)
        stop = end if before is None else _place_of(file, before, begin, end)
        wider = 0
        while True:
            start = _line_from(file, max(begin, stop - size), begin)
            session = _read(file, reader, start, stop, whole=stop == end)
            if start == begin:
                return session
            at = _beginning(session.events, any_turn=wider >= WIDER)
            if at is not None or size > MOST:
                at = at or 0
                return SessionFile(path, session.header, session.events[at:], session.torn, session.damage)
            size, wider = size * 4, wider + 1


def _read(file: BinaryIO, head: LineReader, start: int, stop: int, *, whole: bool) -> SessionFile:
    file.seek(start)
    data = file.read(stop - start)
    number = _number(data.partition(b"\n")[0]) or 0
    reader = head.at(number)
    torn, damage, events = None, None, list[Event]()
    try:
        events += reader.take(data)
        torn = reader.finish() if whole else None
    except TreadleError as error:
        damage = error
    events += reader.taken()
    assert head.header is not None
    return SessionFile(head.path, head.header, tuple(events), torn, damage)


def _beginning(events: Sequence[Event], *, any_turn: bool) -> int | None:
    """Where what precedes is needed least: a message comes into an empty list between two turns, or any turn begins."""
    last: Event | None = None
    turn: int | None = None
    for index, entry in enumerate(events):
        data = entry.data
        if isinstance(data, InboxSpliced):
            into_empty = data.inserted and not data.start and not data.removed_count
            if into_empty and last is not None and isinstance(last.data, TurnEnd):
                return index
        elif turn is None and isinstance(data, TurnStart):
            turn = index
        last = entry
    return turn if any_turn else None


def _place_of(file: BinaryIO, seq: int, begin: int, end: int) -> int:
    """Where an event stands, by halving: their numbers grow from line to line."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        at = _line_from(file, middle, begin)
        file.seek(at)
        number = _number(file.readline()) if at < high else None
        if number is None or number >= seq:
            high = middle
        else:
            low = max(at, middle) + 1
    return _line_from(file, low, begin)


def _line_from(file: BinaryIO, position: int, begin: int) -> int:
    """Where the first line begins that does not begin before a position."""
    if position <= begin:
        return begin
    file.seek(position - 1)
    while piece := file.read(_LOOK):
        at = piece.find(b"\n")
        if at >= 0:
            return file.tell() - len(piece) + at + 1
    return file.tell()


def _number(line: bytes) -> int | None:
    try:
        return _NUMBERED.decode(line).seq
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
