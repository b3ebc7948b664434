"""What the bytes of a session file mean: header line, event lines, torn tail, damage (P3, N6)."""

from __future__ import annotations

from pathlib import Path

from attrs import define, field

from treadle import Event, SessionCorrupt, TreadleError
from treadle.errors import InvalidData
from treadle.session import Reader, TornTail, header_of, is_blank, lines_of, misplaced, torn_at


@define
class Parsed:
    """A session file, read.

    Attributes:
        reader: header and version.
        events: every event before the damage or the torn tail.
        end: how many of the bytes hold whole records: what follows is torn.
        unended: the last record lacks its newline.
        torn: the torn tail.
        damage: what is wrong before the tail; nothing may be written then.
    """

    reader: Reader
    events: list[Event] = field(factory=list[Event])
    end: int = 0
    unended: bool = False
    torn: TornTail | None = None
    damage: TreadleError | None = None


def parse(data: bytes, path: Path) -> Parsed:
    """Read the bytes of a session file.

    Raises:
        SessionCorrupt: the header cannot be read.
        SessionFormatUnsupported: it is in another format, or holds event types that are unknown here (P5, S2).
    """
    lines = lines_of(data)
    parsed = Parsed(_header(lines, path))
    parsed.end = len(lines[0]) + 1
    event, events, number = parsed.reader.event, parsed.events, len(lines)
    for index in range(1, number):
        line = lines[index]
        try:
            entry = event(line)
        except InvalidData as error:
            if not is_blank(line):
                _bad_line(parsed, lines, index, error, path)
                break
            parsed.end += len(line) + 1
            continue
        if entry.seq != len(events):
            parsed.damage = misplaced(entry.seq, len(events), str(path), index + 1)
            break
        events.append(entry)
        parsed.end += len(line) + 1
    if parsed.damage is None and parsed.torn is None:
        _ending(parsed, lines, path)
    parsed.end = min(parsed.end, len(data))
    return parsed


def _header(lines: list[bytes], path: Path) -> Reader:
    try:
        return header_of(lines)
    except InvalidData as error:
        raise SessionCorrupt(str(error), path=str(path), line=1) from error


def _bad_line(parsed: Parsed, lines: list[bytes], index: int, error: InvalidData, path: Path) -> None:
    """A line that holds no event: the torn tail or damage."""
    torn = torn_at(lines, index)
    if torn is not None:
        dropped = sum(map(len, lines[index:])) + len(lines) - 1 - index
        parsed.torn = TornTail(str(path), index + 1, dropped, torn)
        return
    seq = len(parsed.events)
    parsed.damage = SessionCorrupt(
        f"no event where {seq} is due: {error}; nothing is rewritten, and inspect() reads what lies before",
        seq,
        path=str(path),
        line=index + 1,
        expected=seq,
    )


def _ending(parsed: Parsed, lines: list[bytes], path: Path) -> None:
    """A last record without its newline is whole and kept."""
    if not is_blank(lines[-1]):
        parsed.unended = True
        parsed.torn = TornTail(str(path), len(lines), 0, "missing newline")
