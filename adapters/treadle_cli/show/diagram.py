"""``treadle diagram``: the lifecycle, drawn from the table that runs, and sessions, drawn from their logs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from treadle import Event, MisuseError
from treadle.printable import printable
from treadle_diagrams import (
    dot,
    merge_walks,
    mermaid,
    read_coverage,
    sequence_mermaid,
    sequence_svg,
    svg,
    table_markdown,
    walk_of,
)
from treadle_diagrams.lifecycle import committed

from ..exits import Exit
from ..private import write_private
from ..stores.files import read_file

Format = Literal["mermaid", "svg", "dot", "table"]
OVERLAY = Group("What was walked", sort_key=1)
SEQUENCE = Group("A session's messages", sort_key=2)
_BY_SUFFIX: dict[str, Format] = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".md": "table", ".mmd": "mermaid"}


def _format_of(out: Path | None) -> Format:
    """The format that a file's name asks for; Mermaid where nothing does."""
    suffix = out.suffix.lower() if out is not None else ""
    if suffix and suffix not in _BY_SUFFIX and suffix != ".txt":
        raise MisuseError(f"nothing is drawn as {suffix}: use {', '.join(_BY_SUFFIX)}, or say --format")
    return _BY_SUFFIX.get(suffix, "mermaid")


def diagram(
    *,
    format: Annotated[Format | None, Parameter(alias="-f")] = None,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    check: Annotated[bool, Parameter(negative=())] = False,
    log: Annotated[list[str] | None, Parameter(group=OVERLAY, consume_multiple=True, negative=())] = None,
    coverage: Annotated[list[Path] | None, Parameter(group=OVERLAY, consume_multiple=True, negative=())] = None,
    sequence: Annotated[str | None, Parameter(group=SEQUENCE)] = None,
    turn: Annotated[int | None, Parameter(group=SEQUENCE)] = None,
) -> int:
    """Draw the lifecycle of an agent from the table that runs it, or a session as a sequence of messages.

    An SVG needs no other program to be drawn or seen. `table` is a Markdown table of states and triggers.

    Args:
        format: how it is written; by the name of the file, else as Mermaid, unless given.
        out: the file to write; stdout unless given.
        check: write nothing; exit with 1 when the file given with `--out` is not what would be written now. Without
            `--out`, the drawings that lie in the repository's `diagrams` folder are checked.
        log: sessions, files or in a database: mark the path that they walked, with counts and times.
        coverage: coverage files: mark what was visited, and what was missed.
        sequence: a session, a file or in a database: draw who told whom what, instead of the lifecycle.
        turn: draw this turn of it only.
    """
    if check and out is None:
        return _check_committed()
    kind = format or _format_of(out)
    if sequence is not None:
        if log or coverage:
            raise MisuseError("--sequence draws one session: leave --log and --coverage out")
        text = _sequence(sequence, turn, kind)
    elif turn is not None:
        raise MisuseError("--turn says which turn of a session is drawn: give it with --sequence FILE")
    else:
        text = _lifecycle(kind, log or [], coverage or [])
    text = text if text.endswith("\n") else text + "\n"
    if check and out is not None:
        return _check_file(out, text)
    return _write(text, out, private=sequence is not None)


def _lifecycle(kind: Format, logs: list[str], coverages: list[Path]) -> str:
    walks = [*[walk_of(_events(name)) for name in logs], *[read_coverage(path) for path in coverages]]
    walked = merge_walks(walks) if walks else None
    match kind:
        case "svg":
            return svg(walked=walked, unwalked="missed" if coverages else "faded")
        case "dot":
            return dot(walked=walked)
        case "table":
            return table_markdown(walked=walked)
        case "mermaid":
            return mermaid(walked=walked)


def _sequence(name: str, turn: int | None, kind: Format) -> str:
    if kind not in ("mermaid", "svg"):
        raise MisuseError(f"a sequence is drawn as mermaid or svg, not {kind}")
    draw = sequence_svg if kind == "svg" else sequence_mermaid
    return draw(_events(name), turn)


def _events(name: str) -> tuple[Event, ...]:
    """The events of a session, as far as it can be read; what is wrong with it is told on stderr."""
    session = read_file(name)
    if session.trouble is not None:
        sys.stderr.write(f"treadle: {printable(session.trouble)}\n")
    return session.events


def _write(text: str, out: Path | None, *, private: bool) -> int:
    if out is None:
        sys.stdout.write(text)
        return Exit.OK
    if private:
        write_private(out, text.encode())
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8", newline="\n")
    sys.stderr.write(f"wrote {out}\n")
    return Exit.OK


def _check_file(path: Path, text: str) -> int:
    found = path.read_bytes() if path.exists() else None
    if found == text.encode():
        return Exit.OK
    what = "missing" if found is None else "stale"
    sys.stderr.write(f"{what}: {path}; make it again without --check\n")
    return Exit.FAILED


def _check_committed() -> int:
    folder = committed.home()
    names = committed.stale(folder)
    for name in names:
        sys.stderr.write(f"stale: {folder / name}; run python -m treadle_diagrams --write\n")
    return Exit.FAILED if names else Exit.OK
