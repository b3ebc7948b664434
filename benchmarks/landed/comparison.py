"""Whether a change made something dearer: instructions by those of the floor, counted now, beside those that landed.

Times would tell it only of a quiet machine. The ratio to the floor is what is compared, as interpreters and libraries change both.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping

from .. import instructions
from .figures import FILE, Figures

MAY_BE = 0.15
"""How much dearer something may become, as a share."""

Counts = Mapping[str, tuple[float, float]]


def dearer(landed: Counts, now: Counts) -> list[str]:
    """What has become dearer by more than ``MAY_BE``, or is in one of the two only; sentences."""
    out = [f"{name} is counted and has not landed: land it" for name in now if name not in landed]
    for name, (ours, floor) in landed.items():
        if name not in now:
            out.append(f"{name} has landed and is counted no more: land the figures anew")
            continue
        before, after = ours / floor, now[name][0] / now[name][1]
        if after > before * (1 + MAY_BE):
            out.append(
                f"{name} costs {after:.2f} × its floor, {after / before - 1:.0%} more than the {before:.2f} × that landed"
            )
    return out


def compare(landed: Figures, count: Callable[[], Counts] = instructions.count) -> tuple[list[str], list[str]]:
    """Count now; what is amiss, then what else there is to say. What seems dearer is counted twice."""
    here = f"{platform.python_implementation()} {platform.python_version()}"
    if here.rpartition(".")[0] != landed.machine.python.rpartition(".")[0]:
        return [], [f"not compared: the figures are those of {landed.machine.python}, this is {here}"]
    if not instructions.available():
        return [], ["not compared: there is no valgrind here (Debian package: valgrind)"]
    now = dict(count())
    amiss = dearer(landed.instructions, now)
    if amiss:
        for name, (ours, floor) in count().items():
            now[name] = min(now[name], (ours, floor), key=lambda pair: pair[0] / pair[1])
        amiss = dearer(landed.instructions, now)
    if amiss:
        amiss.append(
            f"if it is worth it, say so in the change and land the figures: python -m benchmarks.landed --measure writes {FILE}"
        )
    return amiss, [_line(name, landed.instructions.get(name), pair) for name, pair in now.items()]


def _line(name: str, before: tuple[float, float] | None, now: tuple[float, float]) -> str:
    landed = f"{before[0] / before[1]:6.2f} × landed" if before else "has not landed"
    return f"{name:12} {now[0] / now[1]:6.2f} × its floor, {landed}"
