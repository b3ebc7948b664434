"""Reads session logs from files, whole or while they grow: a header line, then one event per line (S7, S8).

Nothing is changed and no store is needed. What can be read is read: a torn tail is told, and damage is told with the
events that lie before it (P3).
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from attrs import define, field, frozen

from treadle import Event, MisuseError, SessionCorrupt, SessionHeader, TreadleError
from treadle.errors import InvalidData
from treadle.session import Reader, read_header

_BLANK = b" \t\r\n\0"
_PIECE = 1 << 18


@frozen
class SessionFile:
    """A session log, as far as it can be read.

    Attributes:
        path: where it lies.
        header: identity and origin.
        events: in order, up to the torn tail or the damage.
        torn: what an interrupted write left at the end, in words.
        damage: what is wrong before the end; nothing behind it is read.
    """

    path: Path
    header: SessionHeader
    events: tuple[Event, ...]
    torn: str | None = None
    damage: TreadleError | None = None

    @property
    def left_out(self) -> int:
        """How many events precede the first of ``events``: what was read begins with it."""
        return self.events[0].seq if self.events else 0

    @property
    def trouble(self) -> str | None:
        """What is wrong with the file, ``None`` when nothing is."""
        return str(self.damage) if self.damage is not None else self.torn


@define
class LineReader:
    """Takes the bytes of a log as they come and gives the events in them.

    Attributes:
        path: named in errors.
        events: how many were read.
    """

    path: Path
    events: int = 0
    _reader: Reader | None = None
    _rest: bytes = b""
    _lines: int = 0
    _found: list[Event] = field(factory=list[Event])

    def at(self, number: int) -> LineReader:
        """One that goes on with the event of a number, as if those before had been read."""
        return LineReader(self.path, number, self._reader, b"", number + 1)

    @property
    def header(self) -> SessionHeader | None:
        """The header, once its line has come."""
        return self._reader.header if self._reader else None

    def take(self, data: bytes) -> list[Event]:
        """Take more bytes; what has no line end yet waits for it.

        Raises:
            SessionCorrupt: a line is no event, or not the one due; ``taken`` still gives those before it.
            SessionFormatUnsupported: another format, or an event type that is unknown here (P5, S2).
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        return self.taken()

    def taken(self) -> list[Event]:
        """The events that were read and not yet given."""
        found, self._found = self._found, []
        return found

    def finish(self) -> str | None:
        """The file has ended: read a last line that lacks its end, or say in words that it is torn."""
        rest, self._rest = self._rest, b""
        if not rest.strip(_BLANK):
            return f"{self.path}: a run of NUL bytes at the end was left out (P3)" if b"\0" in rest else None
        try:
            self._line(rest)
        except (SessionCorrupt, InvalidData):
            return f"{self.path}, line {self._lines}: half a line at the end was left out (P3)"
        return None

    def _line(self, line: bytes) -> None:
        self._lines += 1
        if not line.strip(b" \t\r"):
            return
        try:
            if self._reader is None:
                self._reader = read_header(line)
                return
            entry = self._reader.event(line)
        except InvalidData as error:
            raise SessionCorrupt(str(error), path=str(self.path), line=self._lines) from error
        if entry.seq != self.events:
            raise SessionCorrupt(
                f"event {entry.seq} stands where {self.events} is due (N6)", path=str(self.path), line=self._lines
            )
        self.events += 1
        self._found.append(entry)


def read_session(path: str | Path) -> SessionFile:
    """Read a session's file as far as possible.

    Raises:
        MisuseError: it is compressed.
        SessionCorrupt: not even the header can be read.
        SessionFormatUnsupported: it is in another format (P5).
        OSError: the file cannot be read.
    """
    path = Path(path)
    if path.name.endswith(".zst"):
        raise MisuseError(f"{path} is compressed: unpack it first, with `zstd -d {path.name}`")
    return parse_session(path.read_bytes(), path)


def read_through(path: Path, tell: Callable[[list[Event]], object], text: bytes | None = None) -> SessionFile:
    """Read a session's file as far as possible and hand its events on piece by piece; none is kept.

    Args:
        path: the file.
        tell: takes the events.
        text: what the file holds, where that is compressed.

    Raises:
        SessionCorrupt: not even the header can be read.
        SessionFormatUnsupported: it is in another format (P5).
        OSError: the file cannot be read.
    """
    reader = LineReader(path)
    torn, damage = None, None
    with path.open("rb") if text is None else BytesIO(text) as file:
        try:
            while data := file.read(_PIECE):
                tell(reader.take(data))
            torn = reader.finish()
        except TreadleError as error:
            damage = error
        tell(reader.taken())
    if reader.header is None:
        raise damage or SessionCorrupt("the file has no header line", path=str(path), line=1)
    return SessionFile(path, reader.header, (), torn, damage)


def parse_session(data: bytes, path: Path) -> SessionFile:
    """Read the content of a session's file as far as possible; ``path`` is named in errors.

    Raises:
        SessionCorrupt: not even the header can be read.
        SessionFormatUnsupported: it is in another format (P5).
    """
    reader = LineReader(path)
    torn, damage = None, None
    events: list[Event] = []
    try:
        events += reader.take(data)
        torn = reader.finish()
    except TreadleError as error:
        damage = error
    events += reader.taken()
    if reader.header is None:
        raise damage or SessionCorrupt("the file has no header line", path=str(path), line=1)
    return SessionFile(path, reader.header, tuple(events), torn, damage)
