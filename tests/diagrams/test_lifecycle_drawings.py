"""The drawings of the lifecycle: they show the table, the whole table, and nothing but the table."""

import re
from collections.abc import Callable, Iterator
from enum import Enum
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import evolve, frozen
from transitions.extensions import GraphMachine

from treadle.kernel.lifecycle import INITIAL, TABLE, Row, State, Trigger
from treadle_diagrams import dot, mermaid, svg, table_markdown
from treadle_diagrams.lifecycle.graph import graph_of

FORMATS: dict[str, Callable[..., str]] = {"mermaid": mermaid, "dot": dot, "svg": svg, "table": table_markdown}


@frozen
class PluginRow:
    """A row over enums of a plugin's own."""

    source: Enum
    trigger: Enum
    dest: Enum
    verbs: tuple[Callable[..., Any], ...] = ()


class Foreign(Enum):
    REVIEW = "in review"
    ASK = "ask"


def with_row(index: int, *rows: Row) -> tuple[Row, ...]:
    return (*TABLE[:index], *rows, *TABLE[index + 1 :])


def tables_without_a_row() -> Iterator[tuple[Row, ...]]:
    return (with_row(index) for index in range(len(TABLE)))


def tables_with_another_dest() -> Iterator[tuple[Row, ...]]:
    for index, row in enumerate(TABLE):
        for dest in State:
            if dest is not row.dest:
                yield with_row(index, evolve(row, dest=dest))


def tables_with_another_source_or_trigger() -> Iterator[tuple[Row, ...]]:
    for index, row in enumerate(TABLE):
        yield from (with_row(index, evolve(row, source=state)) for state in State if state is not row.source)
        yield from (with_row(index, evolve(row, trigger=name)) for name in Trigger if name is not row.trigger)


def tables_without_a_verb() -> Iterator[tuple[Row, ...]]:
    for index, row in enumerate(TABLE):
        for place in range(len(row.verbs)):
            yield with_row(index, evolve(row, verbs=row.verbs[:place] + row.verbs[place + 1 :]))


def tables_with_two_verbs_swapped() -> Iterator[tuple[Row, ...]]:
    for index, row in enumerate(TABLE):
        for place in range(len(row.verbs) - 1):
            one, other = row.verbs[place : place + 2]
            yield with_row(index, evolve(row, verbs=(*row.verbs[:place], other, one, *row.verbs[place + 2 :])))


MUTANTS = {
    "a row is removed": tables_without_a_row,
    "a row leads elsewhere": tables_with_another_dest,
    "a row starts elsewhere or comes by another trigger": tables_with_another_source_or_trigger,
    "a verb is removed": tables_without_a_verb,
    "two verbs are swapped": tables_with_two_verbs_swapped,
}


@pytest.mark.slow
@pytest.mark.rule("L1")
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", MUTANTS)
def test_every_format_changes_whenever(kind: str, name: str):
    draw = FORMATS[name]
    whole = draw(TABLE)
    mutants = list(MUTANTS[kind]())
    assert len(mutants) > 20
    assert [rows for rows in mutants if draw(rows) == whole] == []


@pytest.mark.parametrize("name", FORMATS)
def test_a_drawing_says_the_same_each_time_it_is_made(name: str):
    assert FORMATS[name]() == FORMATS[name](list(TABLE)) == FORMATS[name](iter(TABLE))


@pytest.mark.parametrize("name", FORMATS)
def test_every_state_and_trigger_is_named_as_in_the_contract(name: str):
    drawn = FORMATS[name]()
    for member in (*State, *Trigger):
        assert re.search(rf"\b{member.value}\b", drawn), member


@pytest.mark.parametrize("name", FORMATS)
def test_a_table_of_a_plugin_is_drawn_with_its_own_states_and_triggers(name: str):
    rows = (
        *TABLE,
        PluginRow(State.STEP, Foreign.ASK, Foreign.REVIEW),
        PluginRow(Foreign.REVIEW, Trigger.DISPOSE, State.DISPOSAL),
    )
    drawn = FORMATS[name](rows)
    assert "in review" in drawn
    assert "ask" in drawn


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_table_is_drawn_empty(name: str):
    assert "idle" not in FORMATS[name]([])


def test_moves_between_the_same_two_states_share_one_arrow():
    arrows = {(arrow.source, arrow.dest): arrow for arrow in graph_of().arrows}
    assert [move.trigger for move in arrows["idle", "admission"].moves] == ["wake", "replay"]
    assert sum(len(arrow.moves) for arrow in arrows.values()) == len(TABLE)


def test_the_drawn_arrows_are_those_that_transitions_itself_draws():
    """The library's own graph of the same rows, as a second opinion."""
    moves = [{"trigger": row.trigger.name, "source": row.source, "dest": row.dest} for row in TABLE]
    machine = GraphMachine(
        model=SimpleNamespace(),
        states=State,
        transitions=moves,
        initial=INITIAL,
        auto_transitions=False,
        graph_engine="mermaid",
    )
    theirs = re.findall(r"^ *(\w+) --> (\w+): (.*)$", cast("Any", machine.get_combined_graph()).source, re.MULTILINE)
    ours = re.findall(r"^ *(\w+) --> (\w+) : (.*)$", mermaid().upper(), re.MULTILINE)
    assert {(source, dest, frozenset(told.split("<BR/>"))) for source, dest, told in ours} == {
        (source, dest, frozenset(told.split(" | "))) for source, dest, told in theirs
    }


# --- Mermaid and DOT --------------------------------------------------------------------------------------------------


def test_mermaid_and_dot_mark_where_an_agent_begins_and_ends():
    assert "[*] --> idle\n" in mermaid()
    assert "disposed --> [*]\n" in mermaid()
    assert 'begin -> "idle";' in dot()
    assert '"disposed" [peripheries=2];' in dot()


def test_mermaid_gets_plain_ids_for_states_with_other_names():
    drawn = mermaid([PluginRow(State.STEP, Foreign.ASK, Foreign.REVIEW)])
    assert 'state "in review" as in_review\n' in drawn
    assert "step --> in_review : ask\n" in drawn


# --- the tables -------------------------------------------------------------------------------------------------------


def test_each_cell_of_the_matrix_holds_the_dest_and_empty_cells_are_what_raises():
    head, _, *body = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table_markdown().split("\n\n")[0].splitlines()
    ]
    drawn = {
        (state, line[0].strip("*")): cell
        for line in body
        for state, cell in zip(head[1:], line[1:], strict=True)
        if cell
    }
    expected = {
        (row.source.value, row.trigger.value): "stays" if row.source is row.dest else row.dest.value for row in TABLE
    }
    assert drawn == expected


def test_the_lines_of_the_markdown_tables_are_aligned():
    for table in table_markdown().strip().split("\n\n"):
        assert len({len(line) for line in table.splitlines()}) == 1
