"""``python -m treadle_diagrams``: writes the committed drawings, or checks that they are fresh."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from treadle import MisuseError

from .lifecycle.committed import home, stale, write


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 1 when ``--check`` finds a stale drawing, 2 for a wrong call."""
    parser = argparse.ArgumentParser(prog="python -m treadle_diagrams", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="write the drawings that are stale")
    what.add_argument("--check", action="store_true", help="fail when a drawing is stale, and name it")
    parser.add_argument("--folder", type=Path, help="where they lie; the repository's diagrams/ unless given")
    chosen = parser.parse_args(arguments)
    try:
        folder = home() if chosen.folder is None else chosen.folder
    except MisuseError as error:
        parser.error(str(error))
    if not folder.is_dir():
        parser.error(f"{folder} is no folder; make it, or name another with --folder")
    if chosen.write:
        for name in write(folder):
            sys.stdout.write(f"wrote {folder / name}\n")
        return 0
    names = stale(folder)
    for name in names:
        sys.stderr.write(f"stale: {folder / name}; run python -m treadle_diagrams --write and commit it\n")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
