"""Sessions as they lie: in files, plain or compressed, or in a database."""

from __future__ import annotations

from pathlib import Path

from treadle_adapters.stores import is_database
from treadle_diagrams import SessionFile, read_session
from treadle_diagrams.log.file import parse_session


def read_file(name: str | Path) -> SessionFile:
    """Read a session as far as possible: a file, unpacked if it ends in ``.zst``, or what a URL of a database names.

    Raises:
        SessionCorrupt: not even the header can be read.
        SessionFormatUnsupported: it is in another format (P5).
        OSError: the file cannot be read.
        StoreFailure: the database cannot be reached.
    """
    if is_database(name):
        from .database import read_stored

        return read_stored(str(name))
    path = Path(name)
    if path.name.endswith(".zst"):
        from treadle_adapters.stores.frames import unpack

        return parse_session(unpack(path.read_bytes()).text, path)
    return read_session(path)
