"""The drawings that lie beside the package in the repository: made from the table, checked for being fresh."""

from __future__ import annotations

from pathlib import Path

from treadle import MisuseError

from .svg import svg
from .text import dot, mermaid, table_markdown

_PAGE = """\
# The lifecycle

![The lifecycle of an agent: its states, and what moves it from one to the next](lifecycle.svg)

Made from `TABLE` in `machine/treadle/kernel/lifecycle.py` by `python -m treadle_diagrams --write`; change that, not this.
A column is the state an agent is in, a row is what happens to it, the cell is where it goes. An empty cell is a
trigger that cannot come in that state: firing it raises (L1).

"""


def drawings() -> dict[str, str]:
    """The content of every committed drawing, by file name."""
    return {
        "lifecycle.dot": dot(),
        "lifecycle.md": _PAGE + table_markdown(),
        "lifecycle.mmd": mermaid(),
        "lifecycle.svg": svg(),
    }


def home() -> Path:
    """The folder of the committed drawings.

    Raises:
        MisuseError: this is an installed copy: no drawings lie beside it.
    """
    folder = Path(__file__).parents[2]
    if folder.name != "diagrams":
        raise MisuseError("this copy of treadle_diagrams is installed, not checked out; name the folder with --folder")
    return folder


def stale(folder: Path) -> tuple[str, ...]:
    """The names of the drawings in a folder that are missing or not what the table gives now.

    Raises:
        OSError: one is there and cannot be read.
    """
    return tuple(
        name
        for name, content in drawings().items()
        if not (folder / name).exists() or (folder / name).read_bytes() != content.encode()
    )


def write(folder: Path) -> tuple[str, ...]:
    """Write those drawings that are stale, and return their names.

    Raises:
        OSError: the folder is missing, or one cannot be written.
    """
    names = stale(folder)
    for name in names:
        (folder / name).write_bytes(drawings()[name].encode())
    return names
