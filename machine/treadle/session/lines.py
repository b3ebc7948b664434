"""The lines of a log: which hold a record, which mean nothing, and what an interrupted write left of the last (P3, N6).

Whoever reads a log as text reads it by this: the stores and the checker of logs.
"""

from __future__ import annotations

import msgspec

from ..errors import InvalidData
from .codec import Reader, read_header

_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


def lines_of(data: bytes) -> list[bytes]:
    """Split a log: lines end at a line feed and nowhere else; the last of them is empty where the log ends in one."""
    return data.split(b"\n")


def is_blank(line: bytes) -> bool:
    """Whether a line means nothing."""
    return not line.strip(_BLANK)


def header_of(lines: list[bytes]) -> Reader:
    """Read the first line.

    Raises:
        InvalidData: it is no header.
        SessionFormatUnsupported: it is of a version that cannot be read here (P5).
    """
    if lines[0].startswith(_BOM):
        raise InvalidData("the file begins with a byte order mark; take it out")
    return read_header(lines[0])


def torn_at(lines: list[bytes], index: int) -> str | None:
    """What an interrupted write left on a line that holds no record, ``None`` when that line is damage.

    It is what such a write leaves if nothing follows and the line broke off.
    """
    line = lines[index]
    if not all(map(is_blank, lines[index + 1 :])):
        return None
    if b"\0" in line:
        return "NUL run"
    return "half line" if index == len(lines) - 1 or _breaks_off(line) else None


def _breaks_off(line: bytes) -> bool:
    """Whether a line is the beginning of a record and no more."""
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    except (UnicodeDecodeError, RecursionError):
        return False
    return False
