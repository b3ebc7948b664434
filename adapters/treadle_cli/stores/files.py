"""Sessions as they lie: in files, plain or compressed, or in a database."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from treadle.errors import TreadleError
from treadle.session import encode_event, encode_header
from treadle_adapters.stores import is_database
from treadle_diagrams import SessionFile, read_session
from treadle_diagrams.log.file import parse_session


@frozen
class Source:
    """Where a session is read.

    Attributes:
        path: its file, or what names its place in a database.
        text: the lines of the session, where that file does not hold them as they are.
        damage: what is wrong with it in its database.
    """

    path: Path
    text: bytes | None = None
    damage: TreadleError | None = None


def source_of(name: str | Path) -> Source:
    """A file, unpacked if it ends in ``.zst``, or what a URL of a database names.

    Raises:
        SessionNotFound: the database has no such session.
        StoreFailure: the database cannot be reached.
        OSError: the file cannot be read.
    """
    if is_database(name):
        from .database import read_stored

        stored = read_stored(str(name))
        lines = [encode_header(stored.header), *[encode_event(event) for event in stored.events]]
        return Source(stored.path, b"".join([line + b"\n" for line in lines]), stored.damage)
    path = Path(name)
    if not path.name.endswith(".zst"):
        return Source(path)
    from treadle_adapters.stores.frames import unpack

    return Source(path, unpack(path.read_bytes()).text)


def read_file(name: str | Path) -> SessionFile:
    """Read a session as far as possible, wherever it lies.

    Raises:
        SessionCorrupt: not even the header can be read.
        SessionFormatUnsupported: it is in another format (P5).
        OSError: the file cannot be read.
        SessionNotFound: the database has no such session.
        StoreFailure: the database cannot be reached.
    """
    if is_database(name):
        from .database import read_stored

        return read_stored(str(name))
    source = source_of(name)
    return read_session(source.path) if source.text is None else parse_session(source.text, source.path)
