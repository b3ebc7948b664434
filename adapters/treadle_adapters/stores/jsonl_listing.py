"""Listing session files from a bounded part of each (P6)."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from treadle import SessionCorrupt, TreadleError
from treadle.errors import InvalidData
from treadle.session import Listed, Listing, Reader, Unreadable, read_header, title_of

from .files import open_regular
from .frames import unpack_beginning

HEAD = 32 * 1024
"""Bytes read from the beginning of a file: header and first message."""
TAIL = 16 * 1024
"""Bytes read from its end: the number of the last event."""


class _Numbered(msgspec.Struct):
    seq: int


_NUMBERED = msgspec.json.Decoder(_Numbered)


def list_directory(directory: Path) -> Listing:
    """List the session files of a directory; one that is missing holds none."""
    good: list[Listed] = []
    bad: list[Unreadable] = []
    try:
        names = sorted([path.name for path in directory.iterdir()])
    except FileNotFoundError:
        return Listing(())
    for name in names:
        if name.startswith(".") or not name.endswith((".jsonl", ".jsonl.zst")):
            continue
        try:
            good.append(_listed(directory / name))
        except (OSError, TreadleError) as error:
            bad.append(Unreadable(name, error))
    good.sort(key=lambda one: (-one.modified, one.header.id))
    return Listing(tuple(good), tuple(bad))


def _listed(path: Path) -> Listed:
    descriptor = open_regular(path)
    try:
        status = os.fstat(descriptor)
        head = os.pread(descriptor, HEAD, 0)
        packed = path.name.endswith(".zst")
        tail = b"" if packed else os.pread(descriptor, TAIL, max(0, status.st_size - TAIL))
    finally:
        os.close(descriptor)
    whole = len(tail) == status.st_size
    if packed:
        head = unpack_beginning(head, 2 * HEAD)
        whole = status.st_size <= HEAD and len(head) < 2 * HEAD
        tail = head if whole else b""
    first, _, rest = head.partition(b"\n")
    try:
        reader = read_header(first)
    except InvalidData as error:
        raise SessionCorrupt(str(error), path=str(path), line=1) from error
    if reader.header.id != path.name.removesuffix(".zst").removesuffix(".jsonl"):
        raise SessionCorrupt(f"the header names session {reader.header.id!r}", path=str(path), line=1)
    return Listed(
        reader.header,
        status.st_size,
        status.st_mtime_ns // 1_000_000,
        _count(tail.partition(b"\n")[2]) if whole else _last(tail),
        _title(rest, reader),
    )


def _count(events: bytes) -> int | None:
    """How many events the text after a header holds; ``None`` if it does not tell."""
    return _last(events) if events.strip() else 0


def _last(tail: bytes) -> int | None:
    """How many events there are, by the number of the last one; ``None`` if the end does not tell."""
    for line in reversed(tail.rstrip(b"\0\r\n \t").split(b"\n")[-2:]):
        try:
            return _NUMBERED.decode(line).seq + 1
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return None


def _title(text: bytes, reader: Reader) -> str:
    for line in text.split(b"\n")[:-1]:
        if b'"user/message"' in line:
            try:
                title = title_of(reader.event(line))
            except TreadleError:
                return ""
            if title:
                return title
    return ""
