"""``python -m treadle_adapters.simulation``: the figures of a fleet of one's own, or the page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from attrs import asdict

from .fleet import Plan
from .page import FLEETS, ROWS, column, page

_DEFAULTS = asdict(Plan(replicas=30))


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m treadle_adapters.simulation", description=__doc__)
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="simulate all fleets of the page, and write it: minutes"
    )
    for name, default in _DEFAULTS.items():
        parser.add_argument(
            f"--{name}",
            type=float if isinstance(default, float) else int,
            default=default,
            help=f"{default} unless given",
        )
    given = vars(parser.parse_args(arguments))
    target: Path | None = given.pop("write")
    if target is not None:
        target.write_text(page([column(plan, _tell) for plan in FLEETS]), encoding="utf-8", newline="\n")
        return 0
    figures = column(Plan(**given), _tell)
    sys.stdout.writelines(f"{ROWS[name]}: {figure}\n" for name, figure in figures.items())
    return 0


def _tell(what: str) -> None:
    sys.stderr.write(f"{what} …\n")


if __name__ == "__main__":
    sys.exit(main())
