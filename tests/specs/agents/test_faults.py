"""A check of agents finds what careless authors write, and names the line."""

from __future__ import annotations

import time

import pytest

from tests.specs.agents.faulty import FAULTS
from treadle_specs.agents import check_agent

SECONDS = 30.0
"""Of processor time, for each."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.sampled(2)
def test_a_fault_is_found_and_its_line_is_named(name: str) -> None:
    fault = FAULTS[name]
    began = time.process_time()
    report = check_agent(fault.make, fault.scenario, raising=False, **fault.options)
    assert time.process_time() - began < SECONDS
    (finding,) = report.findings
    assert finding.problem.kind == fault.kind, str(report)
    assert finding.site is not None
    assert finding.site.file.endswith("tests/specs/agents/faulty.py")
    if fault.line != "account.paid += 1  # in a thread":  # a death comes after the call, so that its function is named
        assert finding.site.text == fault.line, str(report)
    else:
        assert finding.site.function.endswith("pay")
