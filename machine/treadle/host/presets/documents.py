"""Preset documents: a YAML list of components, read strictly (O9, O11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from attrs import Attribute, field, frozen

from ...errors import ConfigError, MisuseError
from ...ids import session_id
from ...lossless import check_json, check_text

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

    Raises:
        MisuseError: the id could not be a file's name, or something is no text that UTF-8 carries (S1).
    """

    id: str = field(validator=_checked_id)
    document: str = field(validator=_checked_text)
    title: str = field(default="", validator=_checked_text)
    description: str = field(default="", validator=_checked_text)


@frozen
class ComponentSpec:
    """One entry of a document: a component's name, and what it is given."""

    name: str
    arguments: Any = None

    def split(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as a call takes them: a mapping by keyword, anything else as the only one."""
        given = self.arguments
        if isinstance(given, dict):
            return (), cast("dict[str, Any]", given)
        return ((given,) if given is not None else ()), {}


def parse_document(document: str) -> tuple[ComponentSpec, ...]:
    """Read a document.

    Raises:
        ConfigError: no YAML, no list of components, or something in it that JSON does not have.
    """
    if len(document) > MAX_DOCUMENT:
        raise ConfigError(f"the document is longer than {MAX_DOCUMENT} characters (X3)")
    entries = _load(document)
    if entries is None:
        return ()
    if not isinstance(entries, list):
        raise ConfigError(f"a preset is a list of components, not {type(entries).__name__} (O11)")
    return tuple([_component(number, entry) for number, entry in enumerate(cast("list[Any]", entries), 1)])


def _load(document: str) -> Any:
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
        from ruamel.yaml.events import AliasEvent
    except ImportError as error:
        raise ConfigError("presets need ruamel.yaml: pip install 'treadle[config]'") from error
    yaml: Any = YAML(typ="safe", pure=True)
    try:
        for happened in yaml.parse(document):
            if isinstance(happened, AliasEvent):
                raise ConfigError("aliases (*name) are not allowed in presets: a small text can stand for a huge one")
        entries = yaml.load(document)
        check_json(entries)
    except YAMLError as error:
        raise ConfigError(f"no valid YAML: {error}") from error
    except (RecursionError, MisuseError) as error:
        raise ConfigError(f"the document holds what JSON does not have: {error}") from error
    return entries


def _component(number: int, entry: Any) -> ComponentSpec:
    if isinstance(entry, str):
        return ComponentSpec(entry)
    if not isinstance(entry, dict) or len(cast("dict[str, Any]", entry)) != 1:
        raise ConfigError(f"component {number}: write 'name', or 'name: arguments' with one name per entry (O11)")
    name, arguments = next(iter(cast("dict[str, Any]", entry).items()))
    return ComponentSpec(name, arguments)


def read_definition(path: str | Path) -> PresetDefinition:
    """Read a preset file; its name without the ending is the id, a first comment line is the title.

    Raises:
        ConfigError: it cannot be read.
        MisuseError: its name is no id.
    """
    where = Path(path)
    try:
        document = where.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: no readable preset: {error}") from error
    first = document.partition("\n")[0]
    return PresetDefinition(where.stem, document, first[1:].strip() if first.startswith("#") else "")
