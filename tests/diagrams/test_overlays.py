"""Walks laid over the text drawings, and many logs laid over one another."""

import pytest

from tests.diagrams.logs import scripted
from treadle import MisuseError, State
from treadle.testing import TABLE, Trigger
from treadle_diagrams import Visit, Walk, dot, merge_walks, mermaid, svg, table_markdown, walk_of, walk_through
from treadle_specs.rig.scripts import SCRIPTS

S, T = State, Trigger
WALK = walk_through([(S.IDLE, T.WAKE, 0), (S.ADMISSION, T.ENTER, 12), (S.STEP, T.WAKE, 500), (S.STEP, T.REST, 1512)])


def test_mermaid_shows_count_and_time_behind_each_walked_trigger():
    drawn = mermaid(walked=WALK)
    assert "step --> turn_stopping : rest ×1 1.5s\n" in drawn
    assert "step --> step : wake ×1\n" in drawn
    assert "maintenance --> maintenance : wake\n" in drawn


def test_dot_marks_the_walked_arrows_and_greys_the_others():
    lines = dot(walked=WALK).splitlines()
    walked = [line for line in lines if "penwidth" in line]
    assert len(walked) == 4
    assert all("×1" in line for line in walked)
    assert sum('color="#d0d7de"' in line for line in lines) == sum(" -> " in line for line in lines) - 4 - 1


def test_the_table_has_a_column_for_what_was_walked():
    rows = table_markdown(walked=WALK).split("\n\n")[1].splitlines()
    assert rows[0].split("|")[-2].strip() == "walked"
    told = {tuple(cell.strip() for cell in row.split("|")[1:3]): row.split("|")[-2].strip() for row in rows[2:]}
    assert told["step", "rest"] == "×1 1.5s"
    assert told["idle", "latch"] == ""
    assert len(told) == len(TABLE)


@pytest.mark.parametrize("draw", [mermaid, dot, table_markdown, svg])
def test_a_walk_on_another_table_is_refused_rather_than_hidden(draw):
    with pytest.raises(MisuseError, match="SOMEWHERE ELSE"):
        draw(walked=Walk({("SOMEWHERE", "ELSE"): Visit(1)}))


def test_many_logs_are_one_walk_with_counts_and_times_summed():
    walks = [walk_of(scripted(name)) for name in SCRIPTS]
    both = merge_walks(walks)
    for row in TABLE:
        key = (row.source.name, row.trigger.name)
        assert both.count(key) == sum(walk.count(key) for walk in walks)
    assert both.count(("STEP", "CANCEL")) == 4
    assert "cancel ×4" in mermaid(walked=both)


def test_a_state_can_be_marked_as_the_one_an_agent_is_in():
    assert 'class="state cancel now" data-state="cancel_convergence"' in svg(current=S.CANCEL_CONVERGENCE)
    assert '" now"' not in svg()
