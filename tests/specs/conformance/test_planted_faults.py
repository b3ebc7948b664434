"""Faults are planted in our own driver; the stateful suite and another layer must each catch every one of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, settings

from treadle_specs.conformance.faults import FAULTS, Fault, planted
from treadle_specs.conformance.oracle import Oracle
from treadle_specs.conformance.stateful import Suite, profile, run_suite
from treadle_specs.conformance.sweeps import SCENARIOS, sweep
from treadle_specs.exploration.explorer import explore
from treadle_specs.exploration.violation import Violation

pytestmark = pytest.mark.slow

SECONDS = 20
CHOSEN = settings(profile(600), phases=(Phase.generate,))
each_fault = pytest.mark.parametrize("fault", [pytest.param(one, id=one.name) for one in FAULTS])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A broken driver complains; that is not what is looked at here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_at_least_twelve_faults_are_planted_each_with_the_rules_it_breaks() -> None:
    assert len({fault.name for fault in FAULTS}) >= 12
    assert all(fault.rules for fault in FAULTS)


@each_fault
@pytest.mark.sampled(2)
def test_the_stateful_suite_catches_the_fault_in_time(fault: Fault, record_property: Any) -> None:
    oracle = Oracle()
    suite = type("Faulty", (Suite,), {"oracle": oracle, "lost": []})
    started = time.process_time()
    with planted(fault), oracle.installed(), pytest.raises(AssertionError) as caught:
        run_suite(suite, CHOSEN)
    seconds = time.process_time() - started
    record_property("caught", f"{caught.value}")
    record_property("seconds", seconds)
    assert seconds < SECONDS


@each_fault
@pytest.mark.sampled(2)
def test_another_layer_catches_the_fault_too(fault: Fault) -> None:
    if fault.seen_by == "explorer":
        with planted(fault):
            assert explore(2, rows=fault.table, max_seconds=SECONDS).counterexample is not None
        return
    with planted(fault), pytest.raises(Violation):
        sweep_all()


def sweep_all() -> None:
    for scenario in SCENARIOS.values():
        sweep(scenario, {"do": "cancel", "cause": "user", "keep_inbox": True})


def test_a_fault_is_gone_when_it_was_planted() -> None:
    for fault in FAULTS:
        with planted(fault):
            pass
    oracle = Oracle()
    with oracle.installed():
        run_suite(type("Sound", (Suite,), {"oracle": oracle, "lost": []}), profile(20, 15))
