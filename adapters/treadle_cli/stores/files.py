"""Session files, plain or compressed, as they lie."""

from __future__ import annotations

from pathlib import Path

from treadle_diagrams import SessionFile, read_session
from treadle_diagrams.log.file import parse_session


def read_file(path: Path) -> SessionFile:
    """Read a session's file as far as possible; one that ends in ``.zst`` is unpacked.

    Raises:
        SessionCorrupt: not even the header can be read.
        SessionFormatUnsupported: it is in another format (P5).
        OSError: the file cannot be read.
    """
    text = unpacked(path)
    return read_session(path) if text is None else parse_session(text, path)


def unpacked(path: Path) -> bytes | None:
    """The text of a file that ends in ``.zst``; ``None`` for any other, which is its own text.

    Raises:
        OSError: the file cannot be read.
    """
    if not path.name.endswith(".zst"):
        return None
    from treadle_adapters.stores.frames import unpack

    return unpack(path.read_bytes()).text
