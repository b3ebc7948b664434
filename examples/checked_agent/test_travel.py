"""The travel agent, tested: pytest examples/checked_agent"""

from functools import partial

import pytest
from travel import FAULTS, Office, make_agent

from treadle import Answer, Call
from treadle_specs.agents import Scenario, Turn, World, check_agent

JOURNEY = Scenario(
    [
        Turn(
            "A weekend in Oslo, please.",
            Answer(calls=[Call("search", {"place": "Oslo"}), Call("search", {"place": "Bergen"})]),
            Answer(calls=[Call("research", {"prompt": "Oslo"}), Call("convert", {"euros": 120})]),
            "There is a flight at nine. Shall I book it?",
        ),
        Turn(
            "Yes.",
            Answer(calls=[Call("book", {"flight": "SK 4"}), Call("ticket", {"flight": "SK 4"})]),
            "It is booked.",
        ),
    ],
    children={"Oslo": ["It rains there."]},
)


def booked_once(world: World) -> None:
    """Nobody flies twice, whatever happened."""
    assert world.outside.bookings.count("SK 4") <= 1


def test_the_travel_agent_is_sound():
    print(check_agent(make_agent, JOURNEY, invariant=booked_once, outside=Office))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault):
    report = check_agent(
        partial(make_agent, fault=fault), JOURNEY, invariant=booked_once, outside=Office, raising=False
    )
    assert report.findings, fault
    print(report)
