"""``check_store``: every promise of §13 as one small check, for any store.

    check_store(lambda directory: MyStore(directory))

A maker takes a directory and returns a store that keeps its sessions there; called twice with one directory it gives
two stores that see the same sessions, as two processes would. Checks that need to damage what is stored, or to make
writing fail, ask ``Faults`` for the means, and are left out where there is none. All is plain functions: no test
framework is needed, and what does not hold raises ``AssertionError``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import trio

from .store_bench import Bench, Check, Faults, StoreMaker
from .store_checks import CHECKS, NEEDS


def check_store(make_store: StoreMaker, faults: Faults | None = None) -> None:
    """Hold a store to every promise of §13.

    Raises:
        AssertionError: one does not hold; the text names the check and its rule.
    """
    for check in checks_for(faults):
        run_check(check, make_store, faults)


def checks_for(faults: Faults | None = None) -> tuple[Check, ...]:
    """The checks that can be made with these means, to run one at a time with ``run_check``."""
    means = faults or Faults()
    return tuple([check for check in CHECKS if (need := NEEDS.get(check)) is None or getattr(means, need) is not None])


def run_check(check: Check, make_store: StoreMaker, faults: Faults | None = None) -> None:
    """Run one check in a directory of its own.

    Raises:
        AssertionError: the promise does not hold.
    """
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory) / "sessions", make_store, faults or Faults())
        try:
            trio.run(_guarded, check, bench, clock=bench.clock)
        except Exception as error:
            promise = (check.__doc__ or "").strip().partition("\n")[0]
            raise AssertionError(f"{check.__name__}: {promise}: {error!r}") from error


async def _guarded(check: Check, bench: Bench) -> None:
    try:
        await check(bench)
    finally:
        with trio.CancelScope(shield=True):
            await bench.close()
