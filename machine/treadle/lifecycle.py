"""The lifecycle: one table, on one screen (contract §2).

The table is the machine. ``transitions`` holds and moves the state from it, the kernel runs the verbs of the row it
took, and diagrams, reference docs, the Promela export and the coverage reports are made from it. Which trigger an
input means is decided by the kernel before the table is asked, so rows have no guards. Nothing else in treadle
compares lifecycle states to decide where to go.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import Enum, unique
from typing import Any, Protocol, cast

from attrs import frozen
from transitions import Machine, MachineError
from transitions.core import Event as StockEvent

from .errors import InvalidTrigger
from .pictures import picture
from .verbs import (
    Verb,
    abort_activity,
    begin_maintenance,
    block_turn,
    claim_step,
    claim_turn,
    close_step,
    close_turn,
    drop_latch,
    end_aborted,
    fail_turn,
    finish_disposal,
    latch_wake,
    open_step,
    open_turn,
    park,
    reread,
    start_running,
    stop_running,
    stop_turn,
)


@unique
class State(Enum):
    """Where an agent is in its life."""

    IDLE = "idle"
    ADMISSION = "admission"
    STEP = "step"
    TURN_STOPPING = "turn_stopping"
    CANCEL_CONVERGENCE = "cancel_convergence"
    MAINTENANCE = "maintenance"
    DISPOSAL = "disposal"
    DISPOSED = "disposed"

    __hash__ = object.__hash__


@unique
class Trigger(Enum):
    """What can happen to an agent, refined so that each leads to one state only."""

    WAKE = "wake"
    LATCH = "latch"
    REPLAY = "replay"
    ENTER = "enter"
    REFUSE = "refuse"
    EMPTY = "empty"
    CONTINUE = "continue"
    REST = "rest"
    OBJECT = "object"
    CLOSE_TO_NEXT = "close_to_next"
    CLOSE = "close"
    FAIL = "fail"
    CANCEL = "cancel"
    CONVERGE = "converge"
    MAINTAIN = "maintain"
    RELEASE = "release"
    RELEASE_TO_NEXT = "release_to_next"
    DISPOSE = "dispose"
    DRAIN = "drain"

    __hash__ = object.__hash__


@frozen
class Row:
    """One transition: in ``source``, ``trigger`` leads to ``dest`` and runs ``verbs`` in order."""

    source: State
    trigger: Trigger
    dest: State
    verbs: tuple[Verb, ...] = ()


IDLE, ADMISSION, STEP, TURN_STOPPING, CANCEL_CONVERGENCE, MAINTENANCE, DISPOSAL, DISPOSED = State
(
    WAKE, LATCH, REPLAY, ENTER, REFUSE, EMPTY, CONTINUE, REST, OBJECT, CLOSE_TO_NEXT, CLOSE, FAIL,
    CANCEL, CONVERGE, MAINTAIN, RELEASE, RELEASE_TO_NEXT, DISPOSE, DRAIN,
) = Trigger  # fmt: skip

# fmt: off
TABLE: tuple[Row, ...] = (
    # an idle agent owns no task; a wake opens its turn in the call itself (L2)
    Row(IDLE,               WAKE,            ADMISSION,          (drop_latch, start_running, open_turn, claim_turn)),
    Row(IDLE,               LATCH,           IDLE,               (latch_wake,)),
    Row(IDLE,               REPLAY,          ADMISSION,          (drop_latch, start_running, open_turn, claim_turn)),
    Row(IDLE,               MAINTAIN,        MAINTENANCE,        (begin_maintenance,)),
    Row(IDLE,               DISPOSE,         DISPOSED,           (finish_disposal,)),

    # admission: from the claim to the decision about the step (§5)
    Row(ADMISSION,          ENTER,           STEP,               (open_step,)),
    Row(ADMISSION,          EMPTY,           ADMISSION,          (claim_step,)),
    Row(ADMISSION,          CLOSE_TO_NEXT,   ADMISSION,          (close_turn, open_turn, claim_turn)),
    Row(ADMISSION,          CLOSE,           IDLE,               (close_turn, stop_running)),
    Row(ADMISSION,          REFUSE,          IDLE,               (block_turn, stop_running, park)),
    Row(ADMISSION,          FAIL,            IDLE,               (fail_turn, stop_running, park)),
    Row(ADMISSION,          WAKE,            ADMISSION),
    Row(ADMISSION,          CANCEL,          CANCEL_CONVERGENCE, (abort_activity,)),
    Row(ADMISSION,          DISPOSE,         DISPOSAL,           (abort_activity,)),

    # a step: request, attempts, tools
    Row(STEP,               CONTINUE,        ADMISSION,          (close_step, claim_step)),
    Row(STEP,               REST,            TURN_STOPPING,      (close_step, stop_turn)),
    Row(STEP,               FAIL,            IDLE,               (close_step, fail_turn, stop_running, park)),
    Row(STEP,               WAKE,            STEP),
    Row(STEP,               CANCEL,          CANCEL_CONVERGENCE, (abort_activity,)),
    Row(STEP,               DISPOSE,         DISPOSAL,           (abort_activity,)),

    # nothing is owed and nothing presses: the turn is about to close (T4)
    Row(TURN_STOPPING,      CLOSE,           IDLE,               (close_turn, stop_running)),
    Row(TURN_STOPPING,      CLOSE_TO_NEXT,   ADMISSION,          (close_turn, open_turn, claim_turn)),
    Row(TURN_STOPPING,      OBJECT,          ADMISSION,          (claim_step,)),
    Row(TURN_STOPPING,      FAIL,            IDLE,               (fail_turn, stop_running, park)),
    Row(TURN_STOPPING,      WAKE,            TURN_STOPPING),
    Row(TURN_STOPPING,      CANCEL,          CANCEL_CONVERGENCE, (abort_activity,)),
    Row(TURN_STOPPING,      DISPOSE,         DISPOSAL,           (abort_activity,)),

    # from a cancel until everything started has settled and is recorded (§6); a latched wake is replayed from idle
    Row(CANCEL_CONVERGENCE, CONVERGE,        IDLE,               (close_step, end_aborted, stop_running, reread)),
    Row(CANCEL_CONVERGENCE, WAKE,            CANCEL_CONVERGENCE, (latch_wake,)),
    Row(CANCEL_CONVERGENCE, DISPOSE,         DISPOSAL),

    # one task between turns; public status stays idle (§7)
    Row(MAINTENANCE,        RELEASE,         IDLE,               (drop_latch, park)),
    Row(MAINTENANCE,        RELEASE_TO_NEXT, ADMISSION,          (drop_latch, start_running, open_turn, claim_turn)),
    Row(MAINTENANCE,        WAKE,            MAINTENANCE,        (latch_wake,)),
    Row(MAINTENANCE,        CANCEL,          CANCEL_CONVERGENCE, (abort_activity,)),
    Row(MAINTENANCE,        DISPOSE,         DISPOSAL,           (abort_activity,)),

    # the end (O4)
    Row(DISPOSAL,           DRAIN,           DISPOSED,           (close_step, end_aborted, stop_running, finish_disposal)),
)
# fmt: on

INITIAL = IDLE

# --- the machine ------------------------------------------------------------------------------------------------------


class Stateful(Protocol):
    """What the machine moves: anything that holds a ``state``."""

    state: State


class FastEvent(StockEvent):
    """An event whose rows have no callbacks: freezes ``{source: dest}`` at first use and moves the state directly.

    ``transitions`` offers ``Machine.event_cls`` for such classes. A state without a row goes the stock way, which
    raises. A test holds that both ways agree on every (state, trigger) pair.
    """

    _frozen: dict[State, State] | None = None

    def trigger(self, model: Any, *args: Any, **kwargs: Any) -> bool:
        """Move ``model``; raises ``MachineError`` when the table has no such row."""
        table = self._frozen
        if table is None:
            states = cast("dict[str, list[Any]]", self.transitions)
            table = self._frozen = {
                _BY_NAME[source]: _BY_NAME[moves[0].dest] for source, moves in states.items() if len(moves) == 1
            }
        dest = table.get(model.state)
        if dest is None:
            return bool(super().trigger(model, *args, **kwargs))  # pyright: ignore[reportUnknownMemberType]
        model.state = dest
        return True


_BY_NAME: dict[str, State] = {state.name: state for state in State}


class FastMachine(Machine):
    """The stock machine with the fast event class."""

    event_cls = FastEvent


def build_machine(rows: Iterable[Row] = TABLE, *, fast: bool = True) -> Machine:
    """Build the machine of a table. It belongs to no agent: all share it, and it moves whatever it is given.

    Args:
        rows: the transitions.
        fast: ``False`` takes the stock path of ``transitions``, callbacks, queue and all.
    """
    moves = [{"trigger": row.trigger.name, "source": row.source, "dest": row.dest} for row in rows]
    kind = FastMachine if fast else Machine
    return kind(model=None, states=State, transitions=moves, initial=INITIAL, auto_transitions=False)  # type: ignore[arg-type]


class Lifecycle:
    """A table made runnable: the machine that moves states, and the rows whose verbs the kernel runs."""

    def __init__(self, rows: Iterable[Row] = TABLE, *, fast: bool = True) -> None:
        self.rows = tuple(rows)
        check_table(self.rows)
        self.machine = build_machine(self.rows, fast=fast)
        self._rows: dict[State, dict[Trigger, Row]] = {state: {} for state in State}
        for row in self.rows:
            self._rows[row.source][row.trigger] = row
        events = cast("dict[str, Any]", self.machine.events)
        self._move = {trigger: events[trigger.name].trigger for trigger in {row.trigger for row in self.rows}}

    def allows(self, state: State, trigger: Trigger) -> bool:
        """Whether the table lists ``trigger`` for ``state``."""
        return trigger in self._rows[state]

    def fire(self, model: Stateful, trigger: Trigger) -> Row:
        """Move ``model`` along its row and return the row.

        Raises:
            InvalidTrigger: the table has no such row; the state is unchanged (L1).
        """
        row = self._rows[model.state].get(trigger)
        try:
            if row is None:
                raise MachineError(f"no row for {trigger.name} in {model.state.name}")
            self._move[trigger](model)
        except MachineError as error:
            raise InvalidTrigger(
                f"the lifecycle has no row for {trigger.name} in {model.state.name} (L1): a fault of the caller"
            ) from error
        return row

    def _repr_svg_(self) -> str | None:
        return picture("lifecycle_svg", self)


def check_table(rows: Iterable[Row]) -> None:
    """Check a table: no duplicate (state, trigger), no unreachable state, no dead end but ``DISPOSED``.

    Raises:
        ValueError: it is no sound lifecycle.
    """
    rows = tuple(rows)
    seen: set[tuple[State, Trigger]] = set()
    for row in rows:
        if (row.source, row.trigger) in seen:
            raise ValueError(f"two rows for {row.trigger.name} in {row.source.name}")
        seen.add((row.source, row.trigger))
    reached, todo = {INITIAL}, [INITIAL]
    while todo:
        source = todo.pop()
        fresh = {row.dest for row in rows if row.source is source} - reached
        reached |= fresh
        todo += fresh
    if reached != set(State):
        raise ValueError(f"unreachable: {sorted(state.name for state in set(State) - reached)}")
    for state in State:
        leads_on = any(row.source is state and row.dest is not state for row in rows)
        if leads_on is (state is DISPOSED):
            raise ValueError(f"{state.name} must {'not ' if leads_on else ''}lead on")


LIFECYCLE = Lifecycle(fast=os.environ.get("TREADLE_STOCK_MACHINE") != "1")
"""The one machine of the process. ``TREADLE_STOCK_MACHINE=1`` in the environment takes the stock path."""
