"""``python -m treadle_specs.mutation``: change the code in small ways, and see which layer of the tests notices.

    python -m treadle_specs.mutation --part kernel                       # each mutant of the kernel
    python -m treadle_specs.mutation --sample 20 --seed 7 --seconds 60   # some of each part
    python -m treadle_specs.mutation --part writer --every               # what each layer sees by itself

The exit status is 0 when all were noticed or are known to be equivalent, and the list of those is right.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .figures import merged, saved, table, told
from .ledger import entries, stale, survivors, wrong
from .parts import PARTS
from .warming import Run, Task, warmed


def main(given: Sequence[str] | None = None) -> int:
    """Serve the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m treadle_specs.mutation", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--part", action="append", choices=[part.name for part in PARTS], help="default: every part")
    parser.add_argument("--sample", type=int, help="so many mutants of each part, instead of all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--seconds", type=float, default=3600.0, help="of processor time for each part")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--every", action="store_true", help="ask every layer, also when one has noticed")
    parser.add_argument("--only", default="", help="only mutants whose place contains this")
    parser.add_argument("--save", type=Path, metavar="FILE", help="put the figures into this file, for the page")
    parser.add_argument("--verbose", action="store_true", help="tell each verdict")
    words = parser.parse_args(given)
    old = stale(entries())
    for entry in old:
        sys.stdout.write(f"stale: the ledger has a change that does not exist: {entry}\n")
    tasks = [
        Task(part, words.sample, words.seed, words.seconds, words.every, words.jobs, words.only)
        for part in PARTS
        if words.part is None or part.name in words.part
    ]
    runs = warmed(tasks, lambda verdict: sys.stderr.write(f"{told(verdict)}\n") if words.verbose else None)
    if words.save is not None:
        saved(words.save, merged(words.save, runs))
    sys.stdout.write(table([saved_run for saved_run in merged(None, runs).values()]) + "\n")
    return 1 if old or any([_complaints(run) for run in runs]) else 0


def _complaints(run: Run) -> int:
    lines = [f"survives: {mutant}" for mutant in survivors(run.verdicts)]
    lines += [f"no equivalent, {told(verdict)}" for verdict in wrong(run.verdicts)]
    for name in run.left_out:
        sys.stdout.write(f"left out, since it fails without any change: {name}\n")
    sys.stdout.writelines([f"{line}\n" for line in lines])
    return len(lines)


if __name__ == "__main__":
    sys.exit(main())
