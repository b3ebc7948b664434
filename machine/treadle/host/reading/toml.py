"""TOML, read within bounds.

``tomllib`` says nothing of places, and takes time that grows with the square of a dotted key's length. So the text is
scanned once before: that gives the places, and refuses what would cost more than its length.
"""

from __future__ import annotations

import re
import tomllib
from typing import Literal

from attrs import define, field, frozen

from .documents import MAX_NESTING, Document, Fault, Faulty, Place, Where

MAX_LITERAL = 128
"""How many characters a number or a date may have (X3)."""

# Possessive: whatever the text, each character is looked at a bounded number of times.
_TOKEN = re.compile(
    r"""
      (?P<blank> [ \t\r]++ | \#[^\n]*+ )
    | (?P<line> \n )
    | (?P<long> "{3} (?: [^"\\]++ | \\. | "{1,2}(?!") )*+ "{3,5} | '{3} (?: [^']++ | '{1,2}(?!') )*+ '{3,5} )
    | (?P<string> " (?: [^"\\\n]++ | \\[^\n] )*+ " | ' [^'\n]*+ ' )
    | (?P<mark> [\[\]{}=,.] )
    | (?P<word> [^\s"'\[\]{}=,.\#]++ )
    """,
    re.VERBOSE | re.DOTALL,
)
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_toml(text: str) -> Document:
    """Read a TOML document.

    Raises:
        Faulty: it is none, or it is out of bounds.
    """
    scan = _Scan()
    scan.run(text)
    try:
        return Document(tomllib.loads(text), scan.places)
    except tomllib.TOMLDecodeError as error:
        at = _AT.search(str(error))
        line, column = (int(at[1]), int(at[2])) if at and at[1] else (text.count("\n") + 1, 1)
        raise Faulty(Fault(line, column, f"no valid TOML: {_AT.sub('', str(error))}")) from error
    except (ValueError, RecursionError) as error:
        raise Faulty(Fault(0, 0, f"no valid TOML: {error}")) from error


@frozen
class _Level:
    """What is open: the text as a whole, an array, or an inline table. ``path`` is where its content stands."""

    kind: Literal["text", "array", "table"]
    path: Where


@define
class _Scan:
    """Walks over the tokens. What is no TOML ends it in peace: the parser, which comes next, says so better."""

    places: dict[Where, Place] = field(factory=lambda: {(): (1, 1)})
    levels: list[_Level] = field(factory=lambda: [_Level("text", ())])
    numbers: list[int] = field(factory=lambda: [0])
    tables: dict[Where, int] = field(factory=dict[Where, int])
    parts: list[str] = field(factory=list[str])
    begun: Place = (1, 1)
    brackets: int = 0
    in_value: bool = False

    def run(self, text: str) -> None:
        """Scan a text.

        Raises:
            Faulty: something is out of bounds.
        """
        line, began, at = 1, 0, 0
        while (found := _TOKEN.match(text, at)) is not None:
            kind, word, place = found.lastgroup, found[0], (line, at - began + 1)
            at = found.end()
            if kind == "line" or kind == "long":
                line += word.count("\n")
                began = found.start() + word.rfind("\n") + 1 if "\n" in word else began
            if kind == "line":
                self._end_line()
            elif kind == "blank":
                continue
            elif self.in_value:
                self._in_value(word, kind == "mark", place)
            else:
                self._in_key(word, kind == "mark", place)

    def _end_line(self) -> None:
        if self.levels[-1].kind == "text":
            self.brackets = 0
            self._next_key()

    def _in_key(self, word: str, is_mark: bool, place: Place) -> None:
        level = self.levels[-1]
        if not is_mark:
            self._part(word, place)
        elif word == "=":
            self.places.setdefault((*level.path, *self.parts), self.begun)
            self.in_value = True
        elif word == "[" and level.kind == "text" and not self.parts:
            self.begun = self.begun if self.brackets else place
            self.brackets += 1
        elif word == "]" and self.brackets and self.parts:
            self._header()
        elif word == "}":
            self._close()
        elif word == ",":
            self._next_key()

    def _part(self, word: str, place: Place) -> None:
        if not self.parts and not self.brackets:
            self.begun = place
        self.parts.append(word[1:-1] if word[0] in "\"'" else word)
        around = 0 if self.brackets else len(self.levels[-1].path)
        if around + len(self.parts) > MAX_NESTING:
            raise Faulty(Fault(*place, f"nested deeper than {MAX_NESTING}: write fewer dots (X3)"))

    def _header(self) -> None:
        path: Where = ()
        for part in self.parts[:-1]:
            path = (*path, part)
            path = (*path, self.tables[path]) if path in self.tables else path
        path = (*path, self.parts[-1])
        if self.brackets > 1:
            self.places.setdefault(path, self.begun)
            self.tables[path] = self.tables.get(path, -1) + 1
            path = (*path, self.tables[path])
        self.places.setdefault(path, self.begun)
        self.levels[0] = _Level("text", path)
        self.brackets = 0
        self._next_key()

    def _in_value(self, word: str, is_mark: bool, place: Place) -> None:
        level = self.levels[-1]
        if word == "," and is_mark:
            self.numbers[-1] += 1
            if level.kind == "table":
                self._next_key()
            return
        if word in "]}" and is_mark:
            self._close()
            return
        path = (*level.path, self.numbers[-1]) if level.kind == "array" else (*level.path, *self.parts)
        self.places.setdefault(path, place)
        if word in "[{" and is_mark:
            self._open(word, path, place)
        elif len(word) > MAX_LITERAL and word[0] not in "\"'":
            raise Faulty(Fault(*place, f"a number or date of more than {MAX_LITERAL} characters (X3)"))

    def _open(self, word: str, path: Where, place: Place) -> None:
        if len(path) > MAX_NESTING:
            raise Faulty(Fault(*place, f"nested deeper than {MAX_NESTING} (X3)"))
        self.levels.append(_Level("array" if word == "[" else "table", path))
        self.numbers.append(0)
        if word == "{":
            self._next_key()

    def _next_key(self) -> None:
        self.in_value = False
        self.parts = []

    def _close(self) -> None:
        """The end of what is open; around it, a value has just been read."""
        if len(self.levels) > 1:
            self.levels.pop()
            self.numbers.pop()
        self.in_value = True
