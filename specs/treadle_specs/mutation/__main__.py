"""``python -m treadle_specs.mutation``: change the code in small ways, and see which layer of the tests notices.

    python -m treadle_specs.mutation --part kernel                       # each mutant of the kernel
    python -m treadle_specs.mutation --quick --sample 20 --seed 7        # some of each part, by its own tests
    python -m treadle_specs.mutation --part writer --every               # what each layer sees by itself

The exit status is 0 when as many were noticed as a part's bar demands, and the ledger of equivalent ones is right.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .figures import figures, merged, saved, score, table, told
from .ledger import entries, stale, survivors, wrong
from .parts import PARTS
from .warming import Run, Task, warmed


def main(given: Sequence[str] | None = None) -> int:
    """Serve the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m treadle_specs.mutation", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--part", action="append", choices=[part.name for part in PARTS], help="default: every part")
    parser.add_argument("--sample", type=int, help="so many mutants of each part, instead of all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--seconds", type=float, default=3600.0, help="of processor time for each part")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--quick", action="store_true", help="only the own tests of each part, and its other layers")
    parser.add_argument("--tests", action="store_true", help="only tests, no other layer")
    parser.add_argument("--every", action="store_true", help="ask every layer, also when one has noticed")
    parser.add_argument("--only", default="", help="only mutants whose place contains this")
    parser.add_argument("--save", type=Path, metavar="FILE", help="put the figures into this file, for the page")
    parser.add_argument("--verbose", action="store_true", help="tell each verdict")
    words = parser.parse_args(given)
    old = stale(entries())
    for entry in old:
        sys.stdout.write(f"stale: the ledger has a change that does not exist: {entry}\n")
    tasks = [
        Task(
            part,
            sample=words.sample,
            seed=words.seed,
            seconds=words.seconds,
            every=words.every,
            jobs=words.jobs,
            only=words.only,
            quick=words.quick,
            tests=words.tests,
        )
        for part in PARTS
        if words.part is None or part.name in words.part
    ]
    with os.fdopen(os.dup(2), "w", buffering=1) as aside:  # pytest keeps what is written to the usual places
        runs = warmed(tasks, lambda verdict: aside.write(f"{told(verdict)}\n") if words.verbose else None)
    if words.save is not None:
        saved(words.save, merged(words.save, runs))
    sys.stdout.write(table([figures(run) for run in runs]) + "\n")
    return 1 if old or not all([_holds(run) for run in runs]) else 0


def _holds(run: Run) -> bool:
    """Whether enough was noticed and the ledger is right; whatever is amiss is told."""
    for name in run.left_out:
        sys.stdout.write(f"left out, since it fails without any change: {name}\n")
    for mutant in survivors(run.verdicts):
        sys.stdout.write(f"survives: {mutant}\n")
    amiss = wrong(run.verdicts)
    for verdict in amiss:
        sys.stdout.write(f"not equivalent: {told(verdict)}\n")
    return not amiss and score(figures(run)) >= run.task.part.bar


if __name__ == "__main__":
    sys.exit(main())
