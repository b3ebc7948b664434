"""A check of agents raises no false alarm."""

from __future__ import annotations

import pytest

from tests.specs.agents.careful import CAREFUL
from treadle_specs.agents import check_agent


@pytest.mark.slow
@pytest.mark.parametrize("name", CAREFUL)
def test_nothing_is_found_in_a_careful_agent(name: str) -> None:
    agent = CAREFUL[name]
    report = check_agent(agent.make, agent.scenario, keep_going=True, shrink=False, raising=False, **agent.options)
    assert report.sound, str(report)
    assert set(report.swept) == {"harm", "cancel", "dispose", "die", "steer", "followup", "order"}
    assert report.runs > 100
