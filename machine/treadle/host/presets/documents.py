"""Preset documents: a YAML list of components, read strictly (O9, O11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from attrs import Attribute, field, frozen

from ...errors import MisuseError
from ...ids import session_id
from ...lossless import check_text
from ..reading.documents import Document, Fault, Faulty, Place, error_of, faults_in, read_text
from ..reading.yaml import read_yaml

MAX_DOCUMENT = 256 * 1024
"""Characters that a preset's document may have (X3)."""


def _checked_id(_: Any, __: Any, value: Any) -> None:
    try:
        session_id(value)
    except MisuseError as error:
        raise MisuseError(f"a preset's id has the form of a session's: {error}") from error


def _checked_text(_: Any, attribute: Attribute[str], value: Any) -> None:
    if not isinstance(value, str):
        raise MisuseError(f"a preset's {attribute.name} is text, not {type(value).__name__} (O11)")
    check_text(value, f"a preset's {attribute.name}")


@frozen
class PresetDefinition:
    """What declares a preset.

    Attributes:
        id: its identity, safe as a file's name (X2).
        document: the YAML list of its components.
        title: for people; the id unless given.
        description: for people.
        where: its file, for errors; the id unless given.

    Raises:
        MisuseError: the id could not be a file's name, or something is no text that UTF-8 carries (S1).
    """

    id: str = field(validator=_checked_id)
    document: str = field(validator=_checked_text)
    title: str = field(default="", validator=_checked_text)
    description: str = field(default="", validator=_checked_text)
    where: str = ""


@frozen
class ComponentSpec:
    """One entry of a document: a component's name, what it is given, and where it stands: line and column."""

    name: str
    arguments: Any = None
    place: Place = (1, 1)

    def split(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as a call takes them: a mapping by keyword, anything else as the only one."""
        given = self.arguments
        if isinstance(given, dict):
            return (), cast("dict[str, Any]", given)
        return ((given,) if given is not None else ()), {}


def parse_document(document: str, where: str = "preset") -> tuple[ComponentSpec, ...]:
    """Read a document; ``where`` names it in errors.

    Raises:
        ConfigError: no YAML, no list of components, or something in it that JSON does not have; every fault is named
            with line and column.
    """
    if len(document) > MAX_DOCUMENT:
        raise error_of(where, [Fault(0, 0, f"the document is longer than {MAX_DOCUMENT:,} characters (X3)")])
    try:
        read = read_yaml(document)
    except Faulty as error:
        raise error_of(where, error.faults, "O11") from error
    entries: Any = [] if read.value is None else read.value
    if not isinstance(entries, list):
        kind = type(entries).__name__
        raise error_of(where, [read.fault((), f"a preset is a list of components, not {kind}")], "O11")
    specs = [_component(read, number, entry) for number, entry in enumerate(cast("list[Any]", entries))]
    wrong = [spec for spec in specs if isinstance(spec, Fault)]
    if wrong:
        raise error_of(where, wrong, "O11")
    return tuple([spec for spec in specs if isinstance(spec, ComponentSpec)])


def _component(read: Document, number: int, entry: Any) -> ComponentSpec | Fault:
    place = read.places[number,]
    if isinstance(entry, str) and entry:
        return ComponentSpec(entry, place=place)
    if isinstance(entry, dict) and len(cast("dict[str, Any]", entry)) == 1:
        name, arguments = next(iter(cast("dict[str, Any]", entry).items()))
        return ComponentSpec(name, arguments, place)
    said = "write 'name', or 'name: arguments' with one name per entry"
    return read.fault((number,), f"component {number + 1}: {said}")


def read_definition(path: str | Path) -> PresetDefinition:
    """Read a preset file; its name without the ending is the id, a first comment line is the title.

    Raises:
        ConfigError: it cannot be read.
        MisuseError: its name is no id.
    """
    where = Path(path)
    try:
        document = read_text(where, 4 * MAX_DOCUMENT)
    except (Faulty, OSError) as error:
        raise error_of(f"{where}: no readable preset", faults_in(error)) from error
    first = document.partition("\n")[0]
    title = first[1:].strip() if first.startswith("#") else ""
    return PresetDefinition(where.stem, document, title, where=str(where))
