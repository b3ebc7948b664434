"""The travel agent, checked: pytest examples/checked_agent, a minute or two."""

from functools import partial

import pytest
from hypothesis import given, settings
from travel import FAULTS, Office, make_agent

from treadle import Answer, Call
from treadle_specs.agents import Scenario, Turn, World, check_agent
from treadle_specs.agents.conversations import answers

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
    bookings = world.outside.bookings
    assert len(bookings) == len(set(bookings))


def test_the_travel_agent_is_sound(agent_check):
    agent_check(make_agent, JOURNEY, invariant=booked_once, outside=Office)


async def search(place: str) -> str:
    """Search flights to a place."""
    return place


@settings(max_examples=10, deadline=None)
@given(answers([search], most=3))
def test_whatever_the_model_says_the_turn_ends(said):
    check_agent(make_agent, Turn("Go.", *said), outside=Office, sweeps=[])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault):
    careless = partial(make_agent, fault=fault)
    report = check_agent(careless, JOURNEY, invariant=booked_once, outside=Office, raising=False)
    print(report)
    assert report.findings
