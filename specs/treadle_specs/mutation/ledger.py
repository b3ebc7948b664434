"""The changes that no behaviour tells apart from the code, each with the reason.

An entry names a change by what is read, not by where it stands, so it outlives whatever is written above it. One that
fits no change any more is stale, and an error, as is one that a test kills.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from .judging import Verdict
from .operators import Mutant, mutants
from .parts import PARTS, SOURCES

FILE = Path(__file__).with_name("equivalent.json")


@frozen
class Equivalent:
    """A change that is no fault; the fields are those of ``Mutant``, and why."""

    file: str
    function: str
    operator: str
    change: str
    source: str
    nth: int
    reason: str

    @property
    def key(self) -> tuple[str, str, str, str, str, int]:
        """See ``Mutant``."""
        return self.file, self.function, self.operator, self.change, self.source, self.nth

    def __str__(self) -> str:
        return f"{self.file} {self.function} [{self.operator}] {self.change}"


@lru_cache(maxsize=1)
def entries(path: Path = FILE) -> tuple[Equivalent, ...]:
    """The ledger."""
    return tuple(Equivalent(**entry) for entry in json.loads(path.read_text(encoding="utf-8")))


def equivalent(mutant: Mutant) -> bool:
    """Whether the ledger has it."""
    return mutant.key in {entry.key for entry in entries()}


def stale(given: Iterable[Equivalent], folder: Path = SOURCES) -> list[Equivalent]:
    """The entries that fit no change of the sources."""
    files = {file for part in PARTS for file in part.sources()}
    known = {file: {mutant.key for mutant in mutants(folder, file)} for file in files}
    return [entry for entry in given if entry.key not in known.get(entry.file, set())]


def wrong(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """What the ledger calls equivalent although a layer noticed it."""
    return [verdict for verdict in verdicts if verdict.killed and equivalent(verdict.mutant)]


def survivors(verdicts: Sequence[Verdict]) -> list[Mutant]:
    """What nobody noticed, and nobody explained."""
    return [verdict.mutant for verdict in verdicts if not verdict.killed and not equivalent(verdict.mutant)]


def entry_of(mutant: Mutant, reason: str) -> dict[str, Any]:
    """The entry of a mutant, as the file has it."""
    names = ("file", "function", "operator", "change", "source", "nth")
    values = asdict(mutant)
    return {name: values[name] for name in names} | {"reason": reason}
