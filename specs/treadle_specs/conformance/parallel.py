"""The search in several processes: each draws from a seed of its own, and tells how far it is (§7)."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import closing
from typing import Any

from attrs import evolve

from .findings import Findings
from .plan import Plan
from .process_rig import Rigs
from .search import search
from .survey import Survey

APART = 100_000
"""The seeds of two processes are this far from each other, so that none draws what another drew."""
OFTEN_S = 0.3
"""How often progress is told."""
_told: Any = None


def search_command(command: str, plan: Plan, known: Survey, tell: Callable[[Findings], None] | None = None) -> Findings:
    """Search with as many processes as the plan has jobs.

    Args:
        command: starts a rig.
        plan: what is asked for; its examples are shared out.
        known: what the driver has.
        tell: told now and then what was found so far.
    """
    if plan.jobs <= 1:
        with closing(Rigs(command, plan.timeout)) as rigs:
            return search(rigs.make, plan, known, tell)
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    whole = Findings(plan.seconds, plan.examples, plan.rounds, plan.rules)
    with ProcessPoolExecutor(plan.jobs, context, _keep, (queue,)) as pool:
        parts = [pool.submit(_part, command, share, known, job) for job, share in enumerate(_shares(plan))]
        _follow(set(parts), queue, tell)
        for part in parts:
            whole.add(part.result())
    return whole


def _follow(parts: set[Future[Findings]], queue: Any, tell: Callable[[Findings], None] | None) -> None:
    latest: dict[int, Findings] = {}
    while parts:
        _, parts = wait(parts, OFTEN_S, FIRST_COMPLETED)
        while not queue.empty():
            job, found = queue.get()
            latest[job] = found
        if tell is not None and latest:
            so_far = Findings()
            for found in latest.values():
                so_far.add(found)
            tell(so_far)


def _shares(plan: Plan) -> list[Plan]:
    return [
        evolve(plan, seed=plan.seed + job * APART, examples=plan.examples and -(-plan.examples // plan.jobs))
        for job in range(plan.jobs)
    ]


def _keep(queue: Any) -> None:
    global _told  # noqa: PLW0603 (one per worker process)
    _told = queue


def _part(command: str, plan: Plan, known: Survey, job: int) -> Findings:
    last = 0.0

    def tell(found: Findings) -> None:
        nonlocal last
        if time.monotonic() - last >= OFTEN_S:
            last = time.monotonic()
            _told.put((job, evolve(found, tell=None, broken=dict(found.broken), faults=list(found.faults))))

    with closing(Rigs(command, plan.timeout)) as rigs:
        found = search(rigs.make, plan, known, tell)
    found.tell = None
    return found
