"""Exploration of the shipped kernel: what it covers, what it notices, and that its counterexamples can be played."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from treadle.kernel import inputs as i
from treadle.kernel.kernel import Kernel
from treadle.testing import TABLE, Lifecycle
from treadle_specs.conformance.faults import FAULTS, planted
from treadle_specs.exploration import explorer, search
from treadle_specs.exploration.alphabet import Alphabet
from treadle_specs.exploration.liveness import Graph
from treadle_specs.exploration.properties import PROPERTIES
from treadle_specs.exploration.renaming import renamed
from treadle_specs.exploration.rig_script import rig_case
from treadle_specs.exploration.search import Search
from treadle_specs.exploration.violation import Violation
from treadle_specs.model.model import Model

from .walks import expected_log, play, random_walk, reduced

pytestmark = pytest.mark.slow

BY_NAME = {fault.name: fault for fault in FAULTS}


@pytest.fixture(scope="module")
def report() -> explorer.Report:
    return explorer.explore(2)


@pytest.mark.rule("I5", "I6", "L4", "T10", "N1", "N3", "N4", "L5", "L7", "L9", "O4", "C2", "C9")
def test_every_property_holds_in_every_state(report: explorer.Report) -> None:
    assert report.counterexample is None
    assert report.complete
    assert report.holds


@pytest.mark.rule("L1")
def test_every_row_of_the_table_is_taken(report: explorer.Report) -> None:
    assert set(report.rows) == {(row.source.name, row.trigger.name) for row in TABLE}
    assert report.unvisited == []


def test_the_exploration_is_not_a_small_one(report: explorer.Report) -> None:
    assert sum(found.states for found in report.findings) > 30_000
    assert sum(found.transitions for found in report.findings) > 500_000


def test_the_report_tells_programs_what_it_tells_people(report: explorer.Report) -> None:
    told = json.loads(json.dumps(report.as_json()))
    assert told["holds"] is True
    assert told["states"] == sum(found.states for found in report.findings)
    assert len(told["properties"]) == len(PROPERTIES)
    lines = explorer.report_lines(report)
    assert lines[-1] == f"{len(PROPERTIES)} properties hold in every state"


def test_a_bound_on_time_leaves_the_exploration_incomplete_and_the_status_says_so() -> None:
    said: list[str] = []
    assert explorer.explore_command(3, 0.2, out=said.append) == 1
    assert "(stopped)" in "".join(said)


def test_several_processes_find_what_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SHARED_FROM", 100)
    alphabet = Alphabet(1, calls=1, inbox=False)
    one, several = Search(alphabet).run(), Search(alphabet).run(jobs=2)
    assert several.complete
    assert (one.states, one.transitions, one.rows) == (several.states, several.transitions, several.rows)


def test_what_breaks_in_another_process_is_shown_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SHARED_FROM", 1)
    with planted(BY_NAME["late steering is dropped"]):
        one, several = [Search(Alphabet(1, inbox=False)).run(jobs=jobs).counterexample for jobs in (1, 2)]
    assert one is not None
    assert several is not None
    assert (several.rule, len(several.inputs)) == (one.rule, len(one.inputs))


# --- what it notices --------------------------------------------------------------------------------------------------


@pytest.mark.rule("D4", "L2")
def test_a_lost_wake_is_shown_by_a_shortest_way() -> None:
    broken = Search(Alphabet(1, calls=1), BY_NAME["a wake is lost on cancel"].table).run().counterexample
    assert broken is not None
    assert broken.rule in ("D4", "L2")
    assert [type(given).__name__ for given in broken.inputs] == ["BeginMaintenance", "Cancel", "Deliver"]


def test_a_changed_table_is_explored_instead_of_the_shipped_one() -> None:
    rows = [row for row in TABLE if (row.source.name, row.trigger.name) != ("STEP", "WAKE")]
    report = explorer.explore(1, rows=rows)
    assert report.counterexample is not None
    assert report.counterexample.rule in ("L9", "C3"), "without that row a running agent looks disposed"


def test_a_state_that_can_never_rest_is_found() -> None:
    graph = Graph()
    graph.state(settled=True, converging=False)
    graph.state(settled=False, converging=False)
    graph.edge(1, 1)
    with pytest.raises(Violation, match="L7") as broken:
        graph.check()
    assert broken.value.at == 1


@pytest.mark.rule("C4", "N7")
def test_a_convergence_that_goes_round_in_a_circle_is_found() -> None:
    graph = Graph()
    graph.state(settled=True, converging=False)
    for _ in range(2):
        graph.state(settled=False, converging=True)
    graph.edge(1, 2)
    graph.edge(2, 1)
    graph.edge(2, 0)
    with pytest.raises(Violation, match="N7"):
        graph.check()


# --- counterexamples as scripts ---------------------------------------------------------------------------------------


def test_a_counterexample_is_saved_as_a_case_that_the_shipped_driver_passes(tmp_path: Path) -> None:
    with planted(BY_NAME["a latch is tied to nothing"]):
        broken = Search(Alphabet(1, calls=1)).run().counterexample
    assert broken is not None
    path = explorer.save_case(broken, tmp_path)
    (case,) = json.loads(path.read_text(encoding="utf-8"))
    assert case["rules"] == [broken.rule]
    _, last = play(case)
    assert last["ok"]


def test_in_a_script_no_id_is_used_twice() -> None:
    start = Kernel(pool=2)
    first = next(
        given for given in Alphabet(1).inputs(Model(pool=2)) if isinstance(given, i.Deliver) and not given.wakeup
    )
    again = renamed([first, i.RemoveMessage("m1"), first], start)
    assert [given.message.id for given in again if isinstance(given, i.Deliver)] == ["u1", "u2"]
    case = rig_case("twice", [], [first, i.RemoveMessage("m1"), first], start)
    assert [step["do"] for step in case["steps"]] == ["deliver", "inbox", "deliver", "settle"]


@pytest.mark.parametrize("seed", range(40))
def test_a_walk_of_the_kernel_played_on_the_rig_leaves_the_same_log(seed: int) -> None:
    chance = random.Random(seed)
    start = Kernel(pool=2, max_steps=chance.choice([None, None, 2]))
    inputs = random_walk(chance, start, chance.randint(5, 40))
    log, _ = play(rig_case(f"walk {seed}", [], inputs, start))
    expected = expected_log(inputs, start)
    assert reduced(log)[: len(expected)] == reduced(expected)


def test_a_table_that_is_no_lifecycle_is_refused_before_it_is_explored() -> None:
    with pytest.raises(ValueError, match="unreachable"):
        Lifecycle([row for row in TABLE if row.dest.name != "MAINTENANCE"])
