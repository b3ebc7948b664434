"""Fleets that are simulated: what befalls them, and that the page tells what comes out."""

import random
from pathlib import Path

import pytest
import trio
from attrs import evolve

from treadle_adapters.cluster import Replica
from treadle_adapters.simulation import Plan, deploy, rack, stall, steady
from treadle_adapters.simulation.__main__ import main
from treadle_adapters.simulation.database import Database, ModelLink
from treadle_adapters.simulation.page import CHECKED, FLEETS, ROWS, column, lease_for, table

PAGE = Path(__file__).parent.parent.parent / "docs" / "operations.md"
SMALL = Plan(replicas=8, sessions=40)


def test_the_same_seed_gives_the_same_figures_and_another_one_others() -> None:
    assert rack(SMALL) == rack(SMALL)
    assert deploy(SMALL) == deploy(SMALL)
    assert rack(SMALL) != rack(evolve(SMALL, seed=2))


@pytest.mark.rule("P2")
def test_a_quiet_fleet_beats_and_looks_and_nobody_is_buried() -> None:
    quiet = steady(SMALL)
    assert quiet.lost == 0
    assert 3.5 < quiet.statements / SMALL.replicas < 4.5
    assert 0 < quiet.beat_p99 < 0.01


@pytest.mark.rule("P2", "P4")
def test_sessions_of_a_rack_go_on_once_a_lease_has_passed_and_are_shared_out() -> None:
    dead = rack(evolve(SMALL, sessions=400))
    assert (dead.died, dead.sessions, dead.lost) == (1, 400, 0)
    assert 8 < dead.found <= dead.median <= dead.recovered < 16
    assert dead.most < 4, "one replica takes nearly all"


@pytest.mark.rule("P2")
def test_in_a_deploy_nobody_waits_for_a_lease() -> None:
    rolled = deploy(SMALL)
    assert rolled.lost == 0
    assert rolled.longest < SMALL.lease / 2


@pytest.mark.rule("P2")
@pytest.mark.parametrize("away", [3, 6, 12])
def test_the_lease_that_is_advised_bears_a_database_that_is_away_for_so_long(away: float) -> None:
    plan = Plan(replicas=6, sessions=1, lease=lease_for(away))
    assert stall(plan, away).lost == 0
    assert stall(plan, plan.lease).lost == 6


@pytest.mark.rule("P2", "P4")
def test_when_every_lease_is_lost_all_sessions_go_on_in_new_replicas() -> None:
    stood = stall(evolve(SMALL, sessions=300), SMALL.lease)
    assert stood.lost == SMALL.replicas
    assert SMALL.restart < stood.recovered < 4 * SMALL.lease
    assert stood.most < 4


def test_more_processors_of_the_database_resume_a_rack_sooner() -> None:
    crowd = Plan(replicas=25, sessions=2_000, processors=1)
    assert rack(evolve(crowd, processors=8)).recovered < rack(crowd).recovered


def test_a_policy_that_takes_all_it_can_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What decides is the replica that ships: changed, the figures change."""
    sound = rack(evolve(SMALL, sessions=400))
    monkeypatch.setattr("treadle_adapters.cluster.heir.RESUMING", 10_000)
    assert rack(evolve(SMALL, sessions=400)).most > sound.most


def test_a_replica_that_beats_too_rarely_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    init = Replica.__init__

    def lazy(self: Replica, *args: object, **options: object) -> None:
        init(self, *args, **options)  # type: ignore[arg-type]
        self._interval *= 4.5

    monkeypatch.setattr(Replica, "__init__", lazy)
    assert steady(SMALL).lost > 0


def test_a_statement_that_the_model_does_not_know_is_named(autojump_clock: trio.testing.MockClock) -> None:
    async def ask() -> None:
        link = ModelLink(Database(1), random.Random(1), 1.0)
        await link.run(lambda conn: conn.execute("vacuum"))

    with pytest.raises(AssertionError, match=r"knows no such statement.*vacuum"):
        trio.run(ask)


def test_the_command_tells_all_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--replicas", "3", "--sessions", "20", "--lease", "5"]) == 0
    told = capsys.readouterr().out
    assert [line.partition(": ")[0] for line in told.splitlines()] == [row.partition(": ")[0] for row in ROWS.values()]


def test_the_page_says_what_the_simulation_gives() -> None:
    """The small fleets are simulated again; the others are when the page is made."""
    text = PAGE.read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    for number, plan in enumerate(FLEETS[:CHECKED]):
        figures = column(plan)
        for name, meaning in ROWS.items():
            if name != "replicas":
                found = [row[number + 1].strip(" |") for row in rows if row[0] == f"| {meaning}"]
                assert found == [figures[name]], f"{meaning}: {PAGE.name} is stale; see its first line"
    assert table([]).count("\n") == len(ROWS) + 1
