"""What the bytes of a session file mean: header line, event lines, torn tail, damage (P3, N6)."""

from __future__ import annotations

from pathlib import Path

from attrs import define, field

from treadle import Event, SessionCorrupt, TreadleError
from treadle.errors import InvalidData
from treadle.session import Reader, TornTail, decode_event, header_of, is_blank, lines_of, misplaced, torn_at


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


@define
class LineParser:
    """Reads the event lines of a session file, piece by piece.

    Attributes:
        path: named in errors.
        reader: reads them.
        count: how many events were read: the number of the next.
        lines: how many lines were read, the header's included.
        end: how many bytes hold whole records, so far.
        unended: the last record lacks its newline.
        torn: the torn tail, once everything is read.
        damage: what is wrong before the tail, once everything is read.
    """

    path: Path
    reader: Reader
    count: int = 0
    lines: int = 1
    end: int = 0
    unended: bool = False
    torn: TornTail | None = None
    damage: TreadleError | None = None
    _rest: list[bytes] = field(factory=list[bytes])
    _odd: list[bytes] | None = None
    _why: InvalidData | None = None

    @classmethod
    def of(cls, data: bytes, path: Path) -> LineParser:
        """One that has read the header in the beginning of a file, which holds all of the first line.

        Raises:
            SessionCorrupt: it is no header.
            SessionFormatUnsupported: it is in another format (P5).
        """
        first, ended, _ = data.partition(b"\n")
        try:
            reader = header_of([first])
        except InvalidData as error:
            raise SessionCorrupt(str(error), path=str(path), line=1) from error
        parser = cls(path, reader, end=len(first) + len(ended))
        if not ended:
            parser.unended, parser.torn = True, TornTail(str(path), 1, 0, "missing newline")
        return parser

    @property
    def whole(self) -> bool:
        """Whether everything so far was whole lines that hold events, or nothing."""
        return self._odd is None and self.damage is None and not self._rest

    def take(self, data: bytes) -> list[Event]:
        """The events of the lines that end in this piece; none behind one that is no event.

        Raises:
            SessionFormatUnsupported: an event type that is unknown here (S2).
        """
        if b"\n" not in data:
            if data:
                self._rest.append(data)
            return []
        lines = lines_of(b"".join([*self._rest, data]) if self._rest else data)
        last = lines.pop()
        self._rest = [last] if last else []
        return self._events(lines, 1)

    def _events(self, lines: list[bytes], ended: int) -> list[Event]:
        if self._odd is not None:
            self._odd += lines
            return []
        if self.damage is not None:
            return []
        if ended and (quick := self._all(lines)) is not None:
            return quick
        read, events, count, end, number = self.reader.event, list[Event](), self.count, self.end, self.lines
        for line in lines:
            try:
                entry = read(line)
            except InvalidData as error:
                if not is_blank(line):
                    self._odd, self._why = lines[number - self.lines :], error
                    break
            else:
                if entry.seq != count:
                    self.damage = misplaced(entry.seq, count, str(self.path), number + 1)
                    break
                events.append(entry)
                count += 1
            end += len(line) + ended
            number += 1
        self.count, self.end, self.lines = count, end, number
        return events

    def _all(self, lines: list[bytes]) -> list[Event] | None:
        """The events of lines each of which holds the one due; ``None`` where one does not."""
        plain = all(map(bytes.isascii, lines))  # strict UTF-8 then, which need not be looked at again (N6)
        read = decode_event if plain and not self.reader.upgrades else self.reader.event
        try:
            events = [read(line) for line in lines]
        except InvalidData:
            return None
        number = len(events)
        if [entry.seq for entry in events] != list(range(self.count, self.count + number)):
            return None
        self.count += number
        self.lines += number
        self.end += sum(map(len, lines)) + number
        return events

    def finish(self) -> list[Event]:
        """There are no more bytes; the events of a last line that lacks its end.

        Raises:
            SessionFormatUnsupported: see ``take``.
        """
        last, self._rest = b"".join(self._rest), []
        events = self._events([last], 0) if last or self._odd is not None else []
        if self._odd is not None and self._why is not None:
            self._bad_line(self._odd, self._why)
        elif events:
            self.unended = True
            self.torn = TornTail(str(self.path), self.lines, 0, "missing newline")
        return events

    def _bad_line(self, lines: list[bytes], why: InvalidData) -> None:
        """A line that holds no event: the torn tail or damage."""
        torn = torn_at(lines, 0)
        if torn is not None:
            dropped = sum(map(len, lines)) + len(lines) - 1
            self.torn = TornTail(str(self.path), self.lines + 1, dropped, torn)
            return
        self.damage = SessionCorrupt(
            f"no event where {self.count} is due: {why}; nothing is rewritten, and inspect() reads what lies before",
            self.count,
            path=str(self.path),
            line=self.lines + 1,
            expected=self.count,
        )


def parse(data: bytes, path: Path) -> Parsed:
    """Read the bytes of a session file.

    Raises:
        SessionCorrupt: the header cannot be read.
        SessionFormatUnsupported: it is in another format, or holds event types that are unknown here (P5, S2).
    """
    parser = LineParser.of(data, path)
    events = parser.take(data[parser.end :])
    events += parser.finish()
    return Parsed(parser.reader, events, parser.end, parser.unended, parser.torn, parser.damage)
