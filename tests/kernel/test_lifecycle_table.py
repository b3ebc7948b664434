"""The table, the machine built from it, and the checks that refuse a wrong one (contract §2)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from transitions import Machine, MachineError

from treadle import State
from treadle.errors import InvalidTrigger
from treadle.kernel.lifecycle import INITIAL, Move, build_machine, check_table
from treadle.testing import TABLE, Lifecycle, Row, Trigger

PAIRS = [(state, trigger) for state in State for trigger in Trigger]
LISTED = {(row.source, row.trigger): row for row in TABLE}
FAST, STOCK = Lifecycle(fast=True), Lifecycle(fast=False)


class Moved:
    """What the machine moves."""

    def __init__(self, state: State) -> None:
        self.state = state


def fire(lifecycle: Lifecycle, state: State, trigger: Trigger) -> tuple[Row | str, State]:
    model = Moved(state)
    try:
        outcome: Row | str = lifecycle.fire(model, trigger)
    except InvalidTrigger as error:
        outcome = str(error)
    return outcome, model.state


def move(machine: Machine, state: State, trigger: Trigger) -> tuple[str, State]:
    """What the machine itself does, without the checks around it."""
    model = Moved(state)
    try:
        outcome = str(machine.events[trigger.name].trigger(model))
    except MachineError as error:
        outcome = type(error).__name__
    return outcome, model.state


@pytest.mark.rule("L1")
@pytest.mark.parametrize(("state", "trigger"), PAIRS)
def test_the_fast_and_the_stock_machine_agree(state: State, trigger: Trigger) -> None:
    assert fire(FAST, state, trigger) == fire(STOCK, state, trigger)
    assert move(FAST.machine, state, trigger) == move(STOCK.machine, state, trigger)


@pytest.mark.rule("L1")
@pytest.mark.parametrize(("state", "trigger"), PAIRS)
def test_a_listed_pair_moves_along_its_row_and_any_other_raises_and_moves_nothing(
    state: State, trigger: Trigger
) -> None:
    outcome, after = fire(FAST, state, trigger)
    row = LISTED.get((state, trigger))
    assert FAST.allows(state, trigger) is (row is not None)
    if row is None:
        assert outcome == f"the lifecycle has no row for {trigger.name} in {state.name} (L1): a fault of the caller"
        assert after is state
    else:
        assert (outcome, after) == (row, row.dest)


@pytest.mark.rule("L1")
@pytest.mark.parametrize("lifecycle", [FAST, STOCK])
def test_the_machine_holds_the_rows_themselves_and_no_others(lifecycle: Lifecycle) -> None:
    for state, trigger in PAIRS:
        held = lifecycle.machine.get_transitions(trigger.name, state)
        rows = [move.row for move in held if isinstance(move, Move)]
        assert rows == [row for row in [LISTED.get((state, trigger))] if row is not None]
    assert lifecycle.move(State.IDLE, Trigger.WAKE).row is LISTED[State.IDLE, Trigger.WAKE]


@pytest.mark.rule("L1")
@pytest.mark.parametrize("fast", [True, False])
def test_a_trigger_that_no_row_names_is_refused_in_every_state(fast: bool) -> None:
    without = Lifecycle([row for row in TABLE if row.trigger is not Trigger.LATCH], fast=fast)
    for state in State:
        assert not without.allows(state, Trigger.LATCH)
        with pytest.raises(InvalidTrigger, match="no row for LATCH"):
            without.fire(Moved(state), Trigger.LATCH)


@pytest.mark.rule("L1")
def test_a_machine_without_a_row_raises_the_stock_error_the_fast_way_too() -> None:
    assert move(build_machine(fast=True), State.DISPOSED, Trigger.WAKE) == ("MachineError", State.DISPOSED)


@pytest.mark.rule("L1")
@pytest.mark.parametrize("changed", [{"TREADLE_STOCK_MACHINE": "1"}, {}])
def test_the_environment_switches_to_the_stock_machine(changed: dict[str, str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TREADLE_STOCK_MACHINE"}
    probe = "from treadle.kernel.lifecycle import LIFECYCLE as l; print(type(l.machine).__name__)"
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", probe],
        env={**environment, **changed, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ("RowMachine" if changed else "FastMachine")


@pytest.mark.rule("L1")
def test_the_shipped_table_is_sound_and_begins_idle() -> None:
    check_table(TABLE)
    assert INITIAL is State.IDLE


@pytest.mark.rule("L1")
def test_a_table_with_two_rows_for_one_trigger_is_refused() -> None:
    with pytest.raises(ValueError, match="two rows for WAKE in IDLE"):
        Lifecycle((*TABLE, Row(State.IDLE, Trigger.WAKE, State.STEP)))


@pytest.mark.rule("L1")
def test_a_table_with_an_unreachable_state_is_refused() -> None:
    rows = [row for row in TABLE if row.dest is not State.TURN_STOPPING or row.source is State.TURN_STOPPING]
    with pytest.raises(ValueError, match=r"unreachable: \['TURN_STOPPING'\]"):
        check_table(rows)


@pytest.mark.rule("L1")
def test_a_table_with_a_dead_end_is_refused() -> None:
    rows = [row for row in TABLE if row.source is not State.DISPOSAL]
    with pytest.raises(ValueError, match="DISPOSAL must lead on"):
        check_table(rows)


@pytest.mark.rule("L1")
def test_a_table_in_which_the_end_leads_on_is_refused() -> None:
    with pytest.raises(ValueError, match="DISPOSED must not lead on"):
        check_table((*TABLE, Row(State.DISPOSED, Trigger.WAKE, State.IDLE)))


@pytest.mark.rule("L1")
def test_no_two_states_and_no_two_triggers_share_a_name() -> None:
    assert len({state.value for state in State}) == len(State)
    assert {row.trigger for row in TABLE} == set(Trigger)
