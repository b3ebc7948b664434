"""``treadle diagram``: the lifecycle, drawn from the table that runs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from .exits import Exit

Format = Literal["mermaid", "svg", "dot", "table"]


def diagram(
    *,
    format: Annotated[Format, Parameter(alias="-f")] = "mermaid",
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    check: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Draw the lifecycle of an agent from the table that runs it.

    An SVG needs no other program to be drawn or seen. `table` is a Markdown table of states and triggers.

    Args:
        format: how it is written.
        out: the file to write; stdout unless given.
        check: write nothing; exit with 1 when the file given with `--out` is not what the table gives now. Without
            `--out`, the drawings that lie in the repository's `diagrams` folder are checked.
    """
    drawings: Any = importlib.import_module("treadle_diagrams")
    if check and out is None:
        return _check_committed()
    text = _drawn(drawings, format)
    if check and out is not None:
        return _check_file(out, text)
    if out is None:
        sys.stdout.write(text)
        return Exit.OK
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8", newline="\n")
    sys.stderr.write(f"wrote {out}\n")
    return Exit.OK


def _drawn(drawings: Any, format: Format) -> str:
    make = {
        "mermaid": drawings.mermaid,
        "svg": drawings.svg,
        "dot": drawings.dot,
        "table": drawings.table_markdown,
    }[format]
    text: str = make()
    return text if text.endswith("\n") else text + "\n"


def _check_file(path: Path, text: str) -> int:
    found = path.read_bytes() if path.exists() else None
    if found == text.encode():
        return Exit.OK
    what = "missing" if found is None else "stale"
    sys.stderr.write(f"{what}: {path}; make it again without --check\n")
    return Exit.FAILED


def _check_committed() -> int:
    committed: Any = importlib.import_module("treadle_diagrams.committed")
    folder: Path = committed.home()
    names: tuple[str, ...] = committed.stale(folder)
    for name in names:
        sys.stderr.write(f"stale: {folder / name}; run python -m treadle_diagrams --write\n")
    return Exit.FAILED if names else Exit.OK
