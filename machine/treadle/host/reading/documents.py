"""What was read from a file: a value, the place of each of its parts, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

from ...errors import ConfigError
from ...printable import one_line

Where = tuple[str | int, ...]
"""Where in a value: keys and numbers, from outside in."""

Place = tuple[int, int]
"""Line and column, from 1."""

MAX_NESTING = 64
"""How deep what people write may nest (X3)."""

MAX_TOLD = 20
"""How many faults of one file are told."""


@frozen(order=True)
class Fault:
    """One thing that is wrong, and where; ``line`` 0 is the file as a whole."""

    line: int
    column: int
    text: str


class Faulty(Exception):
    """What was read is wrong."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("; ".join([fault.text for fault in faults]))
        self.faults = faults


@frozen
class Document:
    """What was read.

    Attributes:
        value: as JSON has it, and dates where the kind has them.
        places: where the parts stand, by their path.
    """

    value: Any
    places: Mapping[Where, Place] = field(factory=dict[Where, Place])

    def fault(self, path: Where, text: str) -> Fault:
        """A fault of the part at ``path``, or of the nearest around it whose place is known."""
        for length in range(len(path), -1, -1):
            known = self.places.get(path[:length])
            if known is not None:
                return Fault(*known, text)
        return Fault(1, 1, text)


def faults_in(error: Faulty | OSError) -> Sequence[Fault]:
    """What is wrong with a file that could not be read."""
    return error.faults if isinstance(error, Faulty) else [Fault(0, 0, f"cannot be read: {error.strerror or error}")]


def error_of(where: str | Path, faults: Iterable[Fault], rule: str = "") -> ConfigError:
    """The error that tells faults in order of their places, one a line, ``MAX_TOLD`` of them at most."""
    found = sorted(set(faults))
    lines = [
        f"{where}: {one_line(fault.text, 500)}" if not fault.line
        else f"{where}:{fault.line}:{fault.column}: {one_line(fault.text, 500)}"
        for fault in found[:MAX_TOLD]
    ]  # fmt: skip
    if len(found) > MAX_TOLD:
        lines.append(f"{where}: and {len(found) - MAX_TOLD} faults more")
    return ConfigError("\n".join(lines) + (f" ({rule})" if rule else ""))


def read_text(path: Path, limit: int) -> str:
    """The text of a file; never more than ``limit`` bytes are read.

    Raises:
        Faulty: it is longer, or is no UTF-8.
        OSError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except ValueError as error:  # its name holds what no name can hold
        raise Faulty(Fault(0, 0, f"cannot be read: {error}")) from error
    if len(raw) > limit:
        raise Faulty(Fault(0, 0, f"is longer than {limit:,} bytes: shorten it or split it (X3)"))
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        known = raw[: error.start].decode("utf-8")
        found = f"the byte 0x{raw[error.start]:02x} is no UTF-8: save the file as UTF-8"
        raise Faulty(Fault(*place_at(known, len(known)), found)) from error


def place_at(text: str, offset: int) -> Place:
    """Line and column of a character of a text."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
