"""The lifecycle: one table, on one screen (contract §2).

The table is the machine. ``transitions`` holds and moves the state from it, the kernel runs the verbs of the row it
took, and diagrams, reference docs, the Promela export and the coverage reports are made from it. Which trigger an
input means is decided by the kernel before the table is asked, so rows have no guards. Nothing else in treadle
compares lifecycle states to decide where to go.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Protocol, cast

from attrs import frozen
from transitions import EventData, Machine, MachineError, Transition
from transitions.core import Event as StockEvent

from ..errors import InvalidTrigger
from ..pictures import picture
from .state import INITIAL, KernelState, State, Trigger, Verb
from .verbs import (
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
"""The lifecycle: every move that an agent can make; what has no row here cannot happen (L1)."""

# --- the machine ------------------------------------------------------------------------------------------------------


class Stateful(Protocol):
    """What the machine moves: anything that holds a ``state``."""

    state: State


class Move(Transition):
    """A transition as the machine holds it: with the row that it was made from, verbs included."""

    def __init__(self, *args: Any, row: Row, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row = row


class RowEvent(StockEvent):
    """An event that moves the stock way, callbacks, queue and all, and returns the row that it moved along.

    Attributes:
        moves: its transitions by source; a source has one at most.
    """

    def __init__(self, name: str, machine: Machine) -> None:
        super().__init__(name, machine)
        self.moves: dict[State, Move] = {}

    def add_transition(self, transition: Transition) -> None:
        """See ``Event.add_transition``."""
        super().add_transition(transition)
        assert isinstance(transition, Move)
        self.moves[transition.row.source] = transition

    def trigger(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        """Move ``model`` and return the row; raises ``MachineError`` when the table has no such row."""
        return super().trigger(model, *args, **kwargs)

    def _trigger(self, event_data: EventData) -> Any:
        super()._trigger(event_data)
        return cast("Move", event_data.transition).row


class FastEvent(RowEvent):
    """An event whose rows have no callbacks: moves the state directly.

    ``transitions`` offers ``Machine.event_cls`` for such classes. A state without a row goes the stock way, which
    raises. A test holds that both ways agree on every (state, trigger) pair.
    """

    def trigger(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        """See ``RowEvent.trigger``."""
        move = self.moves.get(model.state)
        if move is None:
            return super().trigger(model, *args, **kwargs)
        row = move.row
        model.state = row.dest
        return row


class RowMachine(Machine):
    """The stock machine, whose transitions carry the rows of the table."""

    transition_cls = Move
    event_cls = RowEvent


class FastMachine(RowMachine):
    """The same with the fast event class."""

    event_cls = FastEvent


def build_machine(rows: Iterable[Row] = TABLE, *, fast: bool = True) -> RowMachine:
    """Build the machine of a table. It belongs to no agent: all share it, and it moves whatever it is given.

    Args:
        rows: the transitions. A trigger that none of them names is refused in every state.
        fast: ``False`` takes the stock path of ``transitions``.
    """
    moves: Any = [{"trigger": row.trigger.name, "source": row.source, "dest": row.dest, "row": row} for row in rows]
    states: Any = State
    kind = FastMachine if fast else RowMachine
    machine = kind(model=None, states=states, transitions=moves, initial=INITIAL, auto_transitions=False)
    for trigger in Trigger:
        machine.events.setdefault(trigger.name, kind.event_cls(trigger.name, machine))
    return machine


class Lifecycle:
    """A table made runnable. The machine alone holds what happens; ``rows`` is the card that it was made from.

    Attributes:
        allowed: the triggers that the machine takes in each state.
    """

    def __init__(self, rows: Iterable[Row] = TABLE, *, fast: bool = True) -> None:
        self.rows = tuple(rows)
        check_table(self.rows)
        self.machine = build_machine(self.rows, fast=fast)
        events = cast("dict[str, RowEvent]", self.machine.events)
        self._events = {trigger: events[trigger.name] for trigger in Trigger}
        self.allowed = {
            state: frozenset([trigger for trigger, event in self._events.items() if state in event.moves])
            for state in State
        }

    def allows(self, state: State, trigger: Trigger) -> bool:
        """Whether the table lists ``trigger`` for ``state``."""
        return trigger in self.allowed[state]

    def move(self, state: State, trigger: Trigger) -> Move:
        """The transition that ``trigger`` makes in ``state``.

        Raises:
            KeyError: the table has no such row.
        """
        return self._events[trigger].moves[state]

    def fire(self, model: Stateful, trigger: Trigger) -> Row:
        """Move ``model`` along its row and return the row; its verbs are not run.

        Raises:
            InvalidTrigger: the table has no such row; the state is unchanged (L1).
        """
        try:
            return self._events[trigger].trigger(model)
        except MachineError as error:
            raise InvalidTrigger(
                f"the lifecycle has no row for {trigger.name} in {model.state.name} (L1): a fault of the caller"
            ) from error

    def _repr_svg_(self) -> str | None:
        return picture("lifecycle_svg", self)


def fire(state: KernelState, trigger: Trigger) -> None:
    """Move along the row of ``trigger``, in the lifecycle that the kernel was given, and run its verbs."""
    for verb in state.lifecycle.fire(state, trigger).verbs:
        verb(state)


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
