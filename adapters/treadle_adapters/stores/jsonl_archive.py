"""What the JSONL store offers of a session beyond its appending: reading back, and checkpoints (S11)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import trio
from attrs import define, field

from treadle import Event, SessionCorrupt, SessionNotFound, StoreFailure
from treadle.errors import InvalidData
from treadle.session import Intake, decode_event, is_blank

from .checkpoints import Chain, Checkpoint, Places, read_checkpoint, write_checkpoint
from .files import open_regular, read_range, to_end
from .frames import Frames
from .jsonl_intake import PACKED, Read, header_of, resumed, session_at, take_frames, take_lines


@define(eq=False)
class JsonlArchive:
    """Implements ``Archive`` for one session file that is open for writing.

    Attributes:
        path: the file.
        beside: where its checkpoint is.
        end: how many bytes of the file count.
        count: how many events are stored.
        lines: on how many lines, the header's included.
        places: from where events can be read back; a file is read from its header on, or from behind it.
        chain: digests of the file, up to where something read or digested it.
        size: bytes that were stored since the session was opened.
        covered: how many events the last checkpoint stands for.
        weight: how many bytes it has.
    """

    path: Path
    beside: Path
    end: int
    count: int = 0
    lines: int = 1
    places: Places = field(factory=lambda: Places([(0, 0)]))
    chain: Chain = field(factory=Chain)
    size: int = 0
    covered: int = 0
    weight: int = 0
    _stopped: bool = False

    @classmethod
    def of(cls, read: Read, beside: Path) -> JsonlArchive:
        """That of a file that was read."""
        parser, used = read.parser, read.used
        archive = cls(parser.path, beside, read.end, parser.count, parser.lines, read.places, read.chain)
        if used is not None:
            archive.covered, archive.weight = used.count, used.weight
        return archive

    @property
    def _packed(self) -> bool:
        return self.path.name.endswith(PACKED)

    def stored(self, first: int, number: int, start: int, end: int) -> None:
        """Events were appended: from ``first`` on so many, between two positions of the file."""
        if number:
            self.places.note(first, start)
            self.count = first + number
            self.lines += number
        self.size += end - start
        self.end = end

    # --- reading back -------------------------------------------------------------------------------------------------

    def read(self, first: int, stop: int) -> Sequence[Event]:
        """See ``Past``."""
        seq, start = self.places.before(first)
        events: list[Event] = []
        try:
            descriptor = open_regular(self.path)
        except FileNotFoundError as error:
            raise SessionNotFound(f"{self.path} is there no more: its older events cannot be read back") from error
        except OSError as error:
            raise StoreFailure(f"{error}: older events cannot be read back") from error
        try:
            for line in islice(self._lines(descriptor, start), 0 if start else 1, None):
                if not is_blank(line):
                    if seq >= first:
                        events.append(self._event(line, seq))
                    seq += 1
                if seq >= stop:
                    return events
        finally:
            os.close(descriptor)
        raise SessionCorrupt(f"{self.path} ends before event {seq}, which was written to it", seq, path=str(self.path))

    def _event(self, line: bytes, seq: int) -> Event:
        try:
            entry = decode_event(line)
        except InvalidData as error:
            raise SessionCorrupt(
                f"{self.path}: event {seq} is there no more: {error}", seq, path=str(self.path)
            ) from error
        if entry.seq != seq:
            raise SessionCorrupt(f"{self.path}: event {entry.seq} stands where {seq} was", seq, path=str(self.path))
        return entry

    def _lines(self, descriptor: int, start: int) -> Iterator[bytes]:
        if self._packed:
            for text in Frames(b"".join(read_range(descriptor, start, self.end))):
                yield from text.split(b"\n")
            return
        rest: list[bytes] = []
        for piece in read_range(descriptor, start, self.end):
            *lines, last = piece.split(b"\n")
            if lines:
                lines[0] = b"".join([*rest, lines[0]])
                rest = []
                yield from lines
            rest.append(last)
        yield b"".join(rest)

    # --- checkpoints --------------------------------------------------------------------------------------------------

    async def keep(self, intake: Intake) -> bool:
        """See ``Archive``."""
        return await to_end(trio.to_thread.run_sync, self._keep, intake)

    def _keep(self, intake: Intake) -> bool:
        if intake.count != self.count:
            return False
        try:
            descriptor = open_regular(self.path)
            try:
                for piece in read_range(descriptor, self.chain.end, self.end):
                    self.chain.take(piece)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreFailure(f"{error}: no checkpoint of {self.path}") from error
        return self._write(intake, self.chain, self.end, self.lines)

    async def advance(self, intake: Intake, upto: int) -> bool:
        """See ``Archive``."""
        return await to_end(trio.to_thread.run_sync, self._advance, intake, upto)

    def _advance(self, intake: Intake, upto: int) -> bool:
        try:
            descriptor = open_regular(self.path)
            try:
                read = self._behind(descriptor, intake)
                if self._packed:
                    take_frames(read, b"".join(read_range(descriptor, 0, self.end)), intake, upto)
                else:
                    take_lines(read, descriptor, intake, upto, lambda: self._stopped)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreFailure(f"{error}: no checkpoint of {self.path}") from error
        parser = read.parser
        if self._stopped or parser.count != upto or not parser.whole or intake.count != upto:
            return False
        return self._write(intake, read.chain, read.end, parser.lines)

    def _behind(self, descriptor: int, intake: Intake) -> Read:
        """What goes on behind the last checkpoint; nobody else writes here, so what it stands for is taken as it was."""
        last = read_checkpoint(self.beside, session_at(self.path))
        parser = header_of(descriptor, self.path)
        if last is not None and intake.restore(parser.reader.header, last.state) and intake.count == last.count:
            return Read(
                resumed(descriptor, self.path, last), last.end, Chain.behind(last), Places(list(last.places)), last
            )
        intake.begin(parser.reader.header)
        return Read(parser, 0, Chain(), Places())

    def _write(self, intake: Intake, chain: Chain, end: int, lines: int) -> bool:
        state = intake.state()
        if state is None or chain.end != end:
            return False
        checkpoint = Checkpoint(intake.count, end, lines, chain.closed(), self.places.upto(intake.count), state)
        try:
            self.weight = write_checkpoint(self.beside, session_at(self.path), checkpoint)
        except OSError as error:
            raise StoreFailure(f"{error}: no checkpoint of {self.path}") from error
        self.covered = intake.count
        return True

    def stop(self) -> None:
        """See ``Archive``."""
        self._stopped = True
