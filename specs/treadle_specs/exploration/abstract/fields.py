"""The variables of the abstraction, and the numbers that stand for states, operations and messages."""

from __future__ import annotations

from treadle import State
from treadle.testing import Row, Trigger

IDLE, ADMISSION, STEP, TURN_STOPPING, CANCEL_CONVERGENCE, MAINTENANCE, DISPOSAL, DISPOSED = range(8)
NOTHING, ADMIT, REQUEST, RECOVER, TOOLS, STOP, MAINTAIN_TASK, PROCEED = range(8)
FREE, PENDING, CLAIMED, ACCEPTED = range(4)
PLAIN, PLAIN_WAKING, TAGGED, TAGGED_WAKING = range(1, 5)
USER, DISPOSE_CAUSE = 1, 2
STEPS = 2

CONSTANTS: dict[str, int] = {
    **{state.name: number for number, state in enumerate(State)},
    "NOTHING": 0,
    "ADMIT": 1,
    "REQUEST": 2,
    "RECOVER": 3,
    "TOOLS": 4,
    "STOP": 5,
    "MAINTAIN_TASK": 6,
    "PROCEED": 7,
    "FREE": 0,
    "PENDING": 1,
    "CLAIMED": 2,
    "ACCEPTED": 3,
    "PLAIN": 1,
    "PLAIN_WAKING": 2,
    "TAGGED": 3,
    "TAGGED_WAKING": 4,
    "USER": USER,
    "DISPOSE_CAUSE": DISPOSE_CAUSE,
    "STEPS": STEPS,
}
"""Every constant by its name, as the exported model defines them.

States have their own names. What is owed (L7) is ``NOTHING`` to ``PROCEED``. The tagged message is ``FREE`` before it is
sent, and again once it has met its fate (I5). A place of a list is 0 when it is empty; a waking entry in next-step
presses. A turn may have ``STEPS`` steps and fails when it wants more (T11).
"""

FIELDS: dict[str, tuple[str, int]] = {
    "state": ("byte", IDLE),
    "owed": ("byte", NOTHING),
    "tag": ("byte", FREE),
    "nt0": ("byte", 0),
    "nt1": ("byte", 0),
    "ns0": ("byte", 0),
    "ns1": ("byte", 0),
    "steps": ("byte", 0),
    "cause": ("byte", 0),
    "turn_open": ("bit", 0),
    "step_open": ("bit", 0),
    "running": ("bit", 0),
    "latched": ("bit", 0),
    "reserved": ("bit", 1),
    "owes": ("bit", 0),
    "prepared": ("bit", 0),
    "handed": ("bit", 0),
    "retried": ("bit", 0),
    "reread": ("bit", 0),
    "wanted": ("bit", 0),
    "signalled": ("bit", 0),
    "finished": ("bit", 0),
    "quiet": ("bit", 0),
}
"""The variables that make up a state, with type and first value.

An agent begins held back, as one that is being created (O0). ``wanted``, ``signalled``, ``finished`` and ``quiet``
observe: what the contract says the latch should be, whether the signal is set, whether the end was told, and whether the
callers have fallen silent.
"""

SCRATCH: tuple[str, ...] = ("ended", "told")
"""Zero between two steps: whether an activity ended in this one, and whether what it left behind was told."""


class Abstract:
    """One state of the abstraction, with the table that moves it."""

    __slots__ = (*FIELDS, *SCRATCH, "table")

    state: int
    owed: int
    tag: int
    nt0: int
    nt1: int
    ns0: int
    ns1: int
    steps: int
    cause: int
    turn_open: int
    step_open: int
    running: int
    latched: int
    reserved: int
    owes: int
    prepared: int
    handed: int
    retried: int
    reread: int
    wanted: int
    signalled: int
    finished: int
    quiet: int
    ended: int
    told: int

    def __init__(self, table: dict[tuple[int, Trigger], Row]) -> None:
        self.table = table
        for name, (_, first) in FIELDS.items():
            setattr(self, name, first)
        self.ended = self.told = 0
