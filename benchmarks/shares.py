"""Where the time goes of a turn, a step, and a host under load: ``python -m benchmarks.shares``, the shares of rooms and libraries.

A signal comes every few milliseconds of processor time, and what runs then is noted: whose function it is, not what called it. What C
code does counts for the function that called it, and a collection of garbage for whoever was making something.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import FrameType

import trio

import treadle

from .instructions import WORKS
from .load import carry

KINDS: Mapping[str, tuple[Callable[[int], Awaitable[object]], int]] = {
    "turn": (WORKS["turn"].ours, 15_000),
    "step": (WORKS["tool-step"].ours, 15_000),
    "agents over HTTP": (carry, 300),
}
"""What is sampled, and how many: turns, steps, agents of a host that are all answered at once while some are cancelled."""
EVERY = 0.001
"""Seconds of processor time between two signals; the system gives them at its own, coarser pace."""
LEAST = 0.01
"""A share below that is told with the others."""
_ADAPTERS = "treadle_adapters"
_CORE = str(Path(treadle.__file__).parent)


def owner(file: str) -> str:
    """Whose a source file is: a room of the core as ``treadle/loop``, a library, or ``Python``."""
    if file.startswith(_CORE):
        return f"treadle/{Path(file).relative_to(_CORE).parts[0].removesuffix('.py')}"
    parts = Path(file).parts
    if _ADAPTERS in parts:
        return "/".join([_ADAPTERS, parts[parts.index(_ADAPTERS) + 1].removesuffix(".py")])
    if "site-packages" in file:
        return file.rpartition("site-packages/")[2].partition("/")[0]
    if file.startswith("<attrs generated"):
        return "attrs"
    return "the benchmark" if f"{Path(__file__).parent}" in file else "Python"


def sample(kind: str, amount: int | None = None) -> dict[str, float]:
    """The shares of one kind of work, as much of it as ``KINDS`` says or ``amount``; those below ``LEAST`` are ``others``."""
    do, usual = KINDS[kind]
    seen: Counter[str] = Counter()

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the interface
        if frame is not None:
            seen[owner(frame.f_code.co_filename)] += 1

    before = signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
    try:
        trio.run(do, usual if amount is None else amount)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return shares(seen)


def shares(seen: Counter[str]) -> dict[str, float]:
    """Counts as shares of their sum."""
    total = max(1, seen.total())
    out = {name: count / total for name, count in seen.most_common() if count / total >= LEAST}
    rest = sum(seen.values()) / total - sum(out.values())
    return {**out, "others": rest} if rest > 1e-9 else out


def main() -> None:
    """Print the shares of each kind."""
    for kind in KINDS:
        print(kind)
        for name, share in sample(kind).items():
            print(f"  {share:6.1%}  {name}")


if __name__ == "__main__":
    sys.exit(main())
