"""Mutants of the lifecycle table: a sample is killed here, all of them by ``python -m treadle_specs.exploration.mutants``."""

from __future__ import annotations

import json

import pytest

from treadle import State
from treadle.testing import TABLE, Lifecycle
from treadle_specs.exploration import mutants
from treadle_specs.exploration.mutants import EQUIVALENT, Grade, Mutant

pytestmark = pytest.mark.slow

ALL = list(mutants.mutants())
BY_NAME = {mutant.name: mutant for mutant in ALL}
VERBS = [mutant for mutant in ALL if mutant.kind == "verb"]
OTHERS = [mutant for mutant in ALL if mutant.kind != "verb"]


def test_every_row_verb_and_target_gives_a_mutant_of_its_own() -> None:
    verbs = sum(len(row.verbs) for row in TABLE)
    assert len(BY_NAME) == len(ALL) == len(TABLE) * len(State) + verbs
    assert all(mutant.rows != TABLE for mutant in ALL)


@pytest.mark.parametrize("mutant", VERBS[::3] + OTHERS[::12], ids=lambda mutant: mutant.name)
def test_a_mutant_is_killed_or_known_to_be_equivalent(mutant: Mutant) -> None:
    graded = mutants.grade(mutant)
    assert graded.verdict == ("equivalent" if mutant.name in EQUIVALENT else "killed")


def test_every_equivalent_mutant_is_one_of_the_table_and_has_its_reason() -> None:
    for name, reason in EQUIVALENT.items():
        assert name in BY_NAME
        assert len(reason) > 20


def test_the_table_itself_survives() -> None:
    assert mutants.kill_by_table(Mutant("none", "row", TABLE)) is None
    assert Lifecycle(TABLE).rows == TABLE


def test_a_further_layer_can_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "kill_by_explorer", lambda mutant: None)
    (name,) = EQUIVALENT
    graded = mutants.grade(BY_NAME[name], extra=[("suite", lambda mutant: f"noticed {mutant.kind}")])
    assert graded.killed == {"suite": "noticed verb"}


def test_the_report_counts_by_kind_and_layer() -> None:
    grades = [
        Grade("STEP REST deleted", "row", {"table": "a dead end"}),
        Grade("STEP REST without close_step", "verb", {"explorer": "[T10] …", "suite": "stuck"}),
        Grade("STEP REST to IDLE", "target"),
        Grade(next(iter(EQUIVALENT)), "verb"),
    ]
    score = mutants.summary(grades)
    assert (score["mutants"], score["killed"], score["survived"]) == (4, 2, ["STEP REST to IDLE"])
    assert score["killed_by"] == {"table": 1, "explorer": 1, "suite": 1}
    assert json.loads(mutants.as_json(grades))["grades"][0]["verdict"] == "killed"
    assert "| verb deleted | 2 | 1 | 0 | 1 | 1 |" in mutants.as_markdown(grades)
    assert "survived: `STEP REST to IDLE`" in mutants.as_markdown(grades)
