"""Compressed session files: each batch is one Zstandard frame with a checksum, so that files can be appended to."""

from __future__ import annotations

import io
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from attrs import define, frozen

from treadle import StoreFailure

LEVEL = 3
PIECE = 1 << 16
"""Bytes that are unpacked at a time."""


@frozen
class Unpacked:
    """The text of a compressed file.

    Attributes:
        text: of all whole frames.
        end: how many bytes of the file they take.
        torn: ``half frame`` or ``NUL run`` when an interrupted write follows them.
        damage: what is wrong with the frame that follows them.
    """

    text: bytes
    end: int
    torn: str | None = None
    damage: str | None = None


def _zstandard() -> Any:
    module: ModuleType
    try:
        import zstandard as module
    except ImportError as error:
        raise StoreFailure("compressed sessions need the library zstandard: pip install 'treadle[stores]'") from error
    return module


def pack(payload: bytes) -> bytes:
    """One payload as one frame."""
    return _zstandard().ZstdCompressor(level=LEVEL, write_checksum=True).compress(payload)


@define
class Frames:
    """The frames of a compressed file, one by one.

    Attributes:
        data: the file.
        end: how many of its bytes the frames take that were given so far.
        torn: ``half frame`` or ``NUL run`` when an interrupted write follows them.
        damage: what is wrong with the frame that follows them.
    """

    data: bytes
    end: int = 0
    torn: str | None = None
    damage: str | None = None

    def __iter__(self) -> Iterator[bytes]:
        """The text of each frame that is whole, up to one that is not."""
        zstandard = _zstandard()
        decompressor = zstandard.ZstdDecompressor()
        view = memoryview(self.data)
        while self.end < len(self.data):
            frame, at, parts = decompressor.decompressobj(), self.end, list[bytes]()
            try:
                while at < len(self.data) and not frame.eof:
                    parts.append(frame.decompress(view[at : at + PIECE]))
                    at = min(at + PIECE, len(self.data))
            except zstandard.ZstdError as error:
                if bytes(view[self.end :]).strip(b"\0"):
                    self.damage = str(error)
                else:
                    self.torn = "NUL run"
                return
            if not frame.eof:
                self.torn = "half frame"
                return
            self.end = at - len(frame.unused_data)
            yield b"".join(parts)


def unpack(data: bytes) -> Unpacked:
    """Unpack frame after frame, as far as they are whole."""
    frames = Frames(data)
    text = b"".join(list(frames))
    return Unpacked(text, frames.end, frames.torn, frames.damage)


def unpack_beginning(data: bytes, limit: int) -> bytes:
    """At most ``limit`` bytes of the text that a file's beginning holds."""
    zstandard = _zstandard()
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True)
    parts: list[bytes] = []
    taken = 0
    try:
        while taken < limit and (part := reader.read1(limit - taken)):
            parts.append(part)
            taken += len(part)
    except zstandard.ZstdError:
        pass
    return b"".join(parts)
