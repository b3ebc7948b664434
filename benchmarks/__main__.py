"""``python -m benchmarks [--only NAME] [--json] [--peers]``: measure, print the table, fail when a bar is missed."""

from __future__ import annotations

import argparse
import json
import sys

from attrs import asdict

from .measure import ROUNDS, measure
from .peers.table import PEERS, compare, install
from .rows import collect
from .tables import peers_table, table


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status, 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="run this benchmark only; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="samples per benchmark (default %(default)s)")
    parser.add_argument(
        "--peers",
        action="store_true",
        help="measure other drivers of agents instead; installs what is missing into .rigs/",
    )
    given = parser.parse_args(arguments)
    if given.peers:
        install()
        print(peers_table(compare(PEERS, given.rounds)))
        return 0
    benchmarks = collect()
    unknown = sorted(set(given.only or ()) - {benchmark.name for benchmark in benchmarks})
    if unknown:
        parser.error(
            f"no benchmark is named {', '.join(unknown)}; there are "
            + ", ".join([benchmark.name for benchmark in benchmarks])
        )
    rows = [
        measure(benchmark, given.rounds) for benchmark in benchmarks if not given.only or benchmark.name in given.only
    ]
    if given.json:
        print(json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=2))
    else:
        print(table(rows))
    return 0 if all([row.ok for row in rows]) else 1


if __name__ == "__main__":
    sys.exit(main())
