"""The command: see the package."""

from __future__ import annotations

import argparse
import sys

from ..peers.table import install
from . import __doc__ as told
from . import comparison, figures, page
from .measuring import QUICK, WHOLE, take


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.landed", description=told, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    act = parser.add_mutually_exclusive_group(required=True)
    act.add_argument("--measure", action="store_true", help=f"measure everything, write {figures.FILE} and the page")
    act.add_argument("--write", action="store_true", help=f"write {page.PAGE} and {page.PICTURE} from the file")
    act.add_argument("--check", action="store_true", help="fail when one of these is stale")
    act.add_argument("--compare", action="store_true", help="count instructions, and fail when they grew too much")
    parser.add_argument(
        "--peers", action="store_true", help="install other drivers first, so that they are measured too"
    )
    parser.add_argument("--quick", action="store_true", help="measure hardly anything, to look at the page")
    given = parser.parse_args(arguments)
    if given.measure:
        if given.peers:
            install()
        figures.write(take(QUICK if given.quick else WHOLE))
    landed = figures.read()
    if given.compare:
        amiss, notes = comparison.compare(landed)
    elif given.check:
        amiss, notes = page.stale(landed), []
    else:
        page.write(landed)
        amiss, notes = [], []
    print("\n".join([*notes, *amiss]))
    return 1 if amiss else 0


if __name__ == "__main__":
    sys.exit(main())
