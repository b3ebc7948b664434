"""Which replica gets a session."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle_adapters.cluster.ray import Load, choose, moves

LOADS = st.dictionaries(
    st.integers(0, 30).map(lambda number: f"r-{number}"),
    st.builds(Load, st.integers(0, 200)),
    min_size=1,
    max_size=8,
)


def test_the_one_with_the_least_to_do_gets_it_and_what_runs_weighs_more() -> None:
    assert choose({"a": Load(3), "b": Load(2), "c": Load(4)}) == "b"
    assert choose({"a": Load(3), "b": Load(2, running=2)}) == "a"


def test_sessions_of_one_affinity_come_together_until_there_is_too_much() -> None:
    loads = {f"r-{number}": Load(10) for number in range(5)}
    home = choose(loads, "ada")
    assert {choose({**loads, home: Load(count)}, "ada") for count in range(13)} == {home}
    assert choose({**loads, home: Load(60)}, "ada") != home
    assert len({choose(loads, f"user {number}") for number in range(50)}) == 5


def test_when_a_replica_goes_only_its_own_affinities_move() -> None:
    loads = {f"r-{number}": Load(10) for number in range(5)}
    fewer = {name: load for name, load in loads.items() if name != "r-3"}
    for number in range(50):
        before = choose(loads, f"user {number}")
        assert before == "r-3" or choose(fewer, f"user {number}") == before


def test_where_there_is_no_replica_that_is_said() -> None:
    with pytest.raises(ValueError, match="no replica"):
        choose({})
    assert moves({}) == []


@given(LOADS)
def test_moves_even_out_and_none_is_in_vain(loads: dict[str, Load]) -> None:
    after = {name: load.sessions for name, load in loads.items()}
    givers, takers = set[str](), set[str]()
    for giver, taker, count in moves(loads):
        assert count > 0
        after[giver] -= count
        after[taker] += count
        givers.add(giver)
        takers.add(taker)
    assert max(after.values()) - min(after.values()) <= 1
    assert not givers & takers
    assert sum(after.values()) == sum(load.sessions for load in loads.values())


@given(LOADS, st.none() | st.text(max_size=5))
def test_somebody_is_chosen(loads: dict[str, Load], affinity: str | None) -> None:
    assert choose(loads, affinity) in loads
