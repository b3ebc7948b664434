"""Faults planted in the kernel alone: exploration catches each, in less than a minute of processor time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from treadle_specs.conformance.faults import FAULTS, Fault, planted
from treadle_specs.conformance.kernel_faults import KERNEL_FAULTS
from treadle_specs.exploration.explorer import explore

pytestmark = pytest.mark.slow

SECONDS = 60
each_fault = pytest.mark.parametrize("fault", [pytest.param(one, id=one.name) for one in KERNEL_FAULTS])


def test_every_fault_has_a_name_of_its_own_and_the_rules_that_it_breaks() -> None:
    assert len(KERNEL_FAULTS) >= 25
    assert len({fault.name for fault in (*FAULTS, *KERNEL_FAULTS)}) == len(FAULTS) + len(KERNEL_FAULTS)
    assert all(fault.rules for fault in KERNEL_FAULTS)


@each_fault
def test_exploration_catches_the_fault(fault: Fault, record_property: Any) -> None:
    started = time.process_time()
    with planted(fault):
        broken = explore(1, rows=fault.table).counterexample or explore(2, rows=fault.table).counterexample
    seconds = time.process_time() - started
    assert broken is not None
    record_property("caught", f"[{broken.rule}] {broken.message}")
    record_property("seconds", seconds)
    assert seconds < SECONDS
