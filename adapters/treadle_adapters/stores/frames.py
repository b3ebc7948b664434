"""Compressed session files: each batch is one Zstandard frame with a checksum, so that files can be appended to."""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

from attrs import frozen

from treadle import StoreFailure

LEVEL = 3


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


def unpack(data: bytes) -> Unpacked:
    """Unpack frame after frame, as far as they are whole."""
    zstandard = _zstandard()
    decompressor = zstandard.ZstdDecompressor()
    parts: list[bytes] = []
    end = 0
    while end < len(data):
        rest = data[end:]
        frame = decompressor.decompressobj()
        try:
            text = frame.decompress(rest)
        except zstandard.ZstdError as error:
            if not rest.strip(b"\0"):
                return Unpacked(b"".join(parts), end, torn="NUL run")
            return Unpacked(b"".join(parts), end, damage=str(error))
        if not frame.eof:
            return Unpacked(b"".join(parts), end, torn="half frame")
        parts.append(text)
        end = len(data) - len(frame.unused_data)
    return Unpacked(b"".join(parts), end)


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
