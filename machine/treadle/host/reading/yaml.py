"""YAML, read within bounds, as the core schema of YAML 1.2 has it: what JSON has, and nothing else.

The library scans and parses; values are made here, from its events. So a document that is out of bounds is left where
it is, no tag is obeyed, and each fault is told, with its place. Aliases are refused: with them, a small text stands for
a huge value.
"""

from __future__ import annotations

import math
import re
from typing import Any, cast

from attrs import define, field

from ...errors import ConfigError
from ...lossless import text_is_lossless
from .documents import MAX_NESTING, Document, Fault, Faulty, Place, Where, place_at

MAX_PARTS = 10_000
"""How many values, keys included, a document may hold (X3)."""

MAX_LITERAL = 128
"""How many characters a number may have (X3)."""

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?_*+[0-9][0-9_]*+|0b_*+[01][01_]*+|0o_*+[0-7][0-7_]*+|0x_*+[0-9a-fA-F][0-9a-fA-F_]*+")
_BASES = {"0b": 2, "0o": 8, "0x": 16}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]++|[0-9]++(?:\.[0-9]*+)?)(?:[eE][-+]?[0-9]++)?")
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?", re.DOTALL)


def read_yaml(text: str) -> Document:
    """Read a YAML document.

    Raises:
        ConfigError: the library that reads YAML is not installed.
        Faulty: the text is no YAML, or it is out of bounds, or it holds what JSON has not.
    """
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ImportError as error:
        raise ConfigError("presets need ruamel.yaml: pip install 'treadle[config]'") from error
    built = _Builder()
    yaml: Any = YAML(typ="safe", pure=True)
    try:
        for event in yaml.parse(text):
            built.take(event)
    except (YAMLError, ValueError, RecursionError) as error:
        built.faults.append(_syntax_fault(error, text))
    except _Enough:
        pass
    if built.faults:
        raise Faulty(*built.faults)
    return Document(built.root, built.places)


def _syntax_fault(error: Any, text: str) -> Fault:
    """What the library says of a text that is no YAML."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        said = ", ".join([part for part in (error.context, error.problem) if part])
        return Fault(*_place(mark), f"no valid YAML: {said}")
    position = getattr(error, "position", None)
    if isinstance(position, int):
        return Fault(*place_at(text, position), f"no valid YAML: it may not hold U+{error.character:04X}")
    return Fault(0, 0, f"no valid YAML: {error}")


class _Enough(Exception):
    """A document that is out of bounds is read no further."""


@define
class _Open:
    """A list or mapping whose end is still to come; ``key`` is that of the next value."""

    value: list[Any] | dict[str, Any]
    path: Where
    key: str | None = None
    wants_key: bool = True


@define
class _Builder:
    """Makes the value from the events of the parser."""

    root: Any = None
    places: dict[Where, Place] = field(factory=lambda: {(): (1, 1)})
    faults: list[Fault] = field(factory=list[Fault])
    open: list[_Open] = field(factory=list[_Open])
    parts: int = 0
    documents: int = 0

    def take(self, event: Any) -> None:
        """Take the next event.

        Raises:
            _Enough: the document is out of bounds.
        """
        place = _place(event.start_mark)
        match type(event).__name__:
            case "DocumentStartEvent":
                self._document(event, place)
            case "AliasEvent":
                self._wrong(place, "aliases (*name) are not allowed: a small text can stand for a huge one")
                self._put(None, place)
            case "ScalarEvent":
                self._check_tag(event, place)
                self._scalar(event, place)
            case "SequenceStartEvent" | "MappingStartEvent" as kind:
                self._check_tag(event, place)
                self._begin([] if kind == "SequenceStartEvent" else {}, place)
            case "SequenceEndEvent" | "MappingEndEvent":
                self.open.pop()
            case _:
                pass

    def _document(self, event: Any, place: Place) -> None:
        self.documents += 1
        if self.documents > 1:
            self._wrong(place, "a second document begins: write one document per file")
            raise _Enough
        if event.version or event.tags:
            self._wrong(place, "directives (%) are not allowed: leave them out")

    def _check_tag(self, event: Any, place: Place) -> None:
        if event.tag not in (None, "!"):
            self._wrong(place, f"tags ({event.tag}) are not allowed: write the value as it is, text in quotes")

    def _scalar(self, event: Any, place: Place) -> None:
        text = cast("str", event.value)
        if not text_is_lossless(text):
            self._wrong(place, "text with a lone surrogate, which UTF-8 cannot carry (S1)")
        plain = event.style in (None, "") and event.tag is None
        around = self.open[-1] if self.open else None
        if around is not None and isinstance(around.value, dict) and around.wants_key:
            if plain and not isinstance(self._plain(text, place), str):
                self._wrong(place, f"a key must be text: put {text or 'it'} in quotes")
            self._key(around, text, place)
            return
        self._put(self._plain(text, place) if plain else text, place)

    def _key(self, around: _Open, text: str, place: Place) -> None:
        self._count(place)
        if text in around.value:
            line = self.places[(*around.path, text)][0]
            self._wrong(place, f"duplicate key {text!r}: it stands in line {line} already")
        around.key, around.wants_key = text, False
        self.places.setdefault((*around.path, text), place)

    def _plain(self, text: str, place: Place) -> Any:
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text) or _FLOAT.fullmatch(text):
            return self._number(text, place)
        if _NO_NUMBER.fullmatch(text):
            return self._wrong(place, f"JSON has no {text}: put it in quotes (S1)")
        if _DATE.fullmatch(text):
            return self._wrong(place, "JSON has no dates: put it in quotes (S1)")
        return text

    def _number(self, text: str, place: Place) -> Any:
        if len(text) <= MAX_LITERAL:
            digits = text.replace("_", "")
            is_integer = _INTEGER.fullmatch(text) is not None
            value = int(digits, _BASES.get(digits[:2], 10)) if is_integer else float(digits)
            if math.isfinite(value) and (not is_integer or -(2**63) <= value < 2**63):
                return value
        return self._wrong(place, "a number that is too large: put it in quotes (S1)")

    def _begin(self, value: list[Any] | dict[str, Any], place: Place) -> None:
        path = self._put(value, place)
        if len(path) >= MAX_NESTING:
            self._wrong(place, f"nested deeper than {MAX_NESTING} (X3)")
            raise _Enough
        self.open.append(_Open(value, path))

    def _put(self, value: Any, place: Place) -> Where:
        """Put a value where the next one belongs; returns its path."""
        self._count(place)
        if not self.open:
            self.root = value
            return ()
        around = self.open[-1]
        if isinstance(around.value, list):
            path = (*around.path, len(around.value))
            around.value.append(value)
            self.places[path] = place
            return path
        if around.wants_key:
            self._wrong(place, "a key must be text")
            around.key, around.wants_key = "", False
            return (*around.path, "")
        key = cast("str", around.key)
        around.value[key] = value
        around.wants_key = True
        return (*around.path, key)

    def _count(self, place: Place) -> None:
        self.parts += 1
        if self.parts > MAX_PARTS:
            self._wrong(place, f"more than {MAX_PARTS:,} values (X3)")
            raise _Enough

    def _wrong(self, place: Place, text: str) -> None:
        self.faults.append(Fault(*place, text))


def _place(mark: Any) -> Place:
    return mark.line + 1, mark.column + 1
