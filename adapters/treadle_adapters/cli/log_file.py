"""Writes a session's log to a file."""

from __future__ import annotations

import os
from pathlib import Path

from treadle.session.codec import encode_header
from treadle.session.events import encode_event
from treadle.session.log import Session


def write_log(path: Path, session: Session) -> None:
    """Write a whole session: its header's line, then a line per event. Only its owner can read the file (X1).

    Raises:
        OSError: it cannot be written.
    """
    lines = [encode_header(session.header), *[encode_event(entry) for entry in session.events]]
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        path.chmod(0o600)
        file.write(b"".join([line + b"\n" for line in lines]))
