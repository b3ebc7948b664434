"""What the generated pages share: the command that writes or checks one, and what docstrings say about a class."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parents[3]
"""The checkout that holds this package."""


@frozen
class Made:
    """A page as it should be.

    Attributes:
        text: the whole page.
        problems: what makes a check fail besides a stale page.
        notes: what is told in any case.
    """

    text: str
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()


def serve(module: str, page: str, make: Callable[[Path], Made], arguments: Sequence[str] | None) -> int:
    """Serve the command line of one page; returns the exit status.

    Args:
        module: what makes the page, as ``python -m`` names it.
        page: its path below the root.
        make: given the root, makes it.
        arguments: of the command line; ``None`` for those of this process.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=f"Make {page}.")
    act = parser.add_mutually_exclusive_group(required=True)
    act.add_argument("--write", action="store_true", help=f"write {page}")
    act.add_argument("--check", action="store_true", help="fail when the page is stale, or what it tells of is amiss")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository")
    given = parser.parse_args(arguments)
    target = given.root / page
    made = make(given.root)
    found = list(made.problems)
    if given.write:
        target.parent.mkdir(exist_ok=True)
        target.write_text(made.text, encoding="utf-8", newline="\n")
    elif not target.exists() or target.read_text(encoding="utf-8") != made.text:
        found.append(f"{page} is stale: run python -m {module} --write")
    sys.stdout.writelines([f"{line}\n" for line in (*found, *made.notes)])
    return 1 if found and given.check else 0


def cell(text: str) -> str:
    """Text as a cell of a table holds it."""
    return text.replace("|", "\\|")


def summary(kind: type) -> str:
    """What a docstring says before its sections, in one line."""
    text = (inspect.getdoc(kind) or "").partition("\n\nAttributes:")[0].partition("\n\nArgs:")[0]
    return " ".join(text.replace("``", "`").split())


def attributes(kind: type) -> dict[str, str]:
    """What the docstrings of a class and its bases say about each field."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        section = (inspect.getdoc(base) or "").partition("Attributes:\n")[2]
        for match in re.finditer(r"^    (\w+): (.+(?:\n {8,}.+)*)", section, re.MULTILINE):
            found[match[1]] = " ".join(match[2].replace("``", "`").split())
    return found
