"""Faults are planted into shell, pipeline, presets and write path; a machine must catch each within its budget."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from treadle.loop import turn_end
from treadle_specs.conformance.faults import Fault, planted
from treadle_specs.machines.budget import chosen, run_machine
from treadle_specs.machines.faults import FAULTS, altered
from treadle_specs.machines.host.machine import HostMachine
from treadle_specs.machines.writer.machine import WriterMachine

MACHINES: dict[str, Any] = {"host machine": HostMachine, "writer machine": WriterMachine}
PROGRAMS = 600
SECONDS = 60
"""Of processor time."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A broken driver complains; that is not what is looked at here."""
    before = logging.lastResort
    logging.lastResort = None
    yield
    logging.lastResort = before


@pytest.mark.slow
@pytest.mark.parametrize("fault", [pytest.param(one, id=one.name) for one in FAULTS])
@pytest.mark.sampled(2)
def test_the_machine_catches_the_fault_in_time(fault: Fault) -> None:
    began = time.process_time()
    with planted(fault), pytest.raises(AssertionError):
        run_machine(MACHINES[fault.seen_by], chosen(PROGRAMS, repeat=True, shrink=False))
    assert time.process_time() - began < SECONDS


def test_every_fault_names_rules_and_can_be_planted_and_is_gone_afterwards() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert fault.rules
        ((owner, name, _),) = fault.patches()
        held = owner if isinstance(owner, dict) else vars(owner)
        before = held[name]
        with planted(fault):
            assert held[name] is not before
        assert held[name] is before


def test_a_fault_whose_place_has_changed_is_not_planted_silently() -> None:
    with pytest.raises(LookupError, match="0 places"):
        altered(turn_end, "run_maintenance", "what is not there", "pass")()
