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
    if path.name.endswith(".zst"):
        from treadle_adapters.stores.frames import unpack

        return parse_session(unpack(path.read_bytes()).text, path)
    return read_session(path)
