"""When a replica may act, and when others take it for dead: nobody's clock but one's own (P2)."""

import pytest

from treadle.errors import LeaseLost, SessionLocked
from treadle_adapters.cluster.lease import RunningLease
from treadle_adapters.cluster.peers import Peers, in_turn


def lease_at(time: list[float]) -> RunningLease:
    lease = RunningLease("me", 10.0, lambda: time[0])
    lease.renew(0.0)
    return lease


@pytest.mark.rule("P2")
def test_a_replica_acts_no_more_before_anybody_buries_it() -> None:
    time = [0.0]
    lease = lease_at(time)
    time[0] = 7.9
    lease.check()
    time[0] = 8.0
    with pytest.raises(LeaseLost, match="no beat was on record") as told:
        lease.check()
    assert told.value.code == "LEASE_LOST"
    assert isinstance(told.value, SessionLocked)


@pytest.mark.rule("P2")
def test_a_lease_that_was_lost_is_not_taken_up_again_and_a_late_beat_shortens_none() -> None:
    time = [0.0]
    lease = lease_at(time)
    lease.renew(5.0)
    lease.renew(1.0)
    time[0] = 12.0
    lease.check()
    time[0] = 13.0
    with pytest.raises(LeaseLost):
        lease.check()
    lease.renew(13.0)
    with pytest.raises(LeaseLost):
        lease.check()


@pytest.mark.rule("P2")
def test_a_session_that_was_taken_over_is_lost_alone() -> None:
    lease = lease_at([0.0])
    lease.fenced("s")
    lease.check("other")
    with pytest.raises(LeaseLost, match="session 's'"):
        lease.check("s")
    lease.owned("s")
    lease.check("s")


def looks(peers: Peers, *seen: tuple[float, int]) -> list[list[tuple[str, int]]]:
    return [peers.look(at, {"a": (beat, 10.0)}) for at, beat in seen]


@pytest.mark.rule("P2")
def test_a_replica_is_dead_when_its_beats_do_not_change_for_a_lease() -> None:
    assert looks(Peers(5.0), (0, 1), (4, 1), (8, 2), (12, 2), (16, 2), (17.9, 2)) == [[]] * 6
    assert looks(Peers(5.0), (0, 2), (4, 2), (8, 2), (10, 2))[-1] == [("a", 2)]


@pytest.mark.rule("P2")
def test_time_in_which_nobody_could_look_is_nobodys_death() -> None:
    """The server was away for longer than a lease: all get a whole one again."""
    seen = looks(Peers(5.0), (0, 1), (4, 1), (30, 1), (34, 1), (38, 1), (39.9, 1), (40, 1))
    assert seen == [[], [], [], [], [], [], [("a", 1)]]


@pytest.mark.rule("P2")
def test_one_that_is_gone_and_comes_again_is_new() -> None:
    peers = Peers(5.0)
    peers.look(0, {"a": (1, 10.0)})
    peers.look(4, {})
    peers.look(8, {"a": (1, 10.0)})
    assert peers.look(12, {"a": (1, 10.0)}) == []


@pytest.mark.rule("P2")
def test_those_who_take_over_begin_at_different_ones_of_the_dead() -> None:
    dead = [f"dead {number}" for number in range(20)]
    orders = [in_turn(f"me {number}", reversed(dead)) for number in range(40)]
    assert all(sorted(order) == sorted(dead) for order in orders)
    assert len({order[0] for order in orders}) > 10
    assert in_turn("me 0", dead) == orders[0]
