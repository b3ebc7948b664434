"""Reads a session file into an intake: from its checkpoint on where that holds, else from its beginning (S11)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from attrs import define

from treadle import Event, SessionCorrupt, TreadleError
from treadle.session import Intake, TornTail, is_blank

from .checkpoints import Chain, Checkpoint, Places, agrees, read_checkpoint
from .files import open_regular, read_range
from .frames import Frames
from .jsonl_records import LineParser

PLAIN, PACKED = ".jsonl", ".jsonl.zst"
HEAD = 1 << 24
"""So many bytes a header line has at most."""
Stopped = Callable[[], bool]


@define
class Read:
    """What a session file held.

    Attributes:
        parser: where it ended, and what is wrong with it.
        end: how many of the file's bytes count.
        chain: digests of them, up to there if nothing is wrong.
        places: from where events can be read back.
        used: the checkpoint that was begun from.
    """

    parser: LineParser
    end: int
    chain: Chain
    places: Places
    used: Checkpoint | None = None

    @property
    def torn(self) -> TornTail | None:
        """The torn tail."""
        return self.parser.torn

    @property
    def damage(self) -> TreadleError | None:
        """What is wrong before the tail."""
        return self.parser.damage


def session_at(path: Path) -> str:
    """The session that a file's name says it holds."""
    return path.name.removesuffix(".zst").removesuffix(PLAIN)


def read_in(path: Path, beside: Path, intake: Intake) -> Read:
    """Read a session file into an intake.

    Args:
        path: the file.
        beside: where its checkpoint would be.
        intake: takes the events.

    Raises:
        SessionCorrupt: the header cannot be read.
        SessionFormatUnsupported: another format, or an event type that is unknown here (P5, S2).
        OSError: the file cannot be read.
    """
    descriptor = open_regular(path)
    try:
        checkpoint = _usable(descriptor, path, beside, intake)
        if checkpoint is not None:
            read = _read(descriptor, path, intake, checkpoint)
            if read.damage is None and intake.sound:
                return read
        return _read(descriptor, path, intake, None)
    finally:
        os.close(descriptor)


def header_of(descriptor: int, path: Path) -> LineParser:
    """A parser that has read the header of a session file.

    Raises:
        SessionCorrupt: it cannot be read, or is another session's.
        SessionFormatUnsupported: it is in another format (P5).
    """
    if path.name.endswith(PACKED):
        frames = Frames(b"".join(read_range(descriptor, 0, 1 << 62)))
        first = next(iter(frames), b"")
    else:
        first = b""
        for piece in read_range(descriptor, 0, HEAD):
            first += piece
            if b"\n" in piece:
                break
    parser = LineParser.of(first, path)
    if parser.reader.header.id != session_at(path):
        raise SessionCorrupt(f"the header names session {parser.reader.header.id!r}", path=str(path), line=1)
    return parser


def _usable(descriptor: int, path: Path, beside: Path, intake: Intake) -> Checkpoint | None:
    """The checkpoint, put into the intake; ``None`` where there is none, or it is doubtful."""
    checkpoint = read_checkpoint(beside, session_at(path))
    if checkpoint is None or not agrees(checkpoint, lambda start, end: read_range(descriptor, start, end)):
        return None
    reader = header_of(descriptor, path).reader
    if reader.upgrades or not intake.restore(reader.header, checkpoint.state) or intake.count != checkpoint.count:
        return None
    return checkpoint


def resumed(descriptor: int, path: Path, checkpoint: Checkpoint) -> LineParser:
    """A parser that goes on behind a checkpoint."""
    reader = header_of(descriptor, path).reader
    return LineParser(path, reader, checkpoint.count, checkpoint.lines, checkpoint.end)


def _read(descriptor: int, path: Path, intake: Intake, checkpoint: Checkpoint | None) -> Read:
    if checkpoint is not None:
        parser, chain = resumed(descriptor, path, checkpoint), Chain.behind(checkpoint)
        read = Read(parser, checkpoint.end, chain, Places(list(checkpoint.places)), checkpoint)
    else:
        parser = header_of(descriptor, path)
        intake.begin(parser.reader.header)
        read = Read(parser, 0, Chain(), Places())
    if path.name.endswith(PACKED):
        take_frames(read, b"".join(read_range(descriptor, 0, 1 << 62)), intake)
    else:
        take_lines(read, descriptor, intake)
    return read


def take_lines(
    read: Read, descriptor: int, intake: Intake, upto: int | None = None, stopped: Stopped = lambda: False
) -> None:
    """Read the lines of a plain file from where ``read`` ends: to the end of the file, or up to an event."""
    parser, chain = read.parser, read.chain
    chain.take(b"".join(read_range(descriptor, chain.end, parser.end)))
    pending: list[bytes] = []
    for piece in read_range(descriptor, parser.end, 1 << 62):
        if stopped():
            return
        read.places.note(parser.count, parser.end)
        due = piece if upto is None else _up_to(piece, upto - parser.count)
        events = parser.take(due)
        pending.append(due)
        if parser.end > chain.end:
            text = b"".join(pending)
            used = parser.end - chain.end
            chain.take(memoryview(text)[:used])
            pending = [text[used:]]
        intake.take(events)
        if parser.count == upto:
            break
    else:
        intake.take(_finished(parser, chain, pending))
    read.end = parser.end


def _up_to(piece: bytes, number: int) -> bytes:
    """As much of some lines as holds so many records; all of them if there are no more."""
    if piece.count(b"\n") <= number:
        return piece
    at = 0
    while number and (end := piece.find(b"\n", at)) >= 0:
        number -= not is_blank(piece[at:end])
        at = end + 1
    return piece[:at] if not number else piece


def _finished(parser: LineParser, chain: Chain, pending: list[bytes]) -> list[Event]:
    events = parser.finish()
    if parser.end > chain.end:
        chain.take(b"".join(pending)[: parser.end - chain.end])
    return events


def take_frames(read: Read, data: bytes, intake: Intake, upto: int | None = None) -> None:
    """Read the frames of a compressed file from where ``read`` ends, up to an event if one ends a frame there."""
    parser, chain, path = read.parser, read.chain, read.parser.path
    frames = Frames(data, read.end)
    for text in frames:
        if not read.end:
            text = text[parser.end :]  # noqa: PLW2901  # the header was read
        read.places.note(parser.count, read.end)
        intake.take(parser.take(text))
        chain.take(data[read.end : frames.end])
        read.end = frames.end
        if upto is not None and parser.count >= upto:
            return
    intake.take(parser.finish())
    line = parser.count + 2
    if frames.damage is not None or parser.torn is not None:
        said = frames.damage or str(parser.torn)
        parser.damage = parser.damage or SessionCorrupt(f"damaged frame: {said}", line - 2, path=str(path), line=line)
        parser.torn = None
    elif frames.torn is not None:
        parser.torn = TornTail(str(path), line, len(data) - frames.end, frames.torn)
    parser.unended = False
