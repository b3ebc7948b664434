"""The faults planted in shell, pipeline, presets and write path, and how the machines met them; a part of the page of verification."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ..conformance.faults import Fault, planted
from ..machines.budget import chosen, run_machine
from ..machines.faults import FAULTS
from ..machines.host.machine import HostMachine
from ..machines.writer.machine import WriterMachine

MACHINES: dict[str, Any] = {"host machine": HostMachine, "writer machine": WriterMachine}
PROGRAMS = 250

HEAD = """\
## Machines

    pytest tests/specs/machines

A whole host is driven by drawn programs on virtual time: several agents, their children, presets, reservations, tools of every
kind, listeners that do what the API allows, on a store that is slow, fails and acknowledges late, killed and opened anew. The
write path of stores has a machine of its own, and two writers of one session are stopped at any line of the stores. Each call
is predicted, and what was acknowledged has to be there after a kill; whatever is recorded has been told between any two batches
of tasks. Chance seldom makes calls that wait for each other, requests that fail again and again, a cancel in the middle of a
hook, or a creation that fails in the middle: such situations have rules that lead to them on purpose. These faults were planted,
one at a time; no exploration of the kernel can see them.

| fault | breaks | caught by | as | seconds |
| --- | --- | --- | --- | ---: |
"""

TAIL = """
What the host machine cannot see: it always listens, so what is left out where nobody does is held by the tests of the loop; a
name that is registered and never looked at changes nothing in it; and what only costs time, such as a wait that is longer than
it has to be and ends, breaks none of its rules.
"""


def section(faults: Sequence[Fault] = FAULTS) -> str:
    """The section: plants each fault and has its machine look for it."""
    return HEAD + "".join([_row(fault) for fault in faults]) + TAIL


def _row(fault: Fault) -> str:
    began, found = time.process_time(), "**survived**"
    try:
        with planted(fault):
            run_machine(MACHINES[fault.seen_by], chosen(PROGRAMS, repeat=True, shrink=False))
    except AssertionError as broken:
        found = getattr(broken, "rule", "an assertion")
    spent = time.process_time() - began
    return f"| {fault.name} | {', '.join(fault.rules)} | {fault.seen_by} | {found} | {spent:.1f} |\n"
