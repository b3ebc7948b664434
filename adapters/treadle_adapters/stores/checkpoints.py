"""Files that hold a checkpoint of a session beside its log, and what ties them to it (S11).

A checkpoint stands for the first events of a log, and is used only where these are stored exactly as they were when it
was made: it holds a digest of their records, stretch by stretch, and a digest of itself. Whatever does not agree makes it
useless, never wrong: then the log is read from its beginning.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from attrs import define, field, frozen

from .files import open_regular, write_whole

VERSION = 1
SUFFIX = ".checkpoint"
STEP = 256
"""So many events at most lie between two places from which reading back can begin, where the file allows."""


class _Head(msgspec.Struct, frozen=True):
    """The first line. ``stretches``: where each ends, and its digest; ``places``: events, and where they begin."""

    version: int
    session: str
    count: int
    end: int
    lines: int
    stretches: tuple[tuple[int, str], ...]
    places: tuple[tuple[int, int], ...]


_HEAD = msgspec.json.Decoder(_Head)


@frozen
class Checkpoint:
    """What a checkpoint says.

    Attributes:
        count: how many events it stands for.
        end: how many bytes of the log they take, its header included; in a table, how many records.
        lines: how many lines of the log these are.
        stretches: the ends of the stretches of the log, and the digest of each.
        places: numbers of events and where in the log they begin.
        state: what an intake made of them.
        weight: bytes of the whole.
    """

    count: int
    end: int
    lines: int
    stretches: tuple[tuple[int, str], ...]
    places: tuple[tuple[int, int], ...]
    state: Sequence[bytes] = ()
    weight: int = 0


def read_checkpoint(path: Path, session: str) -> Checkpoint | None:
    """The checkpoint of a session as far as it is sound in itself; ``None`` where it is missing or doubtful."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            lines = file.readlines()  # many short ones: no long copy holds up other threads
    except OSError:
        return None
    if len(lines) < 2 or _seal(lines[:-1]) != lines.pop():  # a head and a seal
        return None
    try:
        head = _HEAD.decode(lines[0])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if (head.version, head.session) != (VERSION, session):
        return None
    weight = sum(map(len, lines))
    return Checkpoint(head.count, head.end, head.lines, head.stretches, head.places, lines[1:], weight)


def write_checkpoint(path: Path, session: str, checkpoint: Checkpoint) -> int:
    """Put a checkpoint in place, whole or not at all; returns its bytes.

    Raises:
        OSError: the disk refused; an older one stays.
    """
    one = checkpoint
    head = _Head(VERSION, session, one.count, one.end, one.lines, one.stretches, one.places)
    lines = [line + b"\n" for line in (msgspec.json.encode(head), *one.state)]
    write_whole(path, [*lines, _seal(lines)], durable=False)
    return sum(map(len, lines))


def remove_checkpoint(path: Path) -> None:
    """Take a checkpoint away, if there is one."""
    with contextlib.suppress(OSError):
        path.unlink()


def _seal(lines: Iterable[bytes]) -> bytes:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest().encode()


@define
class Chain:
    """Digests of a log, stretch by stretch: what was digested once is not read again to digest more.

    Attributes:
        end: up to where the log is digested.
        stretches: the stretches that are closed.
    """

    end: int = 0
    stretches: list[tuple[int, str]] = field(factory=list[tuple[int, str]])
    _open: Any = field(factory=hashlib.sha256)

    def take(self, data: bytes | memoryview, end: int | None = None) -> None:
        """Digest what comes next in the log, up to ``end``: so many bytes further unless given."""
        self._open.update(data)
        self.end = self.end + len(data) if end is None else end

    def closed(self) -> tuple[tuple[int, str], ...]:
        """Every stretch up to here; the next one begins."""
        if not self.stretches or self.stretches[-1][0] != self.end:
            self.stretches.append((self.end, self._open.hexdigest()))
            self._open = hashlib.sha256()
        return tuple(self.stretches)

    @classmethod
    def behind(cls, checkpoint: Checkpoint) -> Chain:
        """One that goes on behind a checkpoint."""
        return cls(checkpoint.end, list(checkpoint.stretches))


def agrees(checkpoint: Checkpoint, read: Callable[[int, int], Iterable[bytes]]) -> bool:
    """Whether a log still is what a checkpoint was made of.

    Args:
        checkpoint: the checkpoint.
        read: gives what the log holds from one position to another, in pieces.
    """
    start = 0
    for end, expected in checkpoint.stretches:
        digest = hashlib.sha256()
        for piece in read(start, end):
            digest.update(piece)
        if digest.hexdigest() != expected:
            return False
        start = end
    return start == checkpoint.end


@define
class Places:
    """Where events begin: some of them, in their order."""

    known: list[tuple[int, int]] = field(factory=list[tuple[int, int]])

    def note(self, seq: int, at: int) -> None:
        """Event ``seq`` begins at ``at``; kept if no place close before it is known."""
        if not self.known or seq - self.known[-1][0] >= STEP:
            self.known.append((seq, at))

    def before(self, seq: int) -> tuple[int, int]:
        """The last known place that is not behind an event."""
        low, high = 0, len(self.known)
        while low < high:
            middle = (low + high) // 2
            if self.known[middle][0] <= seq:
                low = middle + 1
            else:
                high = middle
        return self.known[low - 1]

    def upto(self, seq: int) -> tuple[tuple[int, int], ...]:
        """The places of the first ``seq`` events."""
        return tuple([place for place in self.known if place[0] < seq])
