"""``check_model``: what an adapter promises (Q5, Q8, Q10), each promise as one small check, for any adapter.

    check_model(lambda: MyAdapter(...))

A maker returns a fresh adapter whose provider answers every request with some text. Checks that need a provider that
refuses, goes silent or breaks off ask ``Means`` for adapters of that kind, and are left out where there is none. All
is plain functions: no test framework is needed, and what does not hold raises ``AssertionError``.
"""

from __future__ import annotations

import trio
from trio.testing import MockClock

from .model_bench import Bench, Check, Means, ModelMaker
from .model_checks import CHECKS, NEEDS, VIRTUAL

PATIENCE = 30.0
"""Seconds that one check may take on trio's clock before it counts as hanging."""


def check_model(make_model: ModelMaker, means: Means | None = None) -> None:
    """Hold an adapter to every promise that can be checked with these means (Q5, Q8, Q10).

    Raises:
        AssertionError: one does not hold; the text names the check and its rule.
    """
    for check in checks_for(means):
        run_check(check, make_model, means)


def checks_for(means: Means | None = None) -> tuple[Check, ...]:
    """The checks that can be made with these means, to run one at a time with ``run_check``."""
    given = means or Means()
    return tuple([check for check in CHECKS if (need := NEEDS.get(check)) is None or getattr(given, need) is not None])


def run_check(check: Check, make_model: ModelMaker, means: Means | None = None) -> None:
    """Run one check in a run of trio of its own.

    Raises:
        AssertionError: the promise does not hold.
    """
    bench = Bench(make_model, means or Means())
    virtual = bench.means.virtual_time or check in VIRTUAL
    clock = MockClock(autojump_threshold=0.01) if virtual else None
    limit = PATIENCE + (2 * bench.means.idle_timeout if virtual else 0)
    try:
        trio.run(_guarded, check, bench, limit, clock=clock)
    except Exception as error:
        promise = (check.__doc__ or "").strip().partition("\n")[0]
        raise AssertionError(f"{check.__name__}: {promise}: {error!r}") from error


async def _guarded(check: Check, bench: Bench, limit: float) -> None:
    try:
        with trio.fail_after(limit):
            await check(bench)
    finally:
        with trio.CancelScope(shield=True):
            await bench.close()
