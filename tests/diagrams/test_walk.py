"""Walks: counted, timed, merged, and read from coverage files."""

import json
from pathlib import Path

import pytest

from treadle import MisuseError, State
from treadle.errors import InvalidData
from treadle.testing import TABLE, Row, Trigger
from treadle_diagrams import (
    Passage,
    Visit,
    Walk,
    coverage_text,
    merge_walks,
    read_coverage,
    walk_of_coverage,
    walk_through,
)

S, T = State, Trigger


def test_passages_are_counted_by_row():
    walk = walk_through([(S.IDLE, T.WAKE), Passage(S.ADMISSION, T.CLOSE), (S.IDLE, T.WAKE)])
    assert walk == Walk({("IDLE", "WAKE"): Visit(2), ("ADMISSION", "CLOSE"): Visit(1)})
    assert walk.count(("IDLE", "WAKE")) == 2
    assert walk.count(("STEP", "REST")) == 0


def test_a_row_s_time_is_what_was_spent_in_its_state_and_loops_do_not_restart_the_clock():
    walk = walk_through(
        [(S.IDLE, T.WAKE, 100), (S.ADMISSION, T.ENTER, 110), (S.STEP, T.WAKE, 115), (S.STEP, T.FAIL, 150)]
    )
    assert walk.visits["IDLE", "WAKE"] == Visit(1, None, 100, 100)
    assert walk.visits["ADMISSION", "ENTER"].spent == 10
    assert walk.visits["STEP", "WAKE"].spent is None
    assert walk.visits["STEP", "FAIL"].spent == 40


def test_a_passage_without_a_time_leaves_the_times_around_it_unknown():
    walk = walk_through([(S.IDLE, T.WAKE, 100), (S.ADMISSION, T.ENTER), (S.STEP, T.FAIL, 150)])
    assert [visit.spent for visit in walk.visits.values()] == [None, None, None]


@pytest.mark.rule("L1")
def test_a_passage_without_a_row_is_refused_unless_its_own_table_is_given():
    with pytest.raises(MisuseError, match="no row for REST in IDLE"):
        walk_through([(S.IDLE, T.REST)])
    assert walk_through([(S.IDLE, T.REST)], [*TABLE, Row(S.IDLE, T.REST, S.STEP)]).count(("IDLE", "REST")) == 1


def test_walks_over_many_logs_are_merged_into_one():
    one = walk_through([(S.IDLE, T.WAKE, 100), (S.ADMISSION, T.ENTER, 110)])
    other = walk_through([(S.IDLE, T.WAKE, 50), (S.ADMISSION, T.ENTER, 55), (S.STEP, T.REST)])
    merged = merge_walks([one, other])
    assert merged.visits["ADMISSION", "ENTER"] == Visit(2, 15, 55, 110)
    assert merged.visits["STEP", "REST"] == Visit(1)
    assert merge_walks([]) == Walk()
    assert merge_walks([one]) == one


def test_a_coverage_file_comes_back_as_it_was_written(tmp_path: Path):
    walk = walk_through([(S.IDLE, T.WAKE, 1), (S.ADMISSION, T.CLOSE, 2), (S.IDLE, T.WAKE, 3)])
    path = tmp_path / "coverage.json"
    path.write_text(coverage_text(walk))
    assert json.loads(path.read_text()) == {"rows": {"ADMISSION CLOSE": 1, "IDLE WAKE": 2}}
    assert (
        read_coverage(path)
        == read_coverage(str(path))
        == Walk({("ADMISSION", "CLOSE"): Visit(1), ("IDLE", "WAKE"): Visit(2)})
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is JSON like"),
        (b"\xff", "is JSON like"),
        ("[]", "an object under"),
        ('{"rows": 3}', "an object under"),
        ('{"rows": {"IDLE": 3}}', "named by state and trigger"),
        ('{"rows": {"IDLE WAKE": true}}', "a whole number"),
        ('{"rows": {"IDLE WAKE": -1}}', "a whole number"),
    ],
)
def test_what_is_no_coverage_file_is_refused_with_what_it_should_be(text: str | bytes, told: str):
    with pytest.raises(InvalidData, match=told):
        walk_of_coverage(text)
